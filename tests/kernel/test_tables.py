"""Tables 1 to 4 of General Concepts, row by row, as a client sees them; every test is named after its row.

There is no grantedMaxFrequency here: it belongs to limited editions. Limits over time are in `test_frequency`.
Specification: General Concepts 3.3.4, 3.3.10, 3.4.3 and 3.5.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise

import pytest

from penstock.adapters import MetadataAdapter
from penstock.adapters.api import AdapterSet
from penstock.adapters.authority import SetAuthority
from penstock.client.events import Configured, EndOfSnapshot, Overflow, Update
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.limits import SessionLimits
from penstock.kernel.ports import Admission, Grant, ItemGrant, SessionFacts, State
from penstock.kernel.subscription import Subscription, SubscriptionRequest
from penstock.testing import Harness, Peer

FIELDS = "key command x y"
FILTERABLE = (Mode.MERGE, Mode.DISTINCT, Mode.COMMAND)

# A tick of the busy items; intervals are whole numbers of it, and both are exact as binary fractions.
TICK = 1 / 64


class Viewer:
    """A client that has subscribed to item t."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.peer = Peer(harness)
        self.peer.open()
        self.subscription: Subscription

    def subscribe(
        self,
        mode: Mode,
        snapshot: bool = False,
        snapshot_length: int | None = None,
        max_frequency: float | None = None,
        unfiltered: bool = False,
        buffer_size: int | None = None,
        granted: ItemGrant | None = None,
    ) -> None:
        number, _ = self.peer.state.subscribe("t", FIELDS, mode=mode.value, snapshot=snapshot)
        self.subscription = self.harness.subscribe(
            self.peer.session,
            number,
            "t",
            FIELDS,
            mode,
            snapshot=snapshot,
            snapshot_length=snapshot_length,
            max_frequency=max_frequency,
            unfiltered=unfiltered,
            buffer_size=buffer_size,
            granted=(granted or ItemGrant("t"),),
        )

    def configured(self) -> tuple[str, bool]:
        """The frequency in force as it is told, and whether events may be filtered out."""
        (told,) = [event for event in self.peer.receive() if isinstance(event, Configured)]
        return str(told.max_frequency), told.filtered

    def values(self) -> list[State]:
        """The updates that have come since the last time."""
        return [event.values for event in self.peer.receive() if isinstance(event, Update)]

    def numbers(self) -> str:
        """The same, but of each only x, and losses as minus signs."""
        found = ""
        for event in self.peer.receive():
            if isinstance(event, Update):
                found += event.values[2] or "?"
            elif isinstance(event, Overflow):
                found += "-" * event.lost
        return found


def tell(harness: Harness, x: str, key: str = "k") -> None:
    """An event that every mode understands, in a turn of its own."""
    harness.publish("t", key=key, command="UPDATE", x=x, y="0")


def sending_times(harness: Harness, viewer: Viewer, seconds: float) -> list[float]:
    """When updates come while the item changes with every tick."""
    times: list[float] = []
    for tick in range(int(seconds / TICK)):
        tell(harness, str(tick))
        times.extend([harness.clock.now] * len(viewer.values()))
        harness.advance(TICK)
    return times


# -- table 1: allowed combinations for the maxFrequency parameter -----------------------------------------------------

UNLIMITED = None


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize(
    ("requested", "allowed", "in_force"),
    [
        pytest.param(2.0, 8.0, 2.0, id="filtered: number, higher number: min"),
        pytest.param(8.0, 2.0, 2.0, id="filtered: number, lower number: min"),
        pytest.param(4.0, 4.0, 4.0, id="filtered: number, same number: min"),
        pytest.param(UNLIMITED, 4.0, 4.0, id="filtered: unlimited, number: allowedMaxFrequency"),
        pytest.param(4.0, UNLIMITED, 4.0, id="filtered: number, unlimited: requestedMaxFrequency"),
        pytest.param(UNLIMITED, UNLIMITED, UNLIMITED, id="filtered: unlimited, unlimited: unlimited"),
    ],
)
def test_table_1_filtered(
    harness: Harness, mode: Mode, requested: float | None, allowed: float | None, in_force: float | None
) -> None:
    viewer = Viewer(harness)
    viewer.subscribe(mode, max_frequency=requested, granted=ItemGrant("t", max_frequency=allowed))
    assert viewer.configured() == (str(in_force), True)
    # The ADD of the row comes first and is bound by no limit.
    tell(harness, "first")
    assert len(viewer.values()) == 1
    harness.advance(1.0)
    times = sending_times(harness, viewer, 3.0)
    gaps = {later - earlier for earlier, later in pairwise(times)}
    assert gaps == {TICK if in_force is None else 1.0 / in_force}
    assert len(times) == 3.0 / gaps.pop()


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize("allowed", [pytest.param(UNLIMITED, id="unfiltered: unfiltered, unlimited: unlimited")])
def test_table_1_unfiltered(harness: Harness, mode: Mode, allowed: float | None) -> None:
    viewer = Viewer(harness)
    viewer.subscribe(mode, unfiltered=True, granted=ItemGrant("t", max_frequency=allowed))
    assert viewer.configured() == ("None", False)
    for number in "12345":
        tell(harness, number)
    # In MERGE mode even an event that changes nothing is sent.
    tell(harness, "5")
    assert viewer.numbers() == "123455"


