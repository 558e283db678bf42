"""Who may send, receive and see signals of the live channel."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.access import NO_RIGHTS, Access, Rights
from penstock.twins.live import may_change, may_look, may_receive_message, may_send_message, shown
from penstock.wire.ditto.pointer import MISSING
from tests.twins.world import entry

READ = {"grant": ["READ"], "revoke": []}
WRITE = {"grant": ["WRITE"], "revoke": []}
HIDDEN = {"grant": [], "revoke": ["READ"]}
LOCKED = {"grant": [], "revoke": ["WRITE"]}

INBOX = ("inbox", "messages", "ask")
VALUE: Any = {"a": 1, "b": {"c": 2}}


def rights(**resources: Any) -> Rights:
    return Access({"entries": {"A": entry("me", **resources)}}).rights(frozenset(["me"]))


def test_a_message_is_sent_with_write_and_received_with_read() -> None:
    writer, reader = rights(**{"message:/inbox": WRITE}), rights(**{"message:/inbox": READ})
    assert (may_send_message(writer, INBOX), may_receive_message(writer, INBOX)) == (True, False)
    assert (may_send_message(reader, INBOX), may_receive_message(reader, INBOX)) == (False, True)
    # Rights on the thing are others.
    owner = rights(**{"thing:/": READ | {"grant": ["READ", "WRITE"]}})
    assert not may_send_message(owner, INBOX)
    assert not may_receive_message(owner, INBOX)


def test_a_right_on_one_subject_is_none_on_others() -> None:
    one = rights(**{"message:/inbox/messages/ask": WRITE})
    assert may_send_message(one, INBOX)
    assert not may_send_message(one, ("inbox", "messages", "tell"))
    assert not may_send_message(one, ("inbox",))


@pytest.mark.parametrize(
    ("resources", "may"),
    [
        ({"thing:/": WRITE}, True),
        ({"thing:/attributes": WRITE}, True),
        ({"thing:/": WRITE, "thing:/attributes/a": LOCKED}, False),
        ({"thing:/attributes/a": WRITE}, False),
        ({"thing:/": READ}, False),
        ({"message:/": WRITE}, False),
    ],
)
def test_a_change_is_sent_by_those_who_may_write_all_of_it(resources: dict[str, Any], may: bool) -> None:
    assert may_change(rights(**resources), ("attributes",)) is may


@pytest.mark.parametrize(
    ("resources", "may", "seen"),
    [
        ({"thing:/": READ}, True, VALUE),
        ({"thing:/attributes": READ, "thing:/attributes/a": HIDDEN}, True, {"b": {"c": 2}}),
        ({"thing:/attributes/b": READ}, True, {"b": {"c": 2}}),
        ({"thing:/attributes/more": READ}, True, MISSING),
        ({"thing:/": READ, "thing:/attributes": HIDDEN}, False, MISSING),
        ({"thing:/features": READ}, False, MISSING),
        ({"thing:/": WRITE}, False, MISSING),
        ({"message:/": READ}, False, MISSING),
    ],
)
def test_what_may_be_read_in_part_is_seen_in_part(resources: dict[str, Any], may: bool, seen: Any) -> None:
    held = rights(**resources)
    assert may_look(held, ("attributes",)) is may
    assert shown(held, ("attributes",), VALUE) == seen


def test_who_has_no_rights_sees_nothing() -> None:
    assert not may_look(NO_RIGHTS, ())
    assert not may_change(NO_RIGHTS, ())
    assert shown(NO_RIGHTS, (), 5) is MISSING
