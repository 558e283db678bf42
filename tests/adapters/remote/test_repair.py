"""The snapshot of a data adapter that has come back: what the kernel makes of it, mode by mode."""

from __future__ import annotations

import pytest

from penstock.kernel.item import Mode
from penstock.kernel.ports import CheckedEvent, Event, ItemGrant, Value
from penstock.kernel.session import Binding, Session
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False, keepalive_millis=30_000)


def subscribed(mode: Mode, fields: str) -> tuple[Harness, Session, MemoryChannel]:
    harness = Harness()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", fields, mode, snapshot=True)
    channel.take()
    return harness, session, channel


def first(harness: Harness, **event: Value) -> None:
    """An event of the first snapshot."""
    harness.feed.update("a", event, snapshot=True)
    harness.turn()


def repair(harness: Harness, *events: Event, complete: bool = True) -> None:
    harness.feed.repair(harness.feed.items["a"], [CheckedEvent(dict(event)) for event in events], complete)
    harness.turn()


# -- MERGE -------------------------------------------------------------------------------------------------------------


def test_merge_sends_what_differs_and_nulls_what_is_gone() -> None:
    harness, _, channel = subscribed(Mode.MERGE, "x y z")
    first(harness, x="1", y="2", z="3")
    channel.take()
    repair(harness, {"x": "1", "y": "5"})
    assert channel.take() == ["U,1,1,|5|#"]


def test_merge_sends_nothing_if_nothing_differs_or_nothing_is_known() -> None:
    harness, _, channel = subscribed(Mode.MERGE, "x y")
    first(harness, x="1", y=None)
    channel.take()
    repair(harness, {"x": "1"})
    repair(harness)
    assert channel.take() == []


def test_merge_forgets_what_waited_at_the_prefilter_before_the_loss() -> None:
    harness = Harness()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", granted=(ItemGrant("a", prefilter_frequency=1.0),))
    for value in ("1", "2", "3"):
        harness.publish("a", x=value)
    harness.turn()
    channel.take()
    repair(harness, {"x": "4"})
    harness.advance(5)
    assert channel.take() == ["U,1,1,4"]


# -- COMMAND -----------------------------------------------------------------------------------------------------------


def row(key: str, x: str | None, command: str = "ADD") -> dict[str, str | None]:
    return {"key": key, "command": command, "x": x}


def table(*rows: dict[str, str | None]) -> tuple[Harness, Session, MemoryChannel]:
    harness, session, channel = subscribed(Mode.COMMAND, "key command x")
    for one in rows:
        first(harness, **one)
    harness.feed.end_of_snapshot("a")
    harness.turn()
    channel.take()
    return harness, session, channel


def test_command_deletes_updates_and_adds_what_differs_and_leaves_the_rest_alone() -> None:
    harness, _, channel = table(row("gone", "1"), row("same", "2"), row("other", "3"))
    repair(harness, row("same", "2"), row("other", "4"), row("new", "5"))
    assert channel.take() == ["U,1,1,gone|DELETE|#", "U,1,1,other|UPDATE|4", "U,1,1,new|ADD|5"]


def test_command_nulls_fields_that_a_row_has_lost() -> None:
    harness, _, channel = table(row("k", "1"))
    repair(harness, {"key": "k", "command": "ADD"})
    assert channel.take() == ["U,1,1,|UPDATE|#"]


@pytest.mark.parametrize(("complete", "lines"), [(True, ["CS,1,1"]), (False, [])])
def test_command_without_rows_is_cleared_only_if_that_is_known(complete: bool, lines: list[str]) -> None:
    harness, _, channel = table(row("k", "1"))
    repair(harness, complete=complete)
    assert channel.take() == lines


def test_command_rows_that_make_no_sense_are_complained_of_and_left_out() -> None:
    harness, _, channel = table(row("k", "1"))
    repair(harness, row("k", "1"), {"command": "ADD"}, row("never there", None, "DELETE"))
    assert channel.take() == []
    assert harness.feed.bad_events == 2


# -- DISTINCT ----------------------------------------------------------------------------------------------------------


def history(*values: str) -> tuple[Harness, Session, MemoryChannel]:
    harness, session, channel = subscribed(Mode.DISTINCT, "x")
    harness.feed.end_of_snapshot("a")
    for value in values:
        harness.publish("a", x=value)
    harness.turn()
    channel.take()
    return harness, session, channel


@pytest.mark.parametrize(
    ("ours", "theirs", "lines"),
    [
        ("abc", "abc", []),
        ("abc", "abcde", ["U,1,1,d", "U,1,1,e"]),
        ("abc", "cd", ["U,1,1,d"]),
        ("abc", "xabcd", ["U,1,1,d"]),
        ("bc", "abcbcd", ["U,1,1,d"]),
        ("abc", "de", ["CS,1,1", "U,1,1,d", "U,1,1,e"]),
        ("abc", "ac", ["CS,1,1", "U,1,1,a", "U,1,1,c"]),
        ("", "ab", ["U,1,1,a", "U,1,1,b"]),
        ("abc", "", ["CS,1,1"]),
    ],
)
def test_distinct_goes_on_after_the_latest_event_in_common(ours: str, theirs: str, lines: list[str]) -> None:
    harness, _, channel = history(*ours)
    repair(harness, *[{"x": value} for value in theirs])
    assert channel.take() == lines
    other, second = harness.open(QUIET)
    harness.subscribe(other, 1, "a", "x", Mode.DISTINCT, snapshot=True)
    harness.turn()
    newest = (theirs if "CS,1,1" in lines else ours + "".join(line[-1] for line in lines))[-10:]
    assert [line[-1] for line in second.take() if line[0] == "U"] == [*newest]


def test_distinct_without_events_keeps_its_history_if_nothing_is_known() -> None:
    harness, _, channel = history("1")
    repair(harness, complete=False)
    assert channel.take() == []


# -- others ------------------------------------------------------------------------------------------------------------


def test_raw_clients_see_nothing_and_those_who_come_later_the_new_state() -> None:
    harness, _, channel = subscribed(Mode.RAW, "x")
    first(harness, x="1")
    harness.turn()
    channel.take()
    repair(harness, {"x": "2"})
    assert channel.take() == []
    session, second = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x", snapshot=True)
    harness.turn()
    assert second.take()[-1] == "U,1,1,2"


def test_a_snapshot_cut_off_by_the_loss_is_completed_and_ended() -> None:
    harness, _, channel = subscribed(Mode.COMMAND, "key command x")
    first(harness, **row("one", "1"))
    harness.turn()
    channel.take()
    repair(harness, row("one", "1"), row("two", "2"))
    assert channel.take() == ["U,1,1,two||2", "EOS,1,1"]


def test_nothing_is_repaired_of_an_item_that_nobody_wants_any_more() -> None:
    harness, session, channel = subscribed(Mode.MERGE, "x")
    item = harness.feed.items["a"]
    session.unsubscribe(1)
    harness.turn()
    channel.take()
    harness.feed.repair(item, [CheckedEvent({"x": "1"})], True)
    harness.feed.publish_checked([(item, CheckedEvent({"x": "1"}), False)])
    harness.turn()
    assert channel.take() == []
    assert harness.feed.unwanted_events == 1
