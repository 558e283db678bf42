"""`time:now` and times computed from it, as RQL expressions name them. The caller knows the current time.

    time:now | time:now_epoch_millis, then an offset such as +30m or -1h, or none, then a unit in brackets to which it
    is truncated, such as [d], or none

Units are ms, s, m, h, d, w, mo and y. Upstream documentation: "Placeholders", time placeholder.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

_UNITS: Final = "ms|s|mo|m|h|d|w|y"
_TEXT = re.compile(rf"time:now(_epoch_millis)?(?:([+-])([0-9]{{1,18}})({_UNITS}))?(?:\[({_UNITS})\])?", re.ASCII)

GRAMMAR: Final = "time:now or time:now_epoch_millis, with an offset such as +30m or -1h and a truncation such as [d]"

_MILLI: Final = 1_000_000
_SECOND: Final = 1_000 * _MILLI
_DAY: Final = 86_400 * _SECOND
_NANOS: Final[dict[str, int]] = {
    "ms": _MILLI,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3_600 * _SECOND,
    "d": _DAY,
    "w": 7 * _DAY,
}
_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
# 1970-01-01 was a Thursday; weeks begin on Mondays.
_MONDAY: Final = 4 * _DAY
_MONTHS: Final[dict[str, int]] = {"mo": 1, "y": 12}

# Years that a date can have. A result beyond them is before, or after, every time that can be written.
_FIRST_MONTH: Final = 12
_LAST_MONTH: Final = 9999 * 12 + 11
_FIRST_DAY: Final = 1 - _DAY_ZERO
_LAST_DAY: Final = date(9999, 12, 31).toordinal() - _DAY_ZERO
_BEFORE_ALL: Final = -(10**30)
_AFTER_ALL: Final = 10**30


class Moment:
    """What a placeholder stands for: nanoseconds since 1970, compared with times, or as milliseconds with numbers."""

    def __init__(self, nanos: int, is_millis: bool) -> None:
        self.nanos = nanos
        self.is_millis = is_millis


def is_placeholder(name: str) -> bool:
    """Whether the name follows the grammar above."""
    return _parsed(name) is not None


def moment_of(name: str, now: int) -> Moment:
    """Its value at a time in nanoseconds since 1970. `is_placeholder` must be true of the name."""
    parts = _parsed(name)
    assert parts is not None
    is_millis, offset, unit, truncation = parts
    nanos = _moved(now, offset, unit) if unit else now
    if truncation:
        nanos = _truncated(nanos, truncation)
    if is_millis:
        nanos -= nanos % _MILLI
    return Moment(nanos, is_millis)


@lru_cache(maxsize=256)
def _parsed(name: str) -> tuple[bool, int, str, str] | None:
    """Whether it is in milliseconds, the offset and its unit, the unit to truncate to; "" for a unit that it lacks."""
    found = _TEXT.fullmatch(name)
    if found is None:
        return None
    offset = int(found[3] or 0) * (-1 if found[2] == "-" else 1)
    return found[1] is not None, offset, found[4] or "", found[5] or ""


def _moved(nanos: int, offset: int, unit: str) -> int:
    if unit in _NANOS:
        return nanos + offset * _NANOS[unit]
    days, time = divmod(nanos, _DAY)
    day = date.fromordinal(days + _DAY_ZERO)
    months = day.year * 12 + day.month - 1 + offset * _MONTHS[unit]
    if months < _FIRST_MONTH:
        return _BEFORE_ALL
    if months > _LAST_MONTH:
        return _AFTER_ALL
    # In a shorter month the 31st becomes the last day.
    moved = _first_of(months) + min(day.day, _first_of(months + 1) - _first_of(months)) - 1
    return moved * _DAY + time


def _truncated(nanos: int, unit: str) -> int:
    if unit == "w":
        return nanos - (nanos - _MONDAY) % _NANOS["w"]
    if unit in _NANOS:
        return nanos - nanos % _NANOS[unit]
    days = nanos // _DAY
    if not _FIRST_DAY <= days <= _LAST_DAY:
        return nanos
    day = date.fromordinal(days + _DAY_ZERO)
    return _first_of(day.year * 12 + (day.month - 1 if unit == "mo" else 0)) * _DAY


def _first_of(months: int) -> int:
    """The day, counted from 1970, on which a month begins; months are counted from the year 0."""
    if months > _LAST_MONTH:
        return _LAST_DAY + 1
    return date(months // 12, months % 12 + 1, 1).toordinal() - _DAY_ZERO
