"""What the TLEX hub and nodes with TLEX connections say to each other: bodies of the call `tlex`, in both directions.

Each is a list of words, in the order in which they were said; calls about TLEX are done in order and once
(`penstock.cluster.calling`). What the words mean is decided in `penstock.exchange`, by `outpost` and `outposts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from penstock.wire.fabric.messages import FabricError
from penstock.wire.tlex.vocabulary import EndReason, Protocol, SecurityMode, SessionType

# The method of these calls.
TLEX = "tlex"


# -- from a node -------------------------------------------------------------------------------------------------------


class TlexOffered(Struct, tag="offered", array_like=True, frozen=True):
    """Where clients may connect at this node. An empty host is the one that a client has asked the hub at."""

    host: str
    port: int
    tls_port: int | None


class TlexWithdrawn(Struct, tag="withdrawn", array_like=True, frozen=True):
    """Nobody may connect there any more."""


class TlexShown(Struct, tag="shown", array_like=True, frozen=True):
    """A peer shows a token. Answered by `TlexAdmitted` or `TlexDenied` with the same ticket.

    `seconds` is how long ago it has connected.
    """

    ticket: int
    token: str
    security: SecurityMode
    seconds: float


class TlexPublished(Struct, tag="published", array_like=True, frozen=True):
    """Payloads of a session, within its limits: frames as they came."""

    session: str
    frames: list[bytes]


class TlexFigures(Struct, array_like=True, frozen=True):
    """What only the node knows of a session: payloads that were written and dropped, unknown datagrams, the peer's
    clock in milliseconds (None: not known yet), and when its last byte came, in milliseconds since 1970.
    """

    sent: int
    dropped: int
    unknown: int
    latency: float | None
    difference: float | None
    average: float | None
    last_seen: int


class TlexMeasured(Struct, tag="measured", array_like=True, frozen=True):
    """Once a second, of sessions whose figures have changed."""

    figures: dict[str, TlexFigures]


class TlexLeaving(Struct, tag="leaving", array_like=True, frozen=True):
    """The node has asked the peer to reconnect, because it goes down."""

    session: str


class TlexLeft(Struct, tag="left", array_like=True, frozen=True):
    """The connection of a session is closed. `figures` are its last; None if it was never here."""

    session: str
    end: EndReason
    figures: TlexFigures | None


NodeWord: TypeAlias = TlexOffered | TlexWithdrawn | TlexShown | TlexPublished | TlexMeasured | TlexLeaving | TlexLeft


# -- from the hub ------------------------------------------------------------------------------------------------------


class TlexLimits(Struct, array_like=True, frozen=True):
    """See `penstock.exchange.settings.HubLimits`."""

    keep_alive_seconds: float
    clock_difference_millis: int
    clock_difference_window_seconds: float
    payloads_per_second: int
    payloads_window_seconds: float
    kilobytes_per_second: int
    kilobytes_window_seconds: float
    max_identifiers: int


class TlexAdmitted(Struct, tag="admitted", array_like=True, frozen=True):
    """The token was right, and is used up: this is its session."""

    ticket: int
    session: str
    session_type: SessionType
    protocol: Protocol
    limits: TlexLimits


class TlexDenied(Struct, tag="denied", array_like=True, frozen=True):
    ticket: int


class TlexDelivered(Struct, tag="delivered", array_like=True, frozen=True):
    """Payloads for sessions of this node, in their form."""

    sessions: list[str]
    frames: list[bytes]


class TlexDismissed(Struct, tag="dismissed", array_like=True, frozen=True):
    """The hub has ended a session, or does not know it. `farewell` is a name of `Farewell`."""

    session: str
    farewell: str
    details: str


class TlexReconnected(Struct, tag="reconnected", array_like=True, frozen=True):
    """The peer is to be asked to reconnect; if it stays, it is told this farewell after a while."""

    session: str
    farewell: str


HubWord: TypeAlias = TlexAdmitted | TlexDenied | TlexDelivered | TlexDismissed | TlexReconnected


# -- bytes -------------------------------------------------------------------------------------------------------------

_ENCODER = msgspec.msgpack.Encoder()
_OF_NODES: msgspec.msgpack.Decoder[list[NodeWord]] = msgspec.msgpack.Decoder(list[NodeWord])
_OF_HUBS: msgspec.msgpack.Decoder[list[HubWord]] = msgspec.msgpack.Decoder(list[HubWord])


def encode_words(words: Sequence[NodeWord] | Sequence[HubWord]) -> bytes:
    return _ENCODER.encode(words)


def decode_node_words(body: Raw | bytes) -> list[NodeWord]:
    """Raises a FabricError."""
    try:
        return _OF_NODES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FabricError(f"words of a TLEX node: {error}") from None


def decode_hub_words(body: Raw | bytes) -> list[HubWord]:
    """Raises a FabricError."""
    try:
        return _OF_HUBS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FabricError(f"words of a TLEX hub: {error}") from None