@pytest.mark.parametrize("mode", FILTERABLE)
def test_table_1_has_no_row_for_unfiltered_with_a_number_allowed(harness: Harness, mode: Mode) -> None:
    viewer = Viewer(harness)
    with pytest.raises(Refusal, match="limited to 1000 updates/s") as caught:
        viewer.subscribe(mode, unfiltered=True, granted=ItemGrant("t", max_frequency=1_000.0))
    assert caught.value.reason is Reason.UNFILTERED_LIMITED
    assert harness.feed.items == {}


# -- table 2: settings for the ItemEventBuffer ------------------------------------------------------------------------

# What "unlimited" means to a server that has to protect itself.
PROTECTION = 6


@dataclass(frozen=True)
class BufferRow:
    """What is left of events 1 to 8 for a client that was congested meanwhile, by the buffer size asked for.

    A minus sign is an event lost and told. `at_once` and `limited` are the ItemUpdates of events 1 to 4 that one
    UpdateEvent brings, without a frequency limit and with one.
    """

    mode: Mode
    unfiltered: bool
    kept: dict[int | None, str]
    at_once: str
    limited: str | None = None


DEFAULT, NO_LIMIT = None, 0
NEVER_FILTERED = dict.fromkeys((DEFAULT, 1, 3, NO_LIMIT), "--345678")

RAW = BufferRow(Mode.RAW, True, NEVER_FILTERED, at_once="1234")
MERGE_FILTERED = BufferRow(
    Mode.MERGE, False, {DEFAULT: "8", 1: "8", 3: "678", NO_LIMIT: "345678"}, at_once="1234", limited="1"
)
DISTINCT_FILTERED = BufferRow(
    Mode.DISTINCT, False, {DEFAULT: "345678", 1: "8", 3: "678", NO_LIMIT: "345678"}, at_once="1234", limited="1"
)
COMMAND_FILTERED = BufferRow(
    Mode.COMMAND, False, dict.fromkeys((DEFAULT, 1, 3, NO_LIMIT), "8"), at_once="4", limited="4"
)
MERGE_UNFILTERED = BufferRow(Mode.MERGE, True, NEVER_FILTERED, at_once="1234")
DISTINCT_UNFILTERED = BufferRow(Mode.DISTINCT, True, NEVER_FILTERED, at_once="1234")
COMMAND_UNFILTERED = BufferRow(Mode.COMMAND, True, NEVER_FILTERED, at_once="1234")

TABLE_2 = [
    pytest.param(RAW, id="RAW: unlimited: 1..N"),
    pytest.param(MERGE_FILTERED, id="MERGE filtered: 1..unlimited (default 1): 1, or 1..N if frequency is unlimited"),
    pytest.param(
        DISTINCT_FILTERED,
        id="DISTINCT filtered: 1..unlimited (default unlimited): 1, or 1..N if frequency is unlimited",
    ),
    pytest.param(COMMAND_FILTERED, id="COMMAND filtered: unlimited: 1..N with different keys"),
    pytest.param(MERGE_UNFILTERED, id="MERGE unfiltered: unlimited: 1..N"),
    pytest.param(DISTINCT_UNFILTERED, id="DISTINCT unfiltered: unlimited: 1..N"),
    pytest.param(COMMAND_UNFILTERED, id="COMMAND unfiltered: unlimited: 1..N"),
]


