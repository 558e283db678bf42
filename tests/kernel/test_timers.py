from __future__ import annotations

from math import inf

from penstock.kernel.timers import Timed, Timers


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
