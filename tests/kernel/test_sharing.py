"""Sharing: sessions that are sent the same read one stream, and nobody can tell from the lines."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.item import Mode
from penstock.kernel.lane import MergeLane
from penstock.kernel.limits import SessionLimits
from penstock.kernel.outbox import Outbox
from penstock.kernel.session import Binding, Session
from penstock.kernel.sharing import CALM, MAX_JOINS, MAX_LANES
from penstock.kernel.stream import OwnStream, SharedStream
from penstock.testing import Harness, MemoryChannel

QUIET = Binding(send_sync=False, keepalive_millis=30_000)
NEVER = 10.0**9


class Company:
    """Sessions that are subscribed to the same, and calm."""

    def __init__(
        self,
        size: int,
        mode: Mode = Mode.MERGE,
        frequency: float | None = None,
        recovery: int = 65_536,
        lengths: Sequence[int] = (),
    ) -> None:
        self.harness = Harness(SessionLimits(max_recovery_length=recovery))
        self.sessions: list[Session] = []
        self.channels: list[MemoryChannel] = []
        fields = "key command x" if mode is Mode.COMMAND else "x y"
        for number in range(size):
            session, channel = self.harness.open(QUIET, lengths[number] if lengths else None)
            self.harness.subscribe(session, 1, "a b", fields, mode, max_frequency=frequency)
            self.sessions.append(session)
            self.channels.append(channel)
        self.mode = mode
        self.number = 0
        self.publish()
        self.settle()

    def settle(self) -> None:
        self.harness.advance(2.5)
        for channel in self.channels:
            channel.take()

    def publish(self, item: str = "a") -> None:
        self.number += 1
        event = {"x": str(self.number), "y": "y"}
        if self.mode is Mode.COMMAND:
            event |= {"key": "k", "command": "UPDATE"}
        self.harness.publish(item, **event)

    def take(self) -> list[list[str]]:
        return [channel.take() for channel in self.channels]

    @property
    def listening(self) -> int:
        """Lanes that are told of events of item a."""
        return sum(len(view.lanes) for view in self.harness.feed.items["a"]._views.values())


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.RAW, Mode.DISTINCT, Mode.COMMAND])
def test_sessions_that_want_the_same_are_served_by_the_lanes_of_one(mode: Mode) -> None:
    company = Company(5, mode)
    assert company.listening == 1
    company.publish()
    first, *others = company.take()
    assert len(first) == 1
    assert others == [first] * 4


def test_of_streams_that_have_become_one_nothing_is_left_but_that_one() -> None:
    """Freed as they go, without the garbage collector: a server that holds many thousands lets it look seldom."""
    gc.collect()
    gc.disable()
    try:
        before = alive()
        company = Company(5)
        assert alive() - before == Counter({SharedStream: 1, Outbox: 1, MergeLane: 2})
        company.sessions[0].notify(b"MSGDONE,*,1,\r\n")
        assert alive() - before == Counter({SharedStream: 1, OwnStream: 1, Outbox: 2, MergeLane: 4})
        company.settle()
        assert alive() - before == Counter({SharedStream: 1, Outbox: 1, MergeLane: 2})
    finally:
        gc.enable()


def test_what_was_a_clients_own_stream_reaches_nobody_once_others_read_it() -> None:
    company = Company(2)
    streams = [session.own() for session in company.sessions]
    company.settle()
    assert company.listening == 1
    for stream in streams:
        stream.tell(b"MSGDONE,*,1,\r\n")
        stream.limit(0.001)
        stream.flush()
        stream.remove(1)
        stream.end()
    company.harness.turn()
    assert company.take() == [[], []]
    company.publish()
    first, second = company.take()
    assert len(first) == 1
    assert second == first


@pytest.mark.parametrize("who", [0, 1, 2])
def test_a_session_that_ends_while_it_shares_has_been_sent_what_it_was_sent(who: int) -> None:
    company = Company(3)
    for _ in range(4):
        company.publish()
    session = company.sessions[who]
    session.notify(b"MSGDONE,*,1,\r\n")
    company.settle()
    company.publish()
    before = session.figures()
    assert before.updates == 6, "one when all began, four, and one after the settling"
    assert before.bytes > 0
    session.close(31, "")
    assert session.figures() == before


def alive() -> Counter[type]:
    kinds = (OwnStream, SharedStream, Outbox, MergeLane)
    return Counter(type(thing) for thing in gc.get_objects() if type(thing) in kinds)


def test_a_session_that_has_only_just_begun_goes_alone_until_it_has_been_calm_for_a_while() -> None:
    company = Company(2)
    session, channel = company.harness.open(QUIET)
    company.harness.subscribe(session, 1, "a b", "x y", snapshot=False)
    company.publish("a")
    company.publish("b")
    assert company.listening == 2
    company.harness.advance(CALM * 1.5)
    assert company.listening == 1
    channel.take()
    company.publish()
    assert channel.take() == company.channels[0].take()[-1:]


def test_one_that_came_later_goes_alone_while_others_begin_to_share() -> None:
    company = Company(2)
    for wait in (CALM * 0.6, CALM * 0.6):
        session, _ = company.harness.open(QUIET)
        company.harness.subscribe(session, 1, "a b", "x y", snapshot=False)
        company.publish("a")
        company.publish("b")
        company.harness.advance(wait)
    assert company.listening == 2
    company.harness.advance(CALM)
    assert company.listening == 1


def test_sessions_that_have_had_other_values_go_apart() -> None:
    company = Company(2)
    session, channel = company.harness.open(QUIET)
    company.harness.subscribe(session, 1, "a b", "x y")
    company.settle()
    company.harness.advance(20.0)
    assert company.listening == 2
    channel.take()
    company.publish()
    assert channel.take() == [f"U,1,1,{company.number}|y"]
    assert company.take() == [[f"U,1,1,{company.number}|"]] * 2


@pytest.mark.parametrize("who", [0, 1, 2], ids=["the first", "another", "the last"])
@pytest.mark.parametrize("unwritten", [False, True])
def test_whatever_happens_to_one_alone_the_others_go_on(who: int, unwritten: bool) -> None:
    def message(company: Company) -> None:
        company.sessions[who].notify(b"MSGDONE,*,1,\r\n")

    def limit(company: Company) -> None:
        company.sessions[who].subscription(1).reconfigure(0.1)

    def more(company: Company) -> None:
        company.harness.subscribe(company.sessions[who], 2, "a", "y")

    def less(company: Company) -> None:
        company.sessions[who].unsubscribe(1)

    def clog(company: Company) -> None:
        company.channels[who].congest()

    def break_off(company: Company) -> None:
        company.channels[who].cut()

    def end(company: Company) -> None:
        company.sessions[who].close(31, "ended")

    def constrain(company: Company) -> None:
        company.sessions[who].constrain(5.0)

    for happens in (message, limit, more, less, clog, break_off, end, constrain):
        company = Company(3)
        if unwritten:
            company.harness.source.publish("b", {"x": "unwritten", "y": "y"})
        happens(company)
        company.harness.turn()
        expected = ["U,1,2,unwritten|y"] if unwritten else []
        for other in {0, 1, 2} - {who}:
            assert company.channels[other].take() == expected, happens.__name__
        company.publish()
        for other in {0, 1, 2} - {who}:
            assert company.channels[other].take() == [f"U,1,1,{company.number}|"], happens.__name__


@pytest.mark.parametrize("who", [0, 2])
def test_a_session_that_was_clogged_gets_the_latest_and_joins_again(who: int) -> None:
    company = Company(3)
    company.harness.source.publish("b", {"x": "1", "y": "1"})
    company.channels[who].congest()
    company.publish()
    company.publish()
    assert company.listening == 1
    company.channels[who].relieve()
    company.harness.turn()
    lines = company.take()
    assert lines[who] == ["U,1,2,1|1", f"U,1,1,{company.number}|"]
    assert lines[1] == ["U,1,2,1|1", f"U,1,1,{company.number - 1}|", f"U,1,1,{company.number}|"]
    company.settle()
    assert company.listening == 1
    company.publish()
    assert company.take() == [[f"U,1,1,{company.number}|"]] * 3


@pytest.mark.parametrize("who", [0, 1])
def test_a_session_recovers_what_was_sent_on_the_stream_it_shared(who: int) -> None:
    company = Company(2)
    session = company.sessions[who]
    before = session.log.sent
    for _ in range(3):
        company.publish()
    company.harness.source.publish("b", {"x": "1", "y": "1"})
    company.channels[who].cut()
    channel = company.harness.bind(session, QUIET, recovery_from=before + 1)
    assert [line for line in channel.take() if line[:2] in ("PR", "U,")] == [
        f"PROG,{before + 1}",
        f"U,1,1,{company.number - 1}|",
        f"U,1,1,{company.number}|",
        "U,1,2,1|1",
    ]


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("kept", [0, 40, 65_536])
def test_a_connection_of_limited_length_ends_alone(who: int, kept: int) -> None:
    company = Company(2, recovery=kept, lengths=[400 if number == who else 4_000 for number in range(2)])
    assert company.listening == 1
    other = company.channels[1 - who]
    for _ in range(40):
        company.publish()
    assert company.channels[who].take()[-1] == "LOOP,0"
    assert len(other.take()) == 40
    lines = company.harness.bind(company.sessions[who], QUIET).take()
    assert [line for line in lines if line[:2] == "U,"][-1] == f"U,1,1,{company.number}|"


def test_keep_alives_are_those_of_each_session_and_follow_what_was_sent_before() -> None:
    company = Company(2)
    company.harness.source.publish("a", {"x": "new"})
    for session in company.sessions:
        session.confirm_constraints()
    assert company.take() == [["U,1,1,new|", "CONS,unlimited"]] * 2
    company.harness.advance(29.0)
    assert company.take() == [[], []]
    company.harness.advance(1.5)
    assert company.take() == [["PROBE"]] * 2


def test_sessions_with_limits_of_their_own_or_that_poll_go_alone() -> None:
    company = Company(1)
    harness = company.harness
    for binding, bandwidth in ((QUIET, 50.0), (Binding(polling=True, idle_millis=30_000), None)):
        session, _ = harness.open(binding, max_bandwidth=bandwidth)
        harness.subscribe(session, 1, "a b", "x y")
    company.settle()
    assert [session.shares for session in harness.kernel.sessions.values()] == [True, False, False]
    assert company.listening == 3


@pytest.mark.parametrize(("lanes", "listening"), [(MAX_LANES, 1), (MAX_LANES + 1, 2)])
def test_sessions_with_very_many_lanes_go_alone(lanes: int, listening: int) -> None:
    harness = Harness()
    group = " ".join(["a", *[f"i{number}" for number in range(lanes - 1)]])
    for _ in range(2):
        session, _ = harness.open(QUIET)
        harness.subscribe(session, 1, group, "x")
    harness.advance(2.5)
    assert sum(len(view.lanes) for view in harness.feed.items["a"]._views.values()) == listening


def test_the_lanes_of_a_session_with_very_many_are_not_gone_through_whenever_it_asks_for_something() -> None:
    harness = Harness()
    session, _ = harness.open(QUIET)
    for number in range(1, 21):
        harness.subscribe(session, number, " ".join(f"i{number}-{item}" for item in range(1_000)), "x")
    harness.advance(2.5)

    def ask() -> None:
        session.own()
        harness.advance(2 * CALM)

    # In the same units: going through them once.
    assert fastest(ask) < fastest(session.own().lanes) / 2


def fastest(action: Callable[[], object]) -> float:
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        action()
        times.append(time.perf_counter() - begun)
    return min(times)


def test_many_sessions_join_a_few_at_a_time() -> None:
    company = Company(MAX_JOINS + 50)
    assert all(session.shares for session in company.sessions)
    assert company.listening == 1


def test_frequency_limits_hold_for_those_who_part_as_for_the_others() -> None:
    company = Company(3, frequency=0.5)
    company.publish()
    company.publish()
    company.take()
    company.sessions[0].notify(b"MSGDONE,*,1,\r\n")
    company.sessions[2].notify(b"MSGDONE,*,1,\r\n")
    company.harness.turn()
    company.take()
    company.harness.advance(1.9)
    assert company.take() == [[], [], []]
    company.harness.advance(0.2)
    assert company.take() == [[f"U,1,1,{company.number}|"]] * 3


def test_those_with_the_same_limit_share_whenever_they_have_begun() -> None:
    harness = Harness()
    sessions: list[Session] = []
    for number in range(12 * 20):
        if number % 4 == 0 and len(sessions) < 5:
            session, _ = harness.open(QUIET)
            harness.subscribe(session, 1, "a b", "x y", max_frequency=1.0)
            sessions.append(session)
        harness.publish("a", x=str(number), y="y")
        harness.publish("b", x=str(number), y="y")
        harness.advance(0.05)
    assert all(session.shares for session in sessions)
    streams = harness.kernel.sharing._streams.values()
    assert [len(points) for points in streams] == [1]


# -- at random ----------------------------------------------------------------------------------------------------

WHO = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from("abc"), st.integers(0, 3)),
        st.tuples(st.just("publish unwritten"), st.sampled_from("abc"), st.integers(0, 3)),
        st.tuples(st.just("advance"), st.sampled_from([0.1, 0.7, 2.0]), st.just(0)),
        st.tuples(st.sampled_from(["congest", "relieve", "message", "again", "limit", "more"]), WHO, WHO),
    ),
    max_size=30,
)


@given(STEPS, st.sampled_from([Mode.MERGE, Mode.DISTINCT, Mode.RAW, Mode.COMMAND]), st.sampled_from([None, 0.8]))
def test_the_lines_of_each_session_are_those_it_would_get_alone(
    steps: list[tuple[str, object, int]], mode: Mode, frequency: float | None
) -> None:
    assert played(steps, mode, frequency, 0.0) == played(steps, mode, frequency, NEVER)


def played(
    steps: list[tuple[str, object, int]], mode: Mode, frequency: float | None, calm: float
) -> list[list[tuple[float, list[str]]]]:
    """What each of three sessions was written when; lines of different items in one write in any order."""
    harness = Harness(SessionLimits(session_timeout_millis=10**9, session_recovery_millis=10**9))
    harness.kernel.sharing.calm = calm
    players = [harness.open(QUIET) for _ in range(3)]
    channels = [[channel] for _, channel in players]
    for session, _ in players:
        harness.subscribe(session, 1, "a b", "key command x", mode, max_frequency=frequency, snapshot=True)
    extra = 1
    for what, first, second in steps:
        if what.startswith("publish"):
            harness.source.publish(str(first), {"x": str(second), "key": "k", "command": "UPDATE"})
            if what == "publish":
                harness.turn()
        elif what == "advance":
            assert isinstance(first, float)
            harness.advance(first)
        else:
            assert isinstance(first, int)
            session = players[first][0]
            channel = channels[first][-1]
            if what == "congest":
                channel.congest()
            elif what == "relieve":
                channel.relieve()
            elif what == "message":
                session.notify(b"MSGDONE,*,1,\r\n")
            elif what == "again":
                channel.cut()
                channels[first].append(harness.bind(session, QUIET, recovery_from=session.log.sent))
            elif what == "limit":
                session.subscription(1).reconfigure([None, 0.5, 4.0][second])
            else:
                extra += 1
                harness.subscribe(session, extra, "c a", "key command x", mode)
            harness.turn()
    for some in channels:
        some[-1].relieve()
    harness.advance(10.0)
    return [
        [(time, sorted(line.decode() for line in lines)) for channel in some for time, lines in channel.written]
        for some in channels
    ]
