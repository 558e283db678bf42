"""How late the loop was of late, with a clock that the test moves."""

from __future__ import annotations

import pytest

from penstock.doors.load import MEMORY_OF_LAG, PULSE, Load


def test_a_process_that_is_not_measured_has_no_load() -> None:
    load = Load()
    assert load.lag(1_000.0) == 0.0
    assert load.memory == 0


def test_beats_on_time_are_no_lag() -> None:
    load = Load()
    for beat in range(20):
        load.beat(beat * PULSE, 5)
        assert load.lag(beat * PULSE) == pytest.approx(0.0)
    assert load.memory == 5


def test_a_late_beat_counts_for_a_while() -> None:
    load = Load()
    load.beat(0.0, 0)
    load.beat(PULSE + 0.3, 0)
    assert load.lag(PULSE + 0.3) == pytest.approx(0.3)
    now = PULSE + 0.3
    while now < PULSE + 0.3 + MEMORY_OF_LAG - 2 * PULSE:
        now += PULSE
        load.beat(now, 0)
        assert load.lag(now) == pytest.approx(0.3)
    for _ in range(3):
        now += PULSE
        load.beat(now, 0)
    assert load.lag(now) == pytest.approx(0.0)


def test_a_beat_that_has_not_come_counts_before_it_comes() -> None:
    load = Load()
    load.beat(0.0, 0)
    assert load.lag(PULSE + 2.0) == pytest.approx(2.0)
