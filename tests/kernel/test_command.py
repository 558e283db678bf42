"""COMMAND mode: rows of a table, merged key by key. Specification: General Concepts 3.2.3, 3.3.9 and 3.4.1."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.events import EndOfSnapshot, Overflow, SnapshotCleared, Update
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.ports import Value
from penstock.testing import Harness, Peer

FIELDS = "key command x y"


class Reader:
    """A client of item t that writes down in words what it is told: `ADD a 1 -`, a dash for null."""

    def __init__(
        self,
        harness: Harness,
        snapshot: bool = True,
        max_frequency: float | None = None,
        unfiltered: bool = False,
    ) -> None:
        self.harness = harness
        self.peer = Peer(harness)
        self.peer.open()
        number, _ = self.peer.state.subscribe("t", FIELDS, mode="COMMAND", snapshot=snapshot)
        self.subscription = harness.subscribe(
            self.peer.session,
            number,
            "t",
            FIELDS,
            Mode.COMMAND,
            snapshot=snapshot,
            max_frequency=max_frequency,
            unfiltered=unfiltered,
        )

    def take(self) -> list[str]:
        self.harness.turn()
        found: list[str] = []
        for event in self.peer.receive():
            if isinstance(event, Update):
                key, command, *others = event.values
                found.append(
                    " ".join([command or "-", key or "-", *("-" if value is None else value for value in others)])
                )
            elif isinstance(event, EndOfSnapshot):
                found.append("EOS")
            elif isinstance(event, SnapshotCleared):
                found.append("CS")
            elif isinstance(event, Overflow):
                found.append(f"OV {event.lost}")
        return found

    def congest(self) -> None:
        self.peer.channel.congest()

    def relieve(self) -> None:
        self.peer.channel.relieve()


def tell(harness: Harness, command: str, key: str, snapshot: bool = False, **values: Value) -> None:
    harness.feed.update("t", {"key": key, "command": command, **values}, snapshot)


@pytest.fixture
def reader(harness: Harness) -> Reader:
    """A client that has row `old`, and has been told everything."""
    reader = Reader(harness)
    tell(harness, "ADD", "old", x="1", y="2")
    assert reader.take() == ["EOS", "ADD old 1 2"]
    return reader


# -- subscribing ------------------------------------------------------------------------------------------------------


def test_the_client_is_told_which_fields_are_key_and_command(harness: Harness) -> None:
    session, channel = harness.open()
    channel.take()
    harness.subscribe(session, 3, "t u", "x command y key", Mode.COMMAND)
    assert channel.take() == ["SUBCMD,3,2,4,4,2", "CONF,3,unlimited,filtered"]


@pytest.mark.parametrize(("fields", "reason"), [("command x", Reason.NO_KEY_FIELD), ("key x", Reason.NO_COMMAND_FIELD)])
def test_a_schema_without_key_or_command_is_refused_and_leaves_no_trace(
    harness: Harness, fields: str, reason: Reason
) -> None:
    session, channel = harness.open()
    channel.take()
    with pytest.raises(Refusal) as caught:
        harness.subscribe(session, 1, "t", fields, Mode.COMMAND)
    assert caught.value.reason is reason
    assert channel.take() == []
    assert harness.source.calls == []


# -- merging ----------------------------------------------------------------------------------------------------------


def test_a_client_that_keeps_up_gets_every_event(harness: Harness, reader: Reader) -> None:
    tell(harness, "UPDATE", "old", x="3")
    tell(harness, "DELETE", "old")
    tell(harness, "ADD", "old", y="4")
    assert reader.take() == ["UPDATE old 3 2", "DELETE old - -", "ADD old - 4"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (["ADD new 1 2", "UPDATE new 3 2"], ["ADD new 3 2"]),
        (["UPDATE old 3 2", "UPDATE old 3 4"], ["UPDATE old 3 4"]),
        (["ADD new 1 2", "DELETE new"], []),
        (["ADD new 1 2", "UPDATE new 2 2", "DELETE new"], []),
        (["UPDATE old 3 2", "DELETE old"], ["DELETE old - -"]),
        (["DELETE old", "ADD old 5 6"], ["UPDATE old 5 6"]),
        (["DELETE old", "ADD old 5 6", "UPDATE old 5 7"], ["UPDATE old 5 7"]),
        (["DELETE old", "ADD old 5 6", "DELETE old"], ["DELETE old - -"]),
        (["ADD new 1 2", "DELETE new", "ADD new 3 4"], ["ADD new 3 4"]),
        (["UPDATE old 3 2", "ADD new 1 1", "UPDATE old 4 2"], ["UPDATE old 4 2", "ADD new 1 1"]),
    ],
)
def test_events_that_wait_are_merged_by_key(
    harness: Harness, reader: Reader, events: list[str], expected: list[str]
) -> None:
    reader.congest()
    for event in events:
        command, key, *values = event.split()
        harness.feed.update("t", {"key": key, "command": command, **dict(zip("xy", values, strict=False))})
    assert reader.take() == []
    reader.relieve()
    assert reader.take() == expected


def test_holes_are_filled_for_updates_only(harness: Harness, reader: Reader) -> None:
    tell(harness, "UPDATE", "old", y="3")
    tell(harness, "UPDATE", "old", x=None)
    tell(harness, "ADD", "new", y="9")
    tell(harness, "DELETE", "old", y="4")
    assert reader.take() == ["UPDATE old 1 3", "UPDATE old - 3", "ADD new - 9", "DELETE old - 4"]


def test_a_row_added_again_after_its_deletion_has_nothing_of_the_former(harness: Harness, reader: Reader) -> None:
    tell(harness, "DELETE", "old")
    tell(harness, "ADD", "old", x="5")
    tell(harness, "UPDATE", "old", x="6")
    assert reader.take()[1:] == ["ADD old 5 -", "UPDATE old 6 -"]


# -- snapshots --------------------------------------------------------------------------------------------------------


def test_the_snapshot_is_the_rows_as_adds_then_its_end(harness: Harness, reader: Reader) -> None:
    tell(harness, "UPDATE", "old", x="7")
    tell(harness, "ADD", "new", x="1")
    tell(harness, "ADD", "gone", x="1")
    tell(harness, "DELETE", "gone")
    late = Reader(harness, max_frequency=0.1)
    assert late.take() == ["ADD old 7 2", "ADD new 1 -", "EOS"]
    assert reader.take()[-1] == "DELETE gone - -"


def test_without_a_snapshot_only_what_happens_from_now_on_is_told(harness: Harness, reader: Reader) -> None:
    late = Reader(harness, snapshot=False)
    tell(harness, "UPDATE", "old", x="7")
    assert late.take() == ["UPDATE old 7 2"]


def test_the_adapters_snapshot_ends_when_it_says_so_and_goes_to_those_who_want_it(harness: Harness) -> None:
    wants, does_not = Reader(harness), Reader(harness, snapshot=False)
    tell(harness, "ADD", "a", snapshot=True, x="1")
    tell(harness, "UPDATE", "b", snapshot=True, x="2")
    assert wants.take() == ["ADD a 1 -", "ADD b 2 -"]
    harness.feed.end_of_snapshot("t")
    tell(harness, "ADD", "c", x="3")
    assert wants.take() == ["EOS", "ADD c 3 -"]
    assert does_not.take() == ["ADD c 3 -"]


def test_the_end_of_the_snapshot_keeps_its_place_while_the_session_is_congested(harness: Harness) -> None:
    reader = Reader(harness)
    reader.congest()
    tell(harness, "ADD", "a", snapshot=True, x="1")
    harness.feed.end_of_snapshot("t")
    tell(harness, "ADD", "b", x="2")
    tell(harness, "UPDATE", "a", x="3")
    reader.relieve()
    assert reader.take() == ["ADD a 3 -", "EOS", "ADD b 2 -"]


def test_clearing_empties_the_table_and_drops_what_waits(harness: Harness, reader: Reader) -> None:
    reader.congest()
    tell(harness, "ADD", "new", x="1")
    tell(harness, "UPDATE", "old", x="9")
    harness.feed.clear_snapshot("t")
    tell(harness, "ADD", "old", x="3")
    reader.relieve()
    assert reader.take() == ["CS", "ADD old 3 -"]
    assert Reader(harness).take() == ["ADD old 3 -", "EOS"]


# -- frequency --------------------------------------------------------------------------------------------------------


def test_the_frequency_limit_holds_for_the_updates_of_each_key(harness: Harness) -> None:
    reader = Reader(harness, max_frequency=1.0)
    for key in "ab":
        tell(harness, "ADD", key, x="0")
        tell(harness, "UPDATE", key, x="1")
        tell(harness, "UPDATE", key, x="2")
        tell(harness, "UPDATE", key, x="3")
    assert reader.take() == ["EOS", "ADD a 0 -", "UPDATE a 1 -", "ADD b 0 -", "UPDATE b 1 -"]
    harness.advance(0.999)
    assert reader.take() == []
    harness.advance(0.001)
    assert reader.take() == ["UPDATE a 3 -", "UPDATE b 3 -"]


def test_adds_and_deletes_are_not_held_back_and_what_was_held_for_a_deleted_row_is_forgotten(harness: Harness) -> None:
    reader = Reader(harness, max_frequency=1.0)
    tell(harness, "ADD", "a", x="0")
    tell(harness, "UPDATE", "a", x="1")
    tell(harness, "UPDATE", "a", x="2")
    tell(harness, "DELETE", "a")
    tell(harness, "ADD", "a", x="3")
    assert reader.take() == ["EOS", "ADD a 0 -", "UPDATE a 1 -", "DELETE a - -", "ADD a 3 -"]
    harness.advance(5.0)
    assert reader.take() == []


def test_the_alarm_of_a_deleted_row_does_not_release_its_successor_early(harness: Harness) -> None:
    reader = Reader(harness, max_frequency=1.0)
    for command, value in (("ADD", "0"), ("UPDATE", "1"), ("UPDATE", "2")):
        tell(harness, command, "a", x=value)
    harness.advance(0.9)
    for command, value in (("DELETE", ""), ("ADD", "3"), ("UPDATE", "4"), ("UPDATE", "5")):
        tell(harness, command, "a", x=value)
    assert reader.take()[-1] == "UPDATE a 4 -"
    harness.advance(0.999)
    assert reader.take() == []
    harness.advance(0.001)
    assert reader.take() == ["UPDATE a 5 -"]


def test_a_deletion_and_an_addition_merged_into_an_update_keep_to_the_limit(harness: Harness) -> None:
    reader = Reader(harness, max_frequency=1.0)
    tell(harness, "ADD", "a", x="0")
    tell(harness, "UPDATE", "a", x="1")
    reader.take()
    reader.congest()
    tell(harness, "DELETE", "a")
    tell(harness, "ADD", "a", x="2")
    reader.relieve()
    assert reader.take() == []
    harness.advance(1.0)
    assert reader.take() == ["UPDATE a 2 -"]


@pytest.mark.parametrize(("frequency", "wait"), [(None, 0.0), (2.0, 0.5), (0.01, 10.0)])
def test_an_interval_under_way_ends_by_a_new_limit_at_the_latest(
    harness: Harness, frequency: float | None, wait: float
) -> None:
    reader = Reader(harness, max_frequency=0.1)
    for value in "0123":
        tell(harness, "ADD", "a", x=value)
    reader.take()
    reader.subscription.reconfigure(frequency)
    if wait:
        harness.advance(wait - 0.001)
        assert reader.take() == []
        harness.advance(0.001)
    assert reader.take() == ["UPDATE a 3 -"]


def test_after_a_clearing_the_rows_are_new_and_nothing_of_the_former_holds_them_back(harness: Harness) -> None:
    reader = Reader(harness, max_frequency=0.1)
    for value in "012":
        tell(harness, "ADD", "a", x=value)
    reader.take()
    harness.feed.clear_snapshot("t")
    tell(harness, "ADD", "a", x="3")
    tell(harness, "UPDATE", "a", x="4")
    assert reader.take() == ["CS", "ADD a 3 -", "UPDATE a 4 -"]
    harness.advance(20.0)
    assert reader.take() == []


# -- events that do not fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"command": "ADD", "x": "1"}, "an event without key"),
        ({"key": "", "command": "ADD"}, "an event without key"),
        ({"key": None, "command": "ADD"}, "an event without key"),
        ({"key": "a"}, "command None; expected ADD, UPDATE or DELETE"),
        ({"key": "a", "command": "add"}, "command 'add'; expected ADD, UPDATE or DELETE"),
        ({"key": "a", "command": "DELETE"}, "DELETE of key 'a', which is not there"),
    ],
)
def test_an_event_that_cannot_be_understood_is_dropped_and_the_adapter_told(
    harness: Harness, reader: Reader, event: dict[str, Value], complaint: str
) -> None:
    harness.feed.update("t", event)
    assert reader.take() == []
    assert harness.source.complaints == [("t", complaint)]
    assert harness.feed.bad_events == 1


def test_an_update_of_a_missing_row_adds_it_and_an_addition_of_a_present_one_updates_it(
    harness: Harness, reader: Reader
) -> None:
    tell(harness, "UPDATE", "new", x="1")
    tell(harness, "ADD", "old", x="3")
    assert reader.take() == ["ADD new 1 -", "UPDATE old 3 2"]
    assert harness.source.complaints == []


# -- unfiltered -------------------------------------------------------------------------------------------------------


def test_unfiltered_events_are_kept_apart_and_losses_told() -> None:
    harness = Harness(SessionLimits(max_buffer_size=3))
    reader = Reader(harness, unfiltered=True)
    harness.feed.end_of_snapshot("t")
    assert reader.take() == ["EOS"]
    reader.congest()
    for command in ("ADD", "UPDATE", "DELETE"):
        tell(harness, command, "a", x="1")
    reader.relieve()
    assert reader.take() == ["ADD a 1 -", "UPDATE a 1 -", "DELETE a 1 -"]
    reader.congest()
    for number in range(5):
        tell(harness, "ADD", str(number))
    reader.relieve()
    assert reader.take() == ["OV 2", "ADD 2 - -", "ADD 3 - -", "ADD 4 - -"]


# -- everything at once -----------------------------------------------------------------------------------------------

KEYS = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.sampled_from(["ADD", "UPDATE", "UPDATE", "DELETE"]), KEYS),
    st.tuples(st.sampled_from(["congest", "relieve", "clear", "limit", "lift", "wait"]), st.just("")),
)


@given(steps=st.lists(STEPS, max_size=60), frequency=st.sampled_from([None, 2.0]), bandwidth=st.booleans())
def test_whatever_is_merged_every_command_fits_and_the_client_ends_with_the_table(
    steps: list[tuple[str, str]], frequency: float | None, bandwidth: bool
) -> None:
    harness = Harness()
    reader = Reader(harness, max_frequency=frequency)
    if bandwidth:
        reader.peer.session.constrain(1.0)
    actual: dict[str, str] = {}
    seen: dict[str, str] = {}
    updates: dict[str, list[float]] = {}

    def read() -> None:
        for line in reader.take():
            command, _, rest = line.partition(" ")
            if command == "CS":
                seen.clear()
                updates.clear()
            elif command != "EOS":
                key, value, _ = rest.split(" ")
                assert (key in seen) == (command != "ADD"), line
                if command == "DELETE":
                    del seen[key]
                    updates.pop(key, None)
                else:
                    seen[key] = value
                if command == "UPDATE":
                    updates.setdefault(key, []).append(harness.clock.now)

    for number, (step, key) in enumerate(steps):
        if step == "congest":
            reader.congest()
        elif step == "relieve":
            reader.relieve()
        elif step == "clear":
            harness.feed.clear_snapshot("t")
            actual.clear()
        elif step in ("limit", "lift"):
            reader.peer.session.constrain(1.0 if step == "limit" else None)
        elif step == "wait":
            harness.advance(0.3)
        else:
            tell(harness, step, key, x=str(number))
            if step == "DELETE":
                actual.pop(key, None)
            else:
                actual[key] = str(number)
        read()
    if frequency is not None and not bandwidth and ("limit", "") not in steps:
        # Read after every step, the longest of which takes 0.3 seconds.
        for times in updates.values():
            assert all(later - earlier > 1 / frequency - 0.301 for earlier, later in pairwise(times))
    reader.relieve()
    reader.peer.session.constrain(None)
    harness.advance(1.0)
    read()
    assert seen == actual
