from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.exchange.window import PIECES, Average, Window

STEPS = st.lists(st.tuples(st.floats(0, 3), st.integers(0, 50)), max_size=200)


def test_as_much_as_allowed_fits_and_no_more() -> None:
    window = Window(60, 5.0)
    assert window.room(100.0) == 60
    window.add(100.0, 60)
    assert window.room(104.999) == 0


def test_what_is_as_old_as_the_window_is_outside() -> None:
    window = Window(60, 5.0)
    window.add(100.0, 20)
    window.add(102.0, 40)
    assert window.room(105.0) == 20
    assert window.room(107.0) == 60


@given(STEPS)
def test_room_is_never_less_than_exactly_and_never_more_than_one_piece_earlier(steps: list[tuple[float, int]]) -> None:
    window = Window(1_000, 5.0)
    added: list[tuple[float, int]] = []
    now = 100.0
    for wait, amount in steps:
        now += wait
        room = window.room(now)
        # A hair's breadth more on either side: sums of floats.
        exact = 1_000 - sum([each for at, each in added if at > now - 5.0 - 1e-9])
        lenient = 1_000 - sum([each for at, each in added if at > now - 5.0 + 5.0 / PIECES + 1e-9])
        assert exact <= room <= lenient
        window.add(now, amount)
        added.append((now, amount))


def test_a_window_has_few_pieces_however_often_something_is_counted() -> None:
    window = Window(10**9, 5.0)
    for number in range(20_000):
        now = number * 0.0005
        window.room(now)
        window.add(now, 1)
    assert len(window._pieces) <= PIECES + 1


def test_what_comes_within_a_five_hundredth_of_the_window_leaves_it_together() -> None:
    window = Window(10, 500.0)
    for now in (0.0, 0.999, 1.0, 1.999):
        window.add(now, 1)
    assert window.room(499.999) == 6
    assert window.room(500.0) == 8
    assert window.room(501.0) == 10


def test_an_average_is_that_of_the_values_in_the_window() -> None:
    average = Average(60.0)
    assert average.add(0.0, 10.0) == 10.0
    assert average.add(30.0, 20.0) == 15.0
    assert average.add(60.0, 40.0) == pytest.approx(30.0)
    assert average.add(500.0, 1.0) == 1.0
