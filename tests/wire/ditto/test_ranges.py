from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.document import MAX_LONG, MIN_LONG
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.ranges import HistoryRange, parse_revision, parse_timestamp, resolve

HISTORY = range(1, 11)  # Ten revisions


@pytest.mark.parametrize(
    ("first", "last", "revisions"),
    [
        (0, MAX_LONG, range(1, 11)),
        (1, MAX_LONG, range(1, 11)),
        (5, 9, range(5, 10)),
        (5, 5, [5]),
        (0, 0, range(1, 11)),
        (0, -1, range(1, 10)),
        (0, -9, [1]),
        (0, -10, []),
        (-1, MAX_LONG, [10]),
        (-5, 0, range(6, 11)),
        (-5, -3, [6, 7]),
        (-100, MAX_LONG, range(1, 11)),
        (9, 5, []),
        (11, 20, []),
        (8, 20, [8, 9, 10]),
        (MIN_LONG, MAX_LONG, range(1, 11)),
        (MAX_LONG, MAX_LONG, []),
        (MIN_LONG, MIN_LONG, []),
    ],
)
def test_revisions_are_inclusive_and_count_from_the_end_when_negative(
    first: int, last: int, revisions: list[int]
) -> None:
    found = resolve(HistoryRange(first, last), 10)
    assert [each for each in HISTORY if found.includes(each)] == list(revisions)
    assert found.is_empty == (not list(revisions))


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(0, 12))
def test_every_range_is_what_the_definition_says(first: int, last: int, latest: int) -> None:
    lowest = latest + first + 1 if first < 0 else first
    highest = latest + last if last <= 0 else last
    found = resolve(HistoryRange(first, last), latest)
    assert [each for each in range(1, latest + 1) if found.includes(each)] == [
        each for each in range(1, latest + 1) if lowest <= each <= highest
    ]
    assert found.is_empty == (not any(lowest <= each <= highest for each in range(1, latest + 1)))


def test_an_empty_history_has_an_empty_range() -> None:
    assert resolve(HistoryRange(), 0).is_empty
    assert resolve(HistoryRange(-1), 0).is_empty


@given(st.integers(-3000, 3000), st.integers(-3000, 3000), st.integers(-5, 5))
def test_instants_are_exclusive_at_both_ends_down_to_the_nanosecond(after: int, before: int, timestamp: int) -> None:
    found = resolve(HistoryRange(after=after, before=before), 1)
    assert found.has_begun(timestamp) == (timestamp * 1000 > after)
    assert (not found.is_over(timestamp)) == (timestamp * 1000 < before)


def test_without_instants_all_times_are_in_the_range() -> None:
    found = resolve(HistoryRange(), 1)
    assert found.has_begun(-(10**18))
    assert not found.is_over(10**18)


def test_instants_upside_down_are_an_empty_range() -> None:
    assert resolve(HistoryRange(after=5000, before=5000), 10).is_empty
    assert resolve(HistoryRange(after=5000, before=6000), 10).is_empty
    assert not resolve(HistoryRange(after=5000, before=6001), 10).is_empty


@pytest.mark.parametrize(
    ("text", "revision"),
    [("0", 0), ("42", 42), ("-5", -5), ("+7", 7), ("007", 7), ("9" * 30, MAX_LONG), ("-" + "9" * 5000, MIN_LONG)],
)
def test_a_revision_in_a_header_is_a_whole_number(text: str, revision: int) -> None:
    assert parse_revision(text, "at-historical-revision") == revision


@pytest.mark.parametrize("text", ["", "-", "1.5", "abc", "1e3", " 1", "٣", "--1"])
def test_any_other_revision_is_error_400_that_names_the_header(text: str) -> None:
    with pytest.raises(DittoError) as caught:
        parse_revision(text, "at-historical-revision")
    assert (caught.value.status, caught.value.code) == (400, "header.invalid")
    assert caught.value.message == f"The value '{text}' of the header 'at-historical-revision' is not a valid number."


def test_a_timestamp_in_a_header_is_parsed_or_is_error_400() -> None:
    assert parse_timestamp("1970-01-01T00:00:01Z", "at-historical-timestamp") == 1_000_000_000
    with pytest.raises(DittoError) as caught:
        parse_timestamp("yesterday", "at-historical-timestamp")
    assert (caught.value.status, caught.value.code) == (400, "header.invalid")
