"""What `time:now` and its relatives stand for, checked with the calendar of the standard library."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.instant import parse_instant, print_instant
from penstock.wire.ditto.placeholder import is_placeholder, moment_of
from penstock.wire.ditto.rql import parse_rql, print_rql


def shown(name: str, now: str) -> str:
    nanos = parse_instant(now)
    assert nanos is not None
    return print_instant(moment_of(name, nanos).nanos)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # As upstream's documentation has them.
        ("time:now", "2024-01-06T14:23:42.123Z"),
        ("time:now+1h", "2024-01-06T15:23:42.123Z"),
        ("time:now-7d", "2023-12-30T14:23:42.123Z"),
        ("time:now[h]", "2024-01-06T14:00:00Z"),
        ("time:now[d]", "2024-01-06T00:00:00Z"),
        ("time:now-25m[m]", "2024-01-06T13:58:00Z"),
        ("time:now+3d[s]", "2024-01-09T14:23:42Z"),
        # The others.
        ("time:now+250ms", "2024-01-06T14:23:42.373Z"),
        ("time:now-42s", "2024-01-06T14:23:00.123Z"),
        ("time:now+2w", "2024-01-20T14:23:42.123Z"),
        ("time:now-1mo", "2023-12-06T14:23:42.123Z"),
        ("time:now+12mo", "2025-01-06T14:23:42.123Z"),
        ("time:now-24y", "2000-01-06T14:23:42.123Z"),
        ("time:now[ms]", "2024-01-06T14:23:42.123Z"),
        ("time:now[w]", "2024-01-01T00:00:00Z"),
        ("time:now[mo]", "2024-01-01T00:00:00Z"),
        ("time:now+1mo[mo]", "2024-02-01T00:00:00Z"),
        ("time:now-1y[y]", "2023-01-01T00:00:00Z"),
        ("time:now+0s", "2024-01-06T14:23:42.123Z"),
    ],
)
def test_time_now_can_be_moved_and_truncated(name: str, expected: str) -> None:
    assert shown(name, "2024-01-06T14:23:42.123Z") == expected


def test_the_last_day_of_a_longer_month_becomes_that_of_a_shorter_one() -> None:
    assert shown("time:now+1mo", "2024-01-31T01:00:00Z") == "2024-02-29T01:00:00Z"
    assert shown("time:now-1y", "2024-02-29T01:00:00Z") == "2023-02-28T01:00:00Z"
    assert shown("time:now+1mo", "9999-11-30T00:00:00Z") == "9999-12-30T00:00:00Z"


@pytest.mark.parametrize("name", ["time:now+999999999999999999y", "time:now+8100y[mo]", "time:now+3000000d[y]"])
def test_what_is_beyond_all_years_is_after_everything(name: str) -> None:
    last = parse_instant("9999-12-31T23:59:59.999999999Z")
    assert last is not None
    assert moment_of(name, 0).nanos > last
    assert moment_of(name.replace("+", "-"), 0).nanos < -last / 10


@given(st.integers(-(10**15), 10**16), st.integers(-10_000, 10_000), st.sampled_from("smhdw"))
def test_an_offset_is_what_the_calendar_says(micros: int, offset: int, unit: str) -> None:
    steps = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    start = zero + timedelta(microseconds=micros)
    nanos = micros * 1000
    moved = start + timedelta(**{steps[unit]: offset})
    expected = (moved - zero) // timedelta(microseconds=1) * 1000
    assert moment_of(f"time:now{offset:+d}{unit}", nanos).nanos == expected
    floor = moment_of(f"time:now{offset:+d}{unit}[w]", nanos).nanos
    monday = moved.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=moved.weekday())
    assert floor == (monday - zero) // timedelta(microseconds=1) * 1000


@pytest.mark.parametrize(
    "name",
    [
        "time:then",
        "time:now-",
        "time:now-1",
        "time:now-h",
        "time:now1h",
        "time:now-1H",
        "time:now-1.5h",
        "time:now[1h]",
        "time:now[]",
        "time:now[h",
        "time:now[h]-1h",
        "time:now-1h-1h",
        "time:now/h",
        "time:now+9999999999999999999s",
        "time:nowepoch",
    ],
)
def test_what_has_another_form_is_refused_with_the_expression(name: str) -> None:
    assert not is_placeholder(name)
    with pytest.raises(DittoError) as refused:
        parse_rql(f"gt(attributes/t,{name})")
    assert refused.value.code == "rql.expression.invalid"


def test_an_expression_with_it_is_printed_as_it_was() -> None:
    text = "and(gt(attributes/t,time:now-1h[h]),in(attributes/u,1,time:now_epoch_millis+3mo))"
    assert print_rql(parse_rql(text)) == text
