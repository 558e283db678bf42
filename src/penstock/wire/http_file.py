"""What a request for a file asks for: the whole of it, a part, or only whether it has changed.

Specification: RFC 9110, sections 13 (conditions) and 14 (ranges). One range is served; a request for several gets the
whole file, as section 14.2 allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_DATE = re.compile(r"[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)
_RANGE = re.compile(r"bytes[ \t]*=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.ASCII | re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?("[^"]*")')


class FilePart:
    """What is to be answered: the status, and which bytes; none with 304, 412 and 416."""

    def __init__(self, status: int, start: int = 0, length: int = 0) -> None:
        self.status = status
        self.start = start
        self.length = length


def file_part(headers: Mapping[str, str], etag: str, modified: int, size: int) -> FilePart:
    """For a GET or HEAD with these headers, in lower case; `modified` is in whole seconds since 1970."""
    status = _condition(headers, etag, modified)
    if status != 200:
        return FilePart(status)
    asked = _RANGE.fullmatch(headers.get("range", ""))
    if asked is None or not (asked[1] or asked[2]) or not _range_holds(headers.get("if-range"), etag, modified):
        return FilePart(200, 0, size)
    if not asked[1]:
        start, end = max(0, size - int(asked[2])), size
    else:
        start, end = int(asked[1]), int(asked[2]) + 1 if asked[2] else size
        if asked[2] and end <= start:
            # Not a range: the header means nothing.
            return FilePart(200, 0, size)
    end = min(end, size)
    return FilePart(206, start, end - start) if start < end else FilePart(416)


def _condition(headers: Mapping[str, str], etag: str, modified: int) -> int:
    """In the order of section 13.2.2."""
    match = headers.get("if-match")
    if match is not None:
        if not _names(match, etag, may_be_weak=False):
            return 412
    else:
        since = http_date(headers.get("if-unmodified-since"))
        if since is not None and modified > since:
            return 412
    none_match = headers.get("if-none-match")
    if none_match is not None:
        return 304 if _names(none_match, etag, may_be_weak=True) else 200
    since = http_date(headers.get("if-modified-since"))
    return 304 if since is not None and modified <= since else 200


def _names(value: str, etag: str, may_be_weak: bool) -> bool:
    """Whether a list of tags has this one."""
    if value.strip() == "*":
        return True
    return etag in [tag[1] for tag in _TAG.finditer(value) if may_be_weak or not tag[0].startswith("W/")]


def _range_holds(value: str | None, etag: str, modified: int) -> bool:
    """If-Range: the part is wanted only of the file that the client knows already."""
    if value is None:
        return True
    return value == etag or http_date(value) == modified


def http_date(value: str | None) -> int | None:
    """Seconds since 1970; None for what is not a date of today's form, which then means nothing."""
    found = None if value is None else _DATE.fullmatch(value.strip())
    if found is None or found[2] not in MONTHS:
        return None
    day, year = int(found[1]), int(found[3])
    try:
        moment = datetime(
            year, MONTHS.index(found[2]) + 1, day, int(found[4]), int(found[5]), int(found[6]), tzinfo=UTC
        )
    except ValueError:
        return None
    return int(moment.timestamp())