@pytest.mark.parametrize("row", TABLE_2)
@pytest.mark.parametrize("asked", [DEFAULT, 1, 3, NO_LIMIT], ids=["default", "one", "three", "unlimited"])
def test_table_2_buffer_size(row: BufferRow, asked: int | None) -> None:
    harness = Harness(SessionLimits(max_buffer_size=PROTECTION))
    viewer = Viewer(harness)
    viewer.subscribe(row.mode, unfiltered=row.unfiltered, buffer_size=asked)
    viewer.peer.channel.congest()
    for number in "12345678":
        tell(harness, number)
    viewer.peer.channel.relieve()
    harness.turn()
    assert viewer.numbers() == row.kept[asked]


@pytest.mark.parametrize("row", TABLE_2)
def test_table_2_item_updates_per_update_event_without_a_frequency_limit(harness: Harness, row: BufferRow) -> None:
    viewer = Viewer(harness)
    viewer.subscribe(row.mode, unfiltered=row.unfiltered, buffer_size=NO_LIMIT)
    viewer.peer.channel.congest()
    for number in "1234":
        tell(harness, number)
    viewer.peer.channel.relieve()
    writes = viewer.peer.channel.writes
    harness.turn()
    assert viewer.numbers() == row.at_once
    assert viewer.peer.channel.writes == writes + 1


@pytest.mark.parametrize("row", [MERGE_FILTERED, DISTINCT_FILTERED, COMMAND_FILTERED], ids=lambda row: row.mode.value)
def test_table_2_item_updates_per_update_event_with_a_frequency_limit(harness: Harness, row: BufferRow) -> None:
    viewer = Viewer(harness)
    viewer.subscribe(row.mode, unfiltered=row.unfiltered, buffer_size=NO_LIMIT, max_frequency=1.0)
    viewer.peer.channel.congest()
    for number in "1234":
        tell(harness, number)
    viewer.peer.channel.relieve()
    harness.turn()
    assert viewer.numbers() == row.limited
    harness.advance(0.9)
    assert viewer.numbers() == ""


@pytest.mark.parametrize("row", TABLE_2)
def test_table_2_different_keys(harness: Harness, row: BufferRow) -> None:
    """Keys mean something to COMMAND mode alone: it keeps them apart where others keep the latest event."""
    viewer = Viewer(harness)
    viewer.subscribe(row.mode, unfiltered=row.unfiltered, buffer_size=1)
    viewer.peer.channel.congest()
    for number in "1234":
        tell(harness, number, key=f"key {number}")
    viewer.peer.channel.relieve()
    harness.turn()
    assert viewer.numbers() == ("1234" if row.unfiltered or row.mode is Mode.COMMAND else "4")


# -- table 3: allowed behaviours of the preprocessor ------------------------------------------------------------------

TABLE_3 = [
    pytest.param(Mode.RAW, False, False, False, id="RAW: no snapshot, no prefilter, no filling"),
    pytest.param(Mode.MERGE, True, True, True, id="MERGE: snapshot, prefilter, filling"),
    pytest.param(Mode.DISTINCT, True, True, False, id="DISTINCT: snapshot, prefilter, no filling"),
    pytest.param(Mode.COMMAND, True, False, True, id="COMMAND: snapshot, no prefilter, filling"),
]


@pytest.mark.parametrize(("mode", "snapshot", "prefilter", "filling"), TABLE_3)
def test_table_3_snapshot(harness: Harness, mode: Mode, snapshot: bool, prefilter: bool, filling: bool) -> None:
    first, second = Viewer(harness), Viewer(harness)
    first.subscribe(mode)
    tell(harness, "1")
    second.subscribe(mode, snapshot=True)
    assert second.numbers() == ("1" if snapshot else "")


@pytest.mark.parametrize(("mode", "snapshot", "prefilter", "filling"), TABLE_3)
def test_table_3_prefilter(harness: Harness, mode: Mode, snapshot: bool, prefilter: bool, filling: bool) -> None:
    viewers = [Viewer(harness), Viewer(harness)]
    for viewer in viewers:
        viewer.subscribe(mode, granted=ItemGrant("t", prefilter_frequency=1.0))
    for number in "1234":
        tell(harness, number)
    assert [viewer.numbers() for viewer in viewers] == ["1" if prefilter else "1234"] * 2
    harness.advance(0.999)
    assert [viewer.numbers() for viewer in viewers] == ["", ""]
    harness.advance(0.001)
    # Of a DISTINCT item too only one event is kept: no event shall be late.
    assert [viewer.numbers() for viewer in viewers] == ["4" if prefilter else ""] * 2


