"""Which journaled values are of which type, and why others are not."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.history.column_types import TYPE_NAMES, Misfit, UnknownType, column_type, quoted

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("string", "a", "a"),
        ("string", "", ""),
        ("string", 1.5, "1.5"),
        ("string", {"a": [True, None]}, '{"a":[true,null]}'),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("boolean", False, False),
        ("int", "-2147483648", -(2**31)),
        ("int", 7.0, 7),
        ("bigint", "+9223372036854775807", 2**63 - 1),
        ("double", "61.5", 61.5),
        ("double", ".5", 0.5),
        ("double", "-1e3", -1000.0),
        ("double", 3, 3.0),
        ("decimal(5,2)", "123.4", Decimal("123.40")),
        ("decimal(5,2)", "123.400", Decimal("123.40")),
        ("decimal(3,0)", 999, Decimal(999)),
        ("decimal(4,2)", 0.1, Decimal("0.10")),
        ("timestamp", "2026-01-31T12:00:00Z", NOON),
        ("timestamp", "2026-01-31T13:00:00+01:00", NOON),
        ("timestamp", "2026-01-31 12:00:00.000001+00:00", NOON.replace(microsecond=1)),
        ("timestamp", 1769860800000, NOON),
        ("timestamp", "1769860800000", NOON),
        ("date", "2026-01-31", date(2026, 1, 31)),
        ("binary", "AAH/", b"\x00\x01\xff"),
        ("binary", "", b""),
    ],
)
def test_a_value_that_fits_becomes_one_of_its_type(kind: str, given: Any, value: Any) -> None:
    found = column_type(kind)
    assert found.value(given) == value
    assert pa.array([found.value(given)], found.arrow).to_pylist() == [value]


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        ("boolean", "yes", "is neither true nor false"),
        ("boolean", 1, "is neither true nor false"),
        ("int", "2147483648", "does not fit into 32 bits"),
        ("int", "1.5", "is not a whole number"),
        ("int", "", "is not a whole number"),
        ("int", True, "is not a whole number"),
        ("bigint", "٣", "is not a whole number"),
        ("bigint", "9" * 30, "does not fit into 64 bits"),
        ("double", "1_000", "is not a number"),
        ("double", " 1", "is not a number"),
        ("double", "nan", "is not a number"),
        ("double", "1e400", "is too large for a double"),
        ("double", 10**400, "is too large for a double"),
        ("double", True, "is not a number"),
        ("double", ["1"], "is not a number"),
        ("decimal(5,2)", "1234.5", "has more than 3 digits before the point"),
        ("decimal(5,2)", "1.234", "has more than 2 digits behind the point"),
        ("decimal(38,0)", "1e50", "has more than 38 digits before the point"),
        ("decimal(5,2)", "x", "is not a number"),
        ("timestamp", "2026-01-31T12:00:00", "is a time without its zone, such as Z"),
        ("timestamp", "noon", "is neither a time such as 2026-01-31T12:00:00Z nor milliseconds since 1970"),
        ("timestamp", 1.5, "is neither a time such as 2026-01-31T12:00:00Z nor milliseconds since 1970"),
        ("timestamp", 2**62, "is a time outside the years 1 to 9999"),
        ("timestamp", "0001-01-01T00:00:00+01:00", "is a time outside the years 1 to 9999"),
        ("date", "31.1.2026", "is not a date such as 2026-01-31"),
        ("date", "2026-02-30", "is not a date such as 2026-01-31"),
        ("binary", "AAH", "is not base64"),
        ("binary", 1, "is not base64"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_reason(kind: str, given: Any, reason: str) -> None:
    with pytest.raises(Misfit, match=f"^{reason}$"):
        column_type(kind).value(given)


def test_types_are_found_in_any_case_and_called_as_in_sql() -> None:
    assert [column_type(name.upper()).name for name in TYPE_NAMES] == list(TYPE_NAMES)
    assert column_type(" Decimal( 10 , 2 ) ").name == "decimal(10,2)"


@pytest.mark.parametrize("name", ["duble", "", "decimal", "decimal(39,2)", "decimal(2,3)", "array<int>"])
def test_an_unknown_type_is_told_with_those_that_are_allowed(name: str) -> None:
    with pytest.raises(UnknownType, match=r"^expected string, boolean, int, .* or decimal\(P,S\) with P up to 38$"):
        column_type(name)


def test_a_value_is_quoted_as_json_and_not_at_any_length() -> None:
    assert quoted("text") == "text"
    assert quoted([1, "ä"]) == '[1,"ä"]'
    assert len(quoted("x" * 1000)) == 200
