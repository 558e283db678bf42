from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.instant import parse_instant, print_instant

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2024-01-01T00:00:00.123Z", 1_704_067_200_123_000_000),
        ("2022-10-24T07:11Z", 1_666_595_460_000_000_000),
        ("2022-10-24T09:11:00+02:00", 1_666_595_460_000_000_000),
        ("2022-10-24T09:11:00+0200", 1_666_595_460_000_000_000),
        ("2022-10-24T01:41:00-05:30", 1_666_595_460_000_000_000),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2024-02-29t00:00:00z", 1_709_164_800_000_000_000),
    ],
)
def test_a_text_is_read_in_nanoseconds(text: str, nanos: int) -> None:
    assert parse_instant(text) == nanos


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-13-01T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:60:00Z",
        "2024-01-01T00:00:60Z",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00.1234567890Z",
        "2024-01-01T00:00:00+19:00",
        "0000-01-01T00:00:00Z",
        " 2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00Z\n",
        "٢٠٢٤-01-01T00:00:00Z",
    ],
)
def test_anything_else_is_no_instant(text: str) -> None:
    assert parse_instant(text) is None


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (123_000_000, "1970-01-01T00:00:00.123Z"),
        (120_000, "1970-01-01T00:00:00.000120Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1_000_000, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_text_has_as_few_digits_as_say_it_in_threes(nanos: int, text: str) -> None:
    assert print_instant(nanos) == text


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(0, 999))  # noqa: DTZ001
def test_what_is_printed_is_parsed_again(moment: datetime, nanos: int) -> None:
    since = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) * 1000 + nanos
    assert parse_instant(print_instant(since)) == since
    if nanos == 0:
        assert datetime.fromisoformat(print_instant(since)) == moment.replace(tzinfo=UTC)