@pytest.mark.parametrize(("mode", "snapshot", "prefilter", "filling"), TABLE_3)
def test_table_3_filling(harness: Harness, mode: Mode, snapshot: bool, prefilter: bool, filling: bool) -> None:
    viewer = Viewer(harness)
    viewer.subscribe(mode)
    harness.publish("t", key="k", command="UPDATE", x="1", y="2")
    harness.publish("t", key="k", command="UPDATE", x="3")
    assert [values[2:] for values in viewer.values()] == [("1", "2"), ("3", "2" if filling else None)]


# -- table 4: choice of parameters ------------------------------------------------------------------------------------


class Decider(MetadataAdapter):
    """A metadata adapter that decides everything table 4 wants it to decide."""

    quick = True

    def __init__(self, granted: ItemGrant, modes: tuple[Mode, ...] = tuple(Mode)) -> None:
        self.granted = granted
        self.modes = modes

    def allows_mode(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> bool:
        return mode in self.modes

    def max_frequency(self, session: SessionFacts, data_adapter: str, item: str) -> float | None:
        return self.granted.max_frequency

    def max_buffer_size(self, session: SessionFacts, data_adapter: str, item: str) -> int | None:
        return self.granted.max_buffer_size

    def snapshot_length(self, data_adapter: str, item: str) -> int:
        return self.granted.snapshot_length

    def prefilter_frequency(self, data_adapter: str, item: str) -> float:
        return self.granted.prefilter_frequency


@dataclass(frozen=True)
class Asked:
    """A wish for item t."""

    mode: str
    data_adapter: str = "HAND"
    group: str = "t"
    schema: str = FIELDS
    selector: str | None = None
    buffer_size: int | None = None
    max_frequency: float | None = None
    unfiltered: bool = False
    snapshot: bool = False
    snapshot_length: int | None = None


def decided(decider: Decider, mode: Mode) -> Grant:
    """What a subscription to item t may have."""

    async def ask() -> Grant:
        authority = SetAuthority(AdapterSet("TEST", decider, {}))
        session, _ = Harness().open()
        await authority.welcome(session)
        return await authority.resolve(session, 1, Asked(mode.value))

    return asyncio.run(ask())


def decided_item(granted: ItemGrant, mode: Mode) -> ItemGrant:
    (item,) = decided(Decider(granted), mode).items
    return item


@pytest.mark.parametrize(
    ("asked", "decided", "in_force"),
    [
        pytest.param(None, None, "unlimited", id="maxBandwidth: nobody limits it"),
        pytest.param(40.0, None, "40", id="maxBandwidth: the client can ask"),
        pytest.param(None, 50.0, "50", id="maxBandwidth: the metadata adapter must decide"),
        pytest.param(40.0, 50.0, "40", id="maxBandwidth: the client asks for less"),
        pytest.param(60.0, 50.0, "50", id="maxBandwidth: the client asks for more"),
    ],
)
def test_table_4_max_bandwidth(harness: Harness, asked: float | None, decided: float | None, in_force: str) -> None:
    session = harness.kernel.open_session(harness.codec, harness.handler)
    session.admit(Admission(max_bandwidth=decided), asked)
    assert harness.bind(session).take()[1] == f"CONS,{in_force}"


@pytest.mark.parametrize(
    ("asked", "in_force"), [(10.0, "10"), (100.0, "50"), (None, "50")], ids=["less", "more", "unlimited"]
)
def test_table_4_a_different_bandwidth_at_a_later_time(harness: Harness, asked: float | None, in_force: str) -> None:
    session = harness.kernel.open_session(harness.codec, harness.handler)
    session.admit(Admission(max_bandwidth=50.0), 40.0)
    channel = harness.bind(session)
    channel.take()
    session.constrain(asked)
    assert channel.take() == [f"CONS,{in_force}"]


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize(
    ("asked", "decided", "in_force"),
    [
        pytest.param(3.0, None, "3.0", id="maxFrequency: the client can ask"),
        pytest.param(None, 4.0, "4.0", id="maxFrequency: the metadata adapter must decide"),
        pytest.param(9.0, 4.0, "4.0", id="maxFrequency: the client asks for more"),
    ],
)
def test_table_4_max_frequency(
    harness: Harness, mode: Mode, asked: float | None, decided: float | None, in_force: str
) -> None:
    viewer = Viewer(harness)
    granted = decided_item(ItemGrant("t", max_frequency=decided), mode)
    viewer.subscribe(mode, max_frequency=asked, granted=granted)
    assert viewer.configured() == (in_force, True)
    viewer.subscription.reconfigure(2.0)
    harness.turn()
    assert viewer.configured() == ("2.0", True)
    viewer.subscription.reconfigure(20.0)
    harness.turn()
    assert viewer.configured() == (in_force if decided else "20.0", True)


def test_table_4_max_frequency_is_not_for_raw(harness: Harness) -> None:
    viewer = Viewer(harness)
    viewer.subscribe(Mode.RAW, max_frequency=1.0, granted=decided_item(ItemGrant("t", max_frequency=1.0), Mode.RAW))
    assert viewer.configured() == ("None", False)
    for number in "1234":
        tell(harness, number)
    assert viewer.numbers() == "1234"


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize(
    ("granted", "reason"),
    [
        pytest.param(ItemGrant("t"), None, id="unfiltered dispatching: the client can ask"),
        pytest.param(
            ItemGrant("t", max_frequency=5.0),
            Reason.UNFILTERED_LIMITED,
            id="unfiltered dispatching: the kernel must refuse what is not allowed",
        ),
    ],
)
def test_table_4_unfiltered_dispatching(
    harness: Harness, mode: Mode, granted: ItemGrant, reason: Reason | None
) -> None:
    viewer = Viewer(harness)
    granted = decided_item(granted, mode)
    if reason is None:
        viewer.subscribe(mode, unfiltered=True, granted=granted)
        assert viewer.configured() == ("None", False)
        return
    with pytest.raises(Refusal) as caught:
        viewer.subscribe(mode, unfiltered=True, granted=granted)
    assert caught.value.reason is reason


@pytest.mark.parametrize("decided_mode", FILTERABLE)
@pytest.mark.parametrize("mode", [pytest.param(mode, id=f"Mode: the client must ask, {mode.value}") for mode in Mode])
def test_table_4_mode_is_decided_by_the_metadata_adapter(mode: Mode, decided_mode: Mode) -> None:
    decider = Decider(ItemGrant("t"), modes=(Mode.RAW, decided_mode))
    if mode in decider.modes:
        assert [item.name for item in decided(decider, mode).items] == ["t"]
        return
    with pytest.raises(Refusal, match=f"Mode {mode.value} is not supported for item t") as caught:
        decided(decider, mode)
    assert caught.value.reason is Reason.MODE


@pytest.mark.parametrize("present", FILTERABLE)
@pytest.mark.parametrize("mode", list(Mode))
def test_table_4_mode_is_refused_by_the_kernel_when_it_conflicts(harness: Harness, mode: Mode, present: Mode) -> None:
    first, second = Viewer(harness), Viewer(harness)
    first.subscribe(present)
    if mode in (present, Mode.RAW):
        second.subscribe(mode)
        tell(harness, "1")
        assert second.numbers() == "1"
        return
    with pytest.raises(Refusal) as caught:
        second.subscribe(mode)
    assert caught.value.reason is Reason.MODE


@pytest.mark.parametrize(
    ("mode", "asked", "decided", "kept"),
    [
        pytest.param(Mode.MERGE, 2, None, "78", id="bufferSize: the client can ask, MERGE"),
        pytest.param(Mode.DISTINCT, 2, None, "78", id="bufferSize: the client can ask, DISTINCT"),
        pytest.param(Mode.MERGE, 4, 3, "678", id="bufferSize: the metadata adapter must decide, MERGE"),
        pytest.param(Mode.DISTINCT, None, 3, "678", id="bufferSize: the metadata adapter must decide, DISTINCT"),
        pytest.param(Mode.MERGE, 100, 50, "345678", id="bufferSize: the kernel need not follow, MERGE"),
        pytest.param(Mode.DISTINCT, 100, 50, "345678", id="bufferSize: the kernel need not follow, DISTINCT"),
        pytest.param(Mode.COMMAND, 4, 3, "8", id="bufferSize: not for COMMAND"),
        pytest.param(Mode.RAW, 4, 3, "--345678", id="bufferSize: not for RAW"),
    ],
)
def test_table_4_buffer_size(mode: Mode, asked: int | None, decided: int | None, kept: str) -> None:
    harness = Harness(SessionLimits(max_buffer_size=PROTECTION))
    viewer = Viewer(harness)
    granted = decided_item(ItemGrant("t", max_buffer_size=decided), mode)
    viewer.subscribe(mode, buffer_size=asked, granted=granted)
    viewer.peer.channel.congest()
    for number in "12345678":
        tell(harness, number)
    viewer.peer.channel.relieve()
    harness.turn()
    assert viewer.numbers() == kept


@pytest.mark.parametrize("mode", FILTERABLE)
@pytest.mark.parametrize(
    "collaborates",
    [
        pytest.param(True, id="Snapshot: the data adapter should collaborate by sending it"),
        pytest.param(False, id="Snapshot: without the data adapter the state is empty"),
    ],
)
@pytest.mark.parametrize(
    "asked", [pytest.param(True, id="the client asks"), pytest.param(False, id="the client does not ask")]
)
def test_table_4_snapshot(mode: Mode, collaborates: bool, asked: bool) -> None:
    harness = Harness(snapshots=collaborates)
    harness.source.state["t"] = {"key": "k", "command": "ADD", "x": "1"}
    viewer = Viewer(harness)
    viewer.subscribe(mode, snapshot=asked)
    harness.feed.end_of_snapshot("t")
    harness.turn()
    assert viewer.numbers() == ("1" if collaborates and asked else "")
    tell(harness, "2")
    assert viewer.numbers() == "2"


def test_table_4_snapshot_is_not_for_raw(harness: Harness) -> None:
    harness.source.state["t"] = {"key": "k", "command": "ADD", "x": "1"}
    viewer = Viewer(harness)
    viewer.subscribe(Mode.RAW, snapshot=True)
    assert viewer.numbers() == ""
    tell(harness, "2")
    assert viewer.numbers() == "2"


@pytest.mark.parametrize(
    ("asked", "decided", "expected"),
    [
        pytest.param(None, 4, "5678", id="Snapshot length: the metadata adapter must decide"),
        pytest.param(2, 4, "78", id="Snapshot length: the client can ask for less"),
        pytest.param(9, 4, "5678", id="Snapshot length: the client asks for more"),
        pytest.param(None, 0, "", id="Snapshot length: the metadata adapter keeps nothing"),
        pytest.param(None, 50, "12345678", id="Snapshot length: the data adapter has not sent enough"),
    ],
)
def test_table_4_snapshot_length_in_distinct_mode(
    harness: Harness, asked: int | None, decided: int, expected: str
) -> None:
    granted = decided_item(ItemGrant("t", snapshot_length=decided), Mode.DISTINCT)
    first, second = Viewer(harness), Viewer(harness)
    first.subscribe(Mode.DISTINCT, granted=granted)
    for number in "12345678":
        harness.feed.update("t", {"x": number}, snapshot=True)
    harness.feed.end_of_snapshot("t")
    second.subscribe(Mode.DISTINCT, snapshot=True, snapshot_length=asked, granted=granted)
    assert second.numbers() == expected
    assert any(isinstance(event, EndOfSnapshot) for event in second.peer.events)


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.DISTINCT])
@pytest.mark.parametrize("decided", [pytest.param(4.0, id="preFilterFrequency: the metadata adapter must decide")])
def test_table_4_prefilter_frequency(harness: Harness, mode: Mode, decided: float) -> None:
    viewer, refused = Viewer(harness), Viewer(harness)
    granted = decided_item(ItemGrant("t", prefilter_frequency=decided), mode)
    viewer.subscribe(mode, granted=granted)
    # The client is not told of it, and no wish of its own can change it.
    assert viewer.configured() == ("None", True)
    times = sending_times(harness, viewer, 2.0)
    assert {later - earlier for earlier, later in pairwise(times)} == {1.0 / decided}
    with pytest.raises(Refusal) as caught:
        refused.subscribe(mode, unfiltered=True, granted=granted)
    assert caught.value.reason is Reason.UNFILTERED_PREFILTERED


def test_table_4_what_is_decided_goes_into_the_subscription(harness: Harness) -> None:
    """From the metadata adapter to the client without anything in between."""
    grant = decided(Decider(ItemGrant("t", max_frequency=2.5)), Mode.MERGE)
    session, channel = harness.open()
    session.subscribe(SubscriptionRequest(1, harness.feed, grant, Mode.MERGE, max_frequency=7.0))
    harness.turn()
    assert channel.take()[-1] == "CONF,1,2.5,filtered"
