"""Which part of a history is asked for: revisions counted from either end, times that exclude their ends.

What a selection looks like in a message is in `streaming`; who reads the history is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.wire.ditto.document import MAX_LONG, MIN_LONG
from penstock.wire.ditto.errors import HEADER_INVALID
from penstock.wire.ditto.instant import NANOS_PER_MICRO, parse_instant

# Digits of the largest number that is accepted.
_MAX_DIGITS = 19


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """What a client asks for. All conditions apply together.

    Revisions are inclusive. A negative `from_revision` counts from the end: -1 is the last one, -5 the last five; a
    `to_revision` of 0 is the latest, -1 the one before. Instants are nanoseconds since 1970, and exclusive.
    """

    from_revision: int = 0
    to_revision: int = MAX_LONG
    after: int | None = None
    before: int | None = None
    filter: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """The selection resolved for one history: revisions from `first` to `last` inclusive, and no others.

    `since` is inclusive, `until` exclusive, both microseconds since 1970. `since` is a filter; at `until` the stream
    ends: what comes after the first event that is not before it is not sent, even if its clock was behind.
    """

    first: int
    last: int
    since: int | None
    until: int | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be in it: the range is reversed or outside of the history."""
        return self.first > self.last or (
            self.since is not None and self.until is not None and self.since >= self.until
        )

    def includes(self, revision: int) -> bool:
        return self.first <= revision <= self.last

    def has_begun(self, timestamp: int) -> bool:
        """Whether an event of this time is late enough to be sent."""
        return self.since is None or timestamp >= self.since

    def is_over(self, timestamp: int) -> bool:
        """Whether an event of this time ends the stream; it is not sent itself."""
        return self.until is not None and timestamp >= self.until


def resolve(selection: HistoryRange, latest: int) -> Range:
    """The range within a history whose latest revision is given; 0 for one that has no events."""
    first, last = selection.from_revision, selection.to_revision
    if first < 0:
        first = latest + first + 1
    if last <= 0:
        last = latest + last
    # An event has whole microseconds: it is after a time exactly if it is after that time truncated to microseconds,
    # and before a time exactly if it is before that time rounded up.
    since = None if selection.after is None else selection.after // NANOS_PER_MICRO + 1
    until = None if selection.before is None else -(-selection.before // NANOS_PER_MICRO)
    return Range(max(1, first), min(latest, last), since, until)


def parse_revision(text: str, name: str) -> int:
    """A revision as header or query parameter; raises `header.invalid`. Beyond 64 bits it is the largest there is."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise HEADER_INVALID.of(text, name, "number")
    if len(digits.lstrip("0")) > _MAX_DIGITS:
        return MIN_LONG if text[0] == "-" else MAX_LONG
    return max(MIN_LONG, min(MAX_LONG, int(text)))


def parse_timestamp(text: str, name: str) -> int:
    """A timestamp as header or query parameter, in nanoseconds; raises `header.invalid`."""
    instant = parse_instant(text)
    if instant is None:
        raise HEADER_INVALID.of(text, name, "ISO-8601 timestamp")
    return instant
