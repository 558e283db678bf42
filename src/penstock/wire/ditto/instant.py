"""Points in time as ISO 8601 texts, the way Ditto writes and reads them. The caller knows the current time.

All are nanoseconds since 1970, because texts may be that precise. The journal keeps microseconds.
"""

from __future__ import annotations

import re
from datetime import date

_TEXT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2}))",
    re.ASCII,
)
_DAY_ZERO = date(1970, 1, 1).toordinal()

# The largest UTC offset, in hours: more than any time zone has.
_MAX_OFFSET = 18

NANOS_PER_MICRO = 1000
NANOS_PER_MILLI = 1_000_000


def parse_instant(text: str) -> int | None:
    """Nanoseconds since 1970; None if the text is not a date and time with its offset. Seconds may be missing."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = int(found[4]), int(found[5]), int(found[6] or 0)
    offset_hours, offset_minutes = int(found[9] or 0), int(found[10] or 0)
    if hour > 23 or minute > 59 or second > 59 or offset_minutes > 59:
        return None
    if offset_hours * 60 + offset_minutes > _MAX_OFFSET * 60:
        return None
    try:
        day = date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _DAY_ZERO
    except ValueError:
        return None
    offset = (offset_hours * 60 + offset_minutes) * (-1 if found[8] == "-" else 1)
    seconds = ((day * 24 + hour) * 60 + minute - offset) * 60 + second
    return seconds * 1_000_000_000 + int((found[7] or "0").ljust(9, "0"))


def print_instant(nanos: int) -> str:
    """The text in UTC, with zero, three, six or nine digits of a fraction: the fewest that are exact."""
    seconds, fraction = divmod(nanos, 1_000_000_000)
    day, second = divmod(seconds, 86_400)
    text = f"{date.fromordinal(day + _DAY_ZERO)}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    if not fraction:
        return text + "Z"
    if fraction % 1_000:
        return f"{text}.{fraction:09}Z"
    if fraction % 1_000_000:
        return f"{text}.{fraction // 1_000:06}Z"
    return f"{text}.{fraction // 1_000_000:03}Z"
