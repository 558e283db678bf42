from __future__ import annotations

from itertools import pairwise
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.timers import SLACK, Beats, Timed, Timers


class Bell(Timed):
    def __init__(self, name: str, rung: list[tuple[str, float]]) -> None:
        super().__init__()
        self.name = name
        self._rung = rung

    def expire(self, now: float) -> None:
        self._rung.append((self.name, now))


def test_targets_expire_in_the_order_of_their_deadlines_and_not_before() -> None:
    timers, rung = Timers(), list[tuple[str, float]]()
    late, early = Bell("late", rung), Bell("early", rung)
    timers.set(late, 20.0)
    timers.set(early, 10.0)
    timers.run(9.999)
    assert rung == []
    timers.run(20.0)
    assert rung == [("early", 20.0), ("late", 20.0)]
    assert timers.next_deadline() is None


def test_deadlines_at_the_same_time_keep_the_order_in_which_they_were_set() -> None:
    timers, rung = Timers(), list[tuple[str, float]]()
    for name in "abc":
        timers.set(Bell(name, rung), 5.0)
    timers.run(5.0)
    assert [name for name, _ in rung] == ["a", "b", "c"]


def test_a_deadline_that_is_moved_counts_once_at_its_new_time() -> None:
    timers, rung = Timers(), list[tuple[str, float]]()
    bell = Bell("bell", rung)
    timers.set(bell, 10.0)
    timers.set(bell, 30.0)
    timers.run(20.0)
    assert rung == []
    timers.set(bell, 25.0)
    timers.run(25.0)
    timers.run(30.0)
    assert rung == [("bell", 25.0)]


def test_a_deadline_of_never_is_not_kept() -> None:
    timers, rung = Timers(), list[tuple[str, float]]()
    timers.set(Bell("never", rung), inf)
    assert timers.next_deadline() is None


def test_a_target_may_set_its_next_deadline_while_it_expires() -> None:
    timers = Timers()

    class Ticker(Timed):
        ticks = 0

        def expire(self, now: float) -> None:
            self.ticks += 1
            timers.set(self, now + 1.0)

    ticker = Ticker()
    timers.set(ticker, 1.0)
    for second in range(1, 5):
        timers.run(float(second))
    assert ticker.ticks == 4
    assert timers.next_deadline() == 5.0


# -- beats --------------------------------------------------------------------------------------------------------


class Drum(Timed):
    """Joins the beats again whenever it has expired."""

    def __init__(self, beats: Beats, interval: float, group: int = 0) -> None:
        super().__init__()
        self.times: list[float] = []
        self._beats = beats
        self._interval = interval
        self._group = group

    def start(self, now: float) -> None:
        self.times.append(now)
        self._beats.join(self, self._interval, self._group, now)

    def expire(self, now: float) -> None:
        self.start(now)


def played(starts: list[float], interval: float, until: float, delay: float = 0.0, groups: int = 1) -> list[Drum]:
    """Drums that start one after another, in one group after another; every turn comes late by `delay`."""
    timers = Timers()
    beats = Beats(timers)
    drums = []
    for number, start in enumerate(sorted(starts)):
        run(timers, start, delay)
        drums.append(Drum(beats, interval, number % groups))
        drums[-1].start(start)
    run(timers, until, delay)
    return drums


def run(timers: Timers, until: float, delay: float) -> None:
    while (deadline := timers.next_deadline()) is not None and deadline + delay < until:
        timers.run(deadline + delay)


def test_one_alone_keeps_exactly_to_its_interval() -> None:
    (drum,) = played([10.0], 1.0, 14.5)
    assert drum.times == [10.0, 11.0, 12.0, 13.0, 14.0]


def test_one_that_starts_a_little_before_the_beat_of_another_soon_goes_by_it() -> None:
    first, second = played([10.0, 10.9], 1.0, 14.5)
    assert first.times == [10.0, 11.0, 12.0, 13.0, 14.0]
    assert second.times == [10.9, 11.9, 13.0, 14.0]


def test_one_of_another_group_has_a_beat_of_its_own() -> None:
    _, second = played([10.0, 10.5], 1.0, 13.9, groups=2)
    assert second.times == [10.5, 11.5, 12.5, 13.5]


def test_one_that_starts_at_another_time_comes_an_eighth_later_each_time_until_it_meets_the_first() -> None:
    first, second = played([10.0, 10.5], 1.0, 16.5)
    assert first.times == [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]
    assert second.times == [10.5, 11.5, 12.625, 13.75, 14.875, 16.0]


def test_the_next_one_leads_when_the_first_of_the_group_has_gone() -> None:
    timers = Timers()
    beats = Beats(timers)
    beats.join(Bell("once", []), 1.0, 0, 10.0)
    drum = Drum(beats, 1.0)
    drum.start(10.5)
    run(timers, 15.0, 0.0)
    assert drum.times == [10.5, 11.5, 12.625, 13.625, 14.625]


def test_one_that_has_been_given_another_deadline_or_none_is_left_alone() -> None:
    timers = Timers()
    beats = Beats(timers)
    moved, ended = Drum(beats, 1.0), Drum(beats, 1.0)
    moved.start(10.0)
    ended.start(10.0)
    timers.set(moved, 10.3)
    ended.alarm = 0.0
    run(timers, 11.2, 0.0)
    assert moved.times == [10.0, 10.3]
    assert ended.times == [10.0]


def test_a_beat_that_nobody_goes_by_ends() -> None:
    timers, rung = Timers(), list[tuple[str, float]]()
    beats = Beats(timers)
    beats.join(Bell("once", rung), 1.0, 0, 10.0)
    assert len(beats) == 1
    run(timers, 20.0, 0.0)
    assert rung == [("once", 11.0)]
    assert timers.next_deadline() is None
    assert len(beats) == 0


@given(
    st.lists(st.floats(100.0, 103.0), min_size=1, max_size=40),
    st.floats(0.05, 1.0),
    st.sampled_from([0.0, 0.001, 0.02]),
    st.integers(1, 3),
)
def test_none_expires_before_its_interval_or_much_later_and_those_of_a_group_come_together(
    starts: list[float], interval: float, delay: float, groups: int
) -> None:
    # Each time the distance to the first gets smaller by an eighth.
    drums = played(starts, interval, 103.0 + 12 * (interval + delay), delay, groups)
    late = interval * SLACK + 2 * delay + 1e-9
    for drum in drums:
        assert len(drum.times) > 1
        assert all(earlier + interval <= later <= earlier + interval + late for earlier, later in pairwise(drum.times))
    # Turns that are much later than that might always miss the first.
    if delay <= interval * SLACK / 2:
        for number in range(groups):
            assert len({drum.times[-1] for drum in drums[number::groups]}) <= 1
