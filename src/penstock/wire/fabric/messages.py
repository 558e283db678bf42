"""What hub and edges say to each other over a fabric: records, and the bytes they are sent as (MessagePack).

One payload is one message. A hub owns items and decides about sessions; an edge has clients. What is said when, and
what is done about what gets lost, is in `penstock.cluster`. Calls carry the name of a method and arguments whose types
are known to both sides: see `calls`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

# Nodes that speak another version of this protocol do not talk to each other: each says so in its log.
VERSION = 2

# What happens to an item, in `Happening`.
UPDATE = 0
SNAPSHOT = 1
END_OF_SNAPSHOT = 2
CLEAR = 3
DIFFERENCES = 4
# An event that brings those in the item's mode up to date, after its data adapter was gone; not for those in RAW mode.
REPAIR = 5

Event: TypeAlias = dict[str, str | None]


class FabricError(Exception):
    """A payload that is not a message; the text says why."""


# -- from an edge ------------------------------------------------------------------------------------------------------


class Hello(Struct, tag="hello", array_like=True, frozen=True):
    """The first message of an edge to a hub, and its answer to `Stranger`.

    `run` is different each time that the edge's process starts. Calls and interests of another run are forgotten.
    """

    version: int
    release: str
    node: str
    run: str


class Interest(Struct, tag="interest", array_like=True, frozen=True):
    """The edge wants an item. Answered by `Picture` or `NoItem`; asked again, with the same ticket, until it is.

    `ticket` is a number of the edge's own, and higher each time that it wants the item again. `question` is higher each
    time that the edge has to know anew; only the answer to the latest counts. `mode` is RAW, MERGE, DISTINCT or
    COMMAND; an interest in RAW becomes one in another mode by being asked again with it. `run` is that of `Hello`: what
    a former process of the edge has wanted means nothing any more.
    """

    run: str
    ticket: int
    question: int
    adapter_set: str
    data_adapter: str
    item: str
    mode: str


class Release(Struct, tag="release", array_like=True, frozen=True):
    """Nobody at the edge wants the item any more."""

    run: str
    ticket: int


class Alive(Struct, tag="alive", array_like=True, frozen=True):
    """Once a second from an edge: what it has of each stream of `Happened`, by the number of the last message without
    a gap before it; and how many interests it has, with the sum of their tickets, so that a difference is noticed.
    """

    epoch: int
    run: str
    received: dict[int, int]
    interests: int
    ticket_sum: int


# -- from a hub --------------------------------------------------------------------------------------------------------


class SharedSet(Struct, array_like=True, frozen=True):
    """An adapter set as edges need to know it. `token` is another one whenever the set has been made anew."""

    name: str
    token: str
    data_adapters: tuple[str, ...]


class Welcome(Struct, tag="welcome", array_like=True, frozen=True):
    """The answer to `Hello`, and what a hub says whenever its adapter sets are others."""

    version: int
    release: str
    node: str
    epoch: int
    sets: tuple[SharedSet, ...]


class Stranger(Struct, tag="stranger", array_like=True, frozen=True):
    """The hub does not know the edge, or has forgotten it: it is to say `Hello`, and all that it wants, again."""

    epoch: int


class Picture(Struct, tag="picture", array_like=True, frozen=True):
    """What an item is: all that the mode keeps of it, up to and with the happening of this number.

    `run` is that of the edge which has asked: the process after it counts its tickets anew, and may want another item
    by the same. `handle` names the item in `Happened` as long as the epoch lasts. `in_snapshot`: the data adapter has
    not sent all of its snapshot yet. `orders` are difference formats by field.
    """

    epoch: int
    run: str
    ticket: int
    question: int
    handle: int
    number: int
    mode: str
    events: tuple[Event, ...]
    in_snapshot: bool
    orders: dict[str, str]


class NoItem(Struct, tag="no-item", array_like=True, frozen=True):
    """The interest of this run of an edge is refused: another mode is in use, or there is no such adapter.

    `reason` is a name of `Reason`.
    """

    epoch: int
    run: str
    ticket: int
    question: int
    reason: str
    text: str


class Happening(Struct, array_like=True, frozen=True):
    """Something that happened to an item: its number there, which is one more than that of the one before."""

    handle: int
    number: int
    kind: int
    event: Event | None


class Happened(Struct, tag="happened", array_like=True, frozen=True):
    """What happened in one turn of the hub's loop. `stream` and `sequence` tell an edge whether it has all messages of
    the stream. Made by `encode_happened`.
    """

    epoch: int
    stream: int
    sequence: int
    happenings: list[Happening]


class HubBeat(Struct, tag="beat", array_like=True, frozen=True):
    """Once a second from the hub: the last message of each stream that the edge is to have, by its number."""

    epoch: int
    sent: dict[int, int]


# -- both ways ---------------------------------------------------------------------------------------------------------


class Call(Struct, tag="call", array_like=True, frozen=True):
    """A question. It may come more than once with the same number; it is done once. `body` depends on the method.

    Numbers below `floor` are settled: they do not come again, and their answers need not be kept. It is begun after the
    call with the number `after`, if there is one.
    """

    epoch: int
    run: str
    number: int
    method: str
    body: Raw
    floor: int = 0
    after: int = 0


class CallDone(Struct, tag="done", array_like=True, frozen=True):
    run: str
    number: int
    body: Raw


class CallNoted(Struct, tag="noted", array_like=True, frozen=True):
    """The call has come and is not done yet: said when it comes again."""

    run: str
    number: int


class CallRefused(Struct, tag="refused", array_like=True, frozen=True):
    """The answer is a refusal. `reason` is a name of `Reason`, `code` what an adapter has given; see `calls`."""

    run: str
    number: int
    reason: str
    text: str
    code: int | None = None


FabricMessage: TypeAlias = (
    Hello
    | Interest
    | Release
    | Alive
    | Welcome
    | Stranger
    | Picture
    | NoItem
    | Happened
    | HubBeat
    | Call
    | CallDone
    | CallNoted
    | CallRefused
)


# A `Happening` that is yet to be sent: a tuple is the cheapest to make, because this is done with every event.
NewHappening: TypeAlias = tuple[int, int, int, Mapping[str, str | None] | None]


class _NewHappened(Struct, tag="happened", array_like=True, frozen=True):
    """`Happened`, to be encoded."""

    epoch: int
    stream: int
    sequence: int
    happenings: Sequence[NewHappening]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[FabricMessage] = msgspec.msgpack.Decoder(FabricMessage)


def encode(message: FabricMessage) -> bytes:
    return _ENCODER.encode(message)


def decode(payload: bytes) -> FabricMessage:
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FabricError(f"{len(payload)} bytes that are not a message: {error}") from None


def encode_happened(epoch: int, stream: int, sequence: int, happenings: Sequence[NewHappening]) -> bytes:
    return _ENCODER.encode(_NewHappened(epoch, stream, sequence, happenings))
