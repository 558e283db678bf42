"""The types of a typed table's columns: their names in SQL, in Arrow, and how a journaled value becomes one of them.

Values come out of JSON: text mostly, because items have text, and numbers and the like in twins and payloads. One that
does not fit is never bent until it does: it is a `Misfit`, with the reason. Read next: `projection`, docs/sql.md.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

# How many characters of a value a side table and a message quote.
MAX_ECHO = 200

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
# Python's own float() also takes "1_000", "nan" and spaces.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_DIGITS = 38

TIME = pa.timestamp("us", tz="UTC")


class Misfit(ValueError):
    """A value is not of the type of its column; the text says why, to be read after "the value"."""


class UnknownType(ValueError):
    """A type that no column can have; the text names those that are allowed."""


@dataclass(frozen=True)
class ColumnType:
    """`name` as Spark and DuckDB write it; `value` makes one of what JSON had, or raises Misfit. None stays None."""

    name: str
    arrow: Any
    value: Callable[[Any], Any]


def column_type(name: str) -> ColumnType:
    """By its name in SQL, in any case; raises UnknownType."""
    asked = name.strip().lower()
    found = _TYPES.get(asked)
    if found is not None:
        return found
    parts = _DECIMAL.fullmatch(asked)
    if parts is not None:
        digits, scale = int(parts[1]), int(parts[2])
        if 1 <= digits <= _MOST_DIGITS and scale <= digits:
            return ColumnType(f"decimal({digits},{scale})", pa.decimal128(digits, scale), _Decimals(digits, scale))
    raise UnknownType(f"expected {', '.join(TYPE_NAMES)} or decimal(P,S) with P up to {_MOST_DIGITS}")


def quoted(value: Any) -> str:
    """A value as text, for a side table: shortened, JSON where it is not text."""
    text = value if isinstance(value, str) else _json(value)
    return text if len(text) <= MAX_ECHO else f"{text[: MAX_ECHO - 1]}…"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _string(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise Misfit("is neither true nor false")


def _whole(value: Any, bits: int) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        number = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    else:
        raise Misfit("is not a whole number")
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise Misfit(f"does not fit into {bits} bits")
    return number


def _int(value: Any) -> int:
    return _whole(value, 32)


def _bigint(value: Any) -> int:
    return _whole(value, 64)


def _double(value: Any) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    else:
        raise Misfit("is not a number")
    if not math.isfinite(number):
        raise Misfit("is too large for a double")
    return number


@dataclass(frozen=True)
class _Decimals:
    digits: int
    scale: int

    def __call__(self, value: Any) -> Decimal:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            number = Decimal(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            number = Decimal(repr(value))
        else:
            raise Misfit("is not a number")
        try:
            fitted = number.quantize(Decimal(1).scaleb(-self.scale))
        except InvalidOperation:
            raise Misfit(f"has more than {self.digits - self.scale} digits before the point") from None
        if fitted != number:
            raise Misfit(f"has more than {self.scale} digits behind the point")
        if len(fitted.as_tuple().digits) > self.digits:
            raise Misfit(f"has more than {self.digits - self.scale} digits before the point")
        return fitted


def _timestamp(value: Any) -> datetime:
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            raise Misfit("is neither a time such as 2026-01-31T12:00:00Z nor milliseconds since 1970") from None
        if when.tzinfo is None:
            raise Misfit("is a time without its zone, such as Z")
        try:
            return when.astimezone(UTC)
        except OverflowError:
            raise Misfit("is a time outside the years 1 to 9999") from None
    try:
        return _EPOCH + timedelta(milliseconds=_bigint(value))
    except Misfit:
        raise Misfit("is neither a time such as 2026-01-31T12:00:00Z nor milliseconds since 1970") from None
    except OverflowError:
        raise Misfit("is a time outside the years 1 to 9999") from None


def _date(value: Any) -> date:
    try:
        if isinstance(value, str) and len(value) == len("2026-01-31"):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise Misfit("is not a date such as 2026-01-31")


def _binary(value: Any) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except binascii.Error:
        pass
    raise Misfit("is not base64")


_TYPES = {
    found.name: found
    for found in (
        ColumnType("string", pa.utf8(), _string),
        ColumnType("boolean", pa.bool_(), _boolean),
        ColumnType("int", pa.int32(), _int),
        ColumnType("bigint", pa.int64(), _bigint),
        ColumnType("double", pa.float64(), _double),
        ColumnType("timestamp", TIME, _timestamp),
        ColumnType("date", pa.date32(), _date),
        ColumnType("binary", pa.binary(), _binary),
    )
}
TYPE_NAMES = tuple(_TYPES)
