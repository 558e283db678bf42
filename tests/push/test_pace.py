"""Frequency limits of subscriptions without a trigger."""

from __future__ import annotations

import pytest

from penstock.push.pace import Pace


def test_the_first_passes_and_the_next_waits_its_interval() -> None:
    pace = Pace("s", 2.0, 1)
    assert pace.passes(1_000)
    assert not pace.passes(1_499)
    assert pace.next_millis == 1_500
    assert pace.passes(1_500)


def test_nothing_overtakes_what_is_held() -> None:
    pace = Pace("s", 2.0, 2)
    assert pace.passes(0)
    assert not pace.hold(("a",))
    assert not pace.passes(10_000)
    assert pace.take(10_000) == ("a",)
    assert not pace.holds
    assert not pace.passes(10_499)


def test_a_full_buffer_drops_the_oldest_and_says_so() -> None:
    pace = Pace("s", 1.0, 2)
    assert [pace.hold((text,)) for text in "abc"] == [False, False, True]
    assert (pace.take(0), pace.take(1_000)) == (("b",), ("c",))


def test_a_buffer_of_none_holds_the_latest() -> None:
    pace = Pace("s", 1.0, 0)
    pace.hold(("a",))
    pace.hold(("b",))
    assert pace.take(0) == ("b",)


@pytest.mark.parametrize(("frequency", "interval"), [(1.0, 1_000), (3.0, 334), (0.001, 1_000_000), (5_000.0, 1)])
def test_the_interval_never_exceeds_the_frequency(frequency: float, interval: int) -> None:
    pace = Pace("s", frequency, 1)
    assert pace.passes(0)
    assert pace.next_millis == interval
