"""Messages with a field more or less than this release knows: they are read as they were meant, or not at all."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from penstock.wire.fabric.messages import (
    Alive,
    Call,
    CallDone,
    CallNoted,
    CallRefused,
    FabricError,
    FabricMessage,
    Happened,
    Happening,
    Hello,
    HubBeat,
    Interest,
    NoItem,
    Picture,
    Release,
    SharedSet,
    Stranger,
    Welcome,
    decode,
    encode,
)

NIL = msgspec.Raw(b"\xc0")
MESSAGES: list[FabricMessage] = [
    Hello(1, "r", "n", "run"),
    Interest("run", 1, 2, "S", "D", "item", "MERGE"),
    Release("run", 1),
    Alive(9, "run", {1: 2}, 1, 1),
    Welcome(1, "r", "n", 9, (SharedSet("S", "t", ("D",)),)),
    Stranger(9),
    Picture(9, "run", 1, 2, 3, 4, "MERGE", ({"f": "v"},), False, {}),
    NoItem(9, "run", 1, 2, "reason", "text"),
    Happened(9, 1, 2, [Happening(3, 4, 0, {"f": "v"})]),
    HubBeat(9, {1: 2}),
    Call(9, "run", 1, "m", NIL, 1, 1),
    CallDone("run", 1, NIL),
    CallNoted("run", 1),
    CallRefused("run", 1, "reason", "text", 7),
]


def with_fields(message: FabricMessage, fields: list[object]) -> bytes:
    return msgspec.msgpack.encode([type(message).__struct_config__.tag, *fields])


def test_every_message_is_here() -> None:
    assert {type(each) for each in MESSAGES} == set(get_args(FabricMessage))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_field_more_at_the_end_changes_nothing(message: FabricMessage) -> None:
    more = with_fields(message, [*msgspec.structs.astuple(message), {"new": [1, None]}])
    assert encode(decode(more)) == encode(message)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_without_some_of_its_fields_has_their_defaults_or_is_none(message: FabricMessage) -> None:
    values = list(msgspec.structs.astuple(message))
    fields = msgspec.structs.fields(message)
    for count in range(len(values)):
        payload = with_fields(message, values[:count])
        if all(not each.required for each in fields[count:]):
            meant = type(message)(*values[:count], *[each.default for each in fields[count:]])
            assert encode(decode(payload)) == encode(meant)
        else:
            with pytest.raises(FabricError):
                decode(payload)


def test_a_message_of_an_unknown_kind_is_none() -> None:
    with pytest.raises(FabricError):
        decode(msgspec.msgpack.encode(["from-the-future", 1, 2]))
