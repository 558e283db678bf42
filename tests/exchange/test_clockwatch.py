from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.exchange.clockwatch import ClockWatch, clock_difference, latency
from penstock.exchange.instant import Instant

NOON = 1_700_000_000_000


def ask(clock: ClockWatch, elapsed: float = 0.0, utc: int = NOON) -> int:
    return clock.ask(Instant(elapsed, utc))


@dataclass(frozen=True)
class Case:
    """A peer whose clock is ahead, on a line that is slow there or back, and that takes its time."""

    what: str
    ahead: int
    there: int
    took: int
    back: int
    latency: float
    difference: float
    counted: float


CASES = [
    Case("right, and no way at all", 0, 0, 0, 0, 0, 0, 0),
    Case("ahead", 5_000, 0, 0, 0, 0, 5_000, 5_000),
    Case("behind", -5_000, 0, 0, 0, 0, -5_000, 5_000),
    Case("ahead on a slow line", 5_000, 200, 0, 200, 400, 5_000, 4_800),
    Case("the time the peer takes is no latency", 5_000, 0, 1_000, 0, 0, 5_000, 5_000),
    Case("right on a line that is slow in one direction", 0, 8_000, 0, 0, 8_000, 4_000, 0),
    Case("right on a line that is slow in the other direction", 0, 0, 0, 8_000, 8_000, -4_000, 0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_only_what_the_latency_cannot_explain_counts_as_difference(case: Case) -> None:
    clock = ClockWatch(60.0)
    sent = ask(clock)
    came = NOON + case.there + case.ahead
    away = case.there + case.took + case.back
    clock.answered(sent, came, came + case.took, Instant(away / 1000, NOON + away))
    assert (clock.latency, clock.difference, clock.average) == (case.latency, case.difference, case.counted)


def test_the_peer_cannot_add_to_the_latency_by_claiming_to_have_answered_before_it_was_asked() -> None:
    clock = ClockWatch(60.0)
    sent = ask(clock)
    clock.answered(sent, NOON + 1_000_000, NOON, Instant(0.1, NOON + 100))
    assert clock.latency == 100


def test_the_peer_cannot_make_the_latency_negative() -> None:
    clock = ClockWatch(60.0)
    sent = ask(clock)
    clock.answered(sent, NOON, NOON + 1_000_000, Instant(0.1, NOON + 100))
    assert clock.latency == 0


def test_our_own_clock_may_be_set_between_request_and_answer() -> None:
    clock = ClockWatch(60.0)
    sent = ask(clock)
    clock.answered(sent, NOON, NOON, Instant(0.0, NOON - 3_600_000))
    assert clock.average == 0


def test_an_answer_to_no_request_is_ignored_and_so_is_the_second_one_to_the_same() -> None:
    clock = ClockWatch(60.0)
    clock.answered(7, 8, 9, Instant(0.0, NOON))
    assert clock.average is None
    sent = ask(clock)
    clock.answered(sent, NOON, NOON, Instant(0.0, NOON))
    clock.answered(sent, 0, 0, Instant(0.0, NOON))
    assert clock.average == 0


def test_requests_of_the_same_time_can_be_told_apart() -> None:
    clock = ClockWatch(60.0)
    assert [ask(clock), ask(clock), ask(clock, utc=NOON + 1)] == [NOON, NOON + 1, NOON + 2]


def test_who_never_answers_is_not_remembered_for_ever() -> None:
    clock = ClockWatch(60.0)
    first = ask(clock)
    for number in range(1, 9):
        ask(clock, number * 15.0, NOON + number * 15_000)
    clock.answered(first, 0, 0, Instant(200.0, NOON + 200_000))
    assert clock.average is None


def test_the_oldest_of_eight_requests_can_still_be_answered() -> None:
    clock = ClockWatch(60.0)
    first = ask(clock)
    for number in range(1, 8):
        ask(clock, number * 1.0, NOON + number * 1_000)
    clock.answered(first, NOON, NOON, Instant(8.0, NOON + 8_000))
    assert clock.average is not None


@pytest.mark.parametrize(("utc", "sent"), [(-1, 0), (0, 0), (1, 1), (2**64 - 1, 2**64 - 1), (2**64, 2**64 - 1)])
def test_a_request_has_a_time_that_can_be_sent_whatever_our_clock_says(utc: int, sent: int) -> None:
    assert ask(ClockWatch(60.0), utc=utc) == sent


def test_the_average_is_that_of_absolute_values_within_the_window() -> None:
    clock = ClockWatch(60.0)
    averages = []
    for number, ahead in enumerate([6_000, -2_000, 0, 0, 0]):
        elapsed, utc = number * 15.0, NOON + number * 15_000
        sent = ask(clock, elapsed, utc)
        clock.answered(sent, utc + ahead, utc + ahead, Instant(elapsed, utc))
        averages.append(clock.average)
    assert averages == [6_000, 4_000, pytest.approx(8_000 / 3), 2_000, 500]


# t0, t1, t2 of a response, t3; latency and clock difference.
EXCHANGES: list[tuple[tuple[int, int, int], int, int, float]] = [
    ((1000, 1000, 1000), 1000, 0, 0.0),
    # The same clock, 20 ms there and back, 5 ms to answer.
    ((1000, 1010, 1015), 1025, 20, 0.0),
    # 3 s ahead.
    ((1000, 4010, 4015), 1025, 20, 3000.0),
    # 3 s behind.
    ((5000, 2010, 2015), 5025, 20, -3000.0),
    # All of the latency on one way: half of it is the error.
    ((1000, 1100, 1100), 1100, 100, 50.0),
    ((1000, 1000, 1001), 1000, -1, 0.5),
]


@pytest.mark.parametrize(("stamps", "received", "on_the_way", "difference"), EXCHANGES)
def test_an_exchange_of_timestamps_tells_latency_and_clock_difference(
    stamps: tuple[int, int, int], received: int, on_the_way: int, difference: float
) -> None:
    assert latency(*stamps, received) == on_the_way
    assert clock_difference(*stamps, received) == difference


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(-(10**6), 10**6))
def test_the_clock_difference_is_right_to_within_half_the_latency(there: int, busy: int, back: int, ahead: int) -> None:
    start = 10**12
    stamps = (start, start + there + ahead, start + there + busy + ahead)
    end = start + there + busy + back
    assert latency(*stamps, end) == there + back
    assert abs(clock_difference(*stamps, end) - ahead) <= (there + back) / 2
