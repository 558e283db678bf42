"""The indexes of a journal's segments, sealed or being written, kept in memory for whoever reads it.

May be shared by readers in several threads, so that a hundred of them hold each index once. Read next: `index` and
`active`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from penstock.journal.active import ActiveIndex
from penstock.journal.disk import Disk
from penstock.journal.index import Block, SegmentIndex, load_index
from penstock.journal.segment import SegmentHeader
from penstock.journal.selection import EventSelection
from penstock.journal.sidecar import SidecarDamaged

# Indexes of sealed segments kept in memory; of more, the one that was not used for the longest time is read again.
CACHED_INDEXES = 16


class Indexes:
    """Of one journal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sealed: OrderedDict[int, SegmentIndex | None] = OrderedDict()
        self._active: ActiveIndex | None = None
        # The index of the last segment, if the journal was closed; None in it if that is damaged.
        self._closed: tuple[int, SegmentIndex | None] | None = None

    def sealed(self, disk: Disk, base: int) -> SegmentIndex | None:
        """None when there is none. Raises SidecarDamaged, once."""
        with self._lock:
            if base in self._sealed:
                self._sealed.move_to_end(base)
                return self._sealed[base]
            self._sealed[base] = None
            if len(self._sealed) > CACHED_INDEXES:
                self._sealed.popitem(last=False)
            index = self._sealed[base] = load_index(disk, base)
            return index

    def active(self, disk: Disk, header: SegmentHeader, end: int, last: int, selection: EventSelection) -> list[Block]:
        """Blocks of the last segment in which something wanted may be, up to byte `end`, where sequence `last` ends."""
        with self._lock:
            closed = self._closed_index(disk, header.base)
            if closed is not None and closed.end >= end:
                return [block for block in closed.select(selection) if block.position < end]
            if self._active is None or (self._active.base, self._active.salt) != (header.base, header.salt):
                self._active = ActiveIndex(disk, header)
            return self._active.select(end, last, selection)

    def _closed_index(self, disk: Disk, base: int) -> SegmentIndex | None:
        """Of a segment that is sealed though none follows it: that of a journal that was closed."""
        if self._closed is None or self._closed[0] != base:
            try:
                index = load_index(disk, base)
            except SidecarDamaged:
                self._closed = base, None
            else:
                self._closed = None if index is None else (base, index)
        return None if self._closed is None else self._closed[1]
