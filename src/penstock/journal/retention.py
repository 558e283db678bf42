"""Which segments may go: past their time or beyond the size, and never before the lake has all of their records.

Whole segments, the oldest first, never the one being written. Numbers in their names say what was there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from penstock.journal.disk import Disk
from penstock.journal.index import index_name
from penstock.journal.recovery import bases, read_header
from penstock.journal.segment import segment_name


@dataclass(frozen=True, slots=True)
class Retention:
    """None means no limit; with neither, everything is kept."""

    # Counted from when a segment was sealed.
    max_age_seconds: float | None = None
    # Of all segments together.
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """`last` is the last sequence in it, `sealed` when the next one was begun, in microseconds since 1970."""

    base: int
    last: int
    sealed: int
    size: int


def expired(segments: list[SealedSegment], active_size: int, retention: Retention, lake: int, now: int) -> list[int]:
    """The segments to drop: those from the oldest on that are past a limit and have nothing after `lake`."""
    total = active_size + sum(segment.size for segment in segments)
    result = []
    for segment in segments:
        age = now - segment.sealed
        too_old = retention.max_age_seconds is not None and age > retention.max_age_seconds * 1e6
        too_much = retention.max_bytes is not None and total > retention.max_bytes
        if segment.last > lake or not (too_old or too_much):
            break
        result.append(segment.base)
        total -= segment.size
    return result


def find_expired(disk: Disk, retention: Retention, lake: int, now: int, active: int) -> list[int]:
    """Look and choose. Raises OSError."""
    segments, active_size = _sealed(disk, active)
    return expired(segments, active_size, retention, lake, now)


def drop_expired(disk: Disk, retention: Retention, lake: int, now: int, active: int) -> list[int]:
    """Look, choose and remove. Raises OSError."""
    chosen = find_expired(disk, retention, lake, now, active)
    for base in chosen:
        # The index first: one without a segment would never be looked at again.
        with suppress(FileNotFoundError):
            disk.remove(index_name(base))
        disk.remove(segment_name(base))
    if chosen:
        disk.sync_directory()
    return chosen


def _sealed(disk: Disk, active: int) -> tuple[list[SealedSegment], int]:
    """All segments before the active one, and the bytes of that. A segment's end is in the header of the next."""
    result: list[SealedSegment] = []
    size = 0
    before: tuple[int, int] | None = None
    for base in bases(disk):
        if base > active:
            break
        file = disk.view(segment_name(base))
        try:
            header, _ = read_header(file, segment_name(base))
            size = file.size()
        finally:
            file.close()
        if before is not None:
            # Without a readable header the end is taken for later than it was, and the age for less.
            last, sealed = (header.previous, header.created) if header is not None else (base - 1, _NEVER)
            result.append(SealedSegment(before[0], last, sealed, before[1]))
        before = base, size
    return result, size


# A time that no clock reaches.
_NEVER = 2**62
