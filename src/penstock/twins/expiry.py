"""Subjects that expire: when each is due, and what its holders are told before and when it is deleted.

Times are microseconds since 1970; the clock is an argument. Who wakes up in time is `doors.ditto.expiries`. Upstream
documentation: "Policies", expiring policy subjects and subject deletion announcements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.twins.twin import Document
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.instant import NANOS_PER_MICRO, parse_instant, print_instant
from penstock.wire.ditto.pointer import Pointer
from penstock.wire.ditto.subject import micros_of

# Microseconds to which times of expiry are rounded up, unless configured otherwise: an hour, as upstream has it.
DEFAULT_GRANULARITY = 3_600_000_000


@dataclass(frozen=True, slots=True)
class ExpiringSubject:
    """One subject of an entry. `announce_at` is None if nobody is to be told before."""

    label: str
    subject: str
    expiry: int
    announce_at: int | None

    @property
    def pointer(self) -> Pointer:
        return ("entries", self.label, "subjects", self.subject)


def rounded_up(text: str, granularity: int) -> tuple[str, int]:
    """An expiry as it is stored: its text and its time."""
    nanos = parse_instant(text) or 0
    micros = -(-nanos // NANOS_PER_MICRO)
    micros = -(-micros // granularity) * granularity
    return print_instant(micros * NANOS_PER_MICRO), micros


def expiring(policy: Document) -> Iterator[ExpiringSubject]:
    """All subjects of a policy that expire."""
    for label, entry in policy["entries"].items():
        for name, subject in entry["subjects"].items():
            expiry = subject.get("expiry")
            if expiry is None:
                continue
            due = (parse_instant(expiry) or 0) // NANOS_PER_MICRO
            announcement = subject.get("announcement") or {}
            before = announcement.get("beforeExpiry")
            announce = None if before is None else due - micros_of(before)
            yield ExpiringSubject(label, name, due, announce)


def deleted_with_notice(before: Document | None, after: Document | None) -> set[str]:
    """Subjects that were deleted by a change, and wanted their holders to be told."""
    left = set() if after is None else {name for entry in after["entries"].values() for name in entry["subjects"]}
    found: set[str] = set()
    for entry in () if before is None else before["entries"].values():
        for name, subject in entry["subjects"].items():
            if name not in left and _wants_notice(subject):
                found.add(name)
    return found


def _wants_notice(subject: Json) -> bool:
    return bool((subject.get("announcement") or {}).get("whenDeleted"))
