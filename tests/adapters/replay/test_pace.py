from __future__ import annotations

import pytest

from penstock.adapters.replay.pace import ReplayPace


def due(pace: ReplayPace, now: float, recorded: list[float | None]) -> list[float]:
    """When rows with these times are due if the file is begun now."""
    pace.begin(now)
    return [pace.due(time) for time in recorded]


@pytest.mark.parametrize(
    ("speed", "expected"), [(1.0, [100.0, 101.0, 104.0]), (2.0, [100.0, 100.5, 102.0]), (0.5, [100.0, 102.0, 108.0])]
)
def test_rows_are_as_far_apart_as_recorded_times_the_speed(speed: float, expected: list[float]) -> None:
    assert due(ReplayPace(speed, None), 100.0, [5_000.0, 5_001.0, 5_004.0]) == expected


def test_speed_zero_is_at_once() -> None:
    assert due(ReplayPace(0, None), 7.0, [1.0, 1_000.0, None]) == [7.0, 7.0, 7.0]


def test_a_rate_needs_no_recorded_times_and_wins_over_them() -> None:
    assert due(ReplayPace(1.0, 4), 10.0, [None, 99.0, 0.0]) == [10.0, 10.25, 10.5]


def test_a_time_that_goes_back_is_due_with_the_row_ahead_of_it() -> None:
    assert due(ReplayPace(1.0, None), 0.0, [10.0, 13.0, 11.0, 14.0]) == [0.0, 3.0, 3.0, 4.0]


def test_every_pass_begins_anew() -> None:
    pace = ReplayPace(1.0, None)
    assert due(pace, 0.0, [10.0, 12.0]) == [0.0, 2.0]
    assert due(pace, 50.0, [10.0, 12.0]) == [50.0, 52.0]
    counted = ReplayPace(1.0, 1)
    assert due(counted, 0.0, [None, None]) == [0.0, 1.0]
    assert due(counted, 50.0, [None, None]) == [50.0, 51.0]


def test_who_is_late_is_due_in_the_past_and_catches_up() -> None:
    pace = ReplayPace(1.0, None)
    pace.begin(0.0)
    assert [pace.due(time) for time in (0.0, 1.0, 2.0)] == [0.0, 1.0, 2.0], "whatever the clock says meanwhile"
