"""Checking a whole journal for damage, without changing anything: every checksum, every number, every sidecar.

A running server may be writing meanwhile: what it had committed when the look began is judged, and nothing after it.
Recovery repairs what can be repaired, at the start of a server: `recovery`. Read next: docs/journal.md, "Verifying".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from penstock.journal.damage import Damage
from penstock.journal.disk import Disk, ReadableFile
from penstock.journal.index import IndexBuilder, index_damaged, index_name, load_index
from penstock.journal.mark import MARK_DAMAGED, MARK_NAME, Mark, read_mark
from penstock.journal.recovery import bases, read_header
from penstock.journal.revisions import count_batch, revisions_name, saved
from penstock.journal.scan import Frame, scan
from penstock.journal.segment import DATA_START, ERASED_VERSION, SegmentHeader, decode_payload, segment_name
from penstock.journal.sidecar import SidecarDamaged, read_sidecar


@dataclass(slots=True)
class Verification:
    """What was looked at, and what is wrong with it."""

    segments: int = 0
    frames: int = 0
    records: int = 0
    size: int = 0
    # Of the records that are there; 0 when there are none.
    first: int = 0
    last: int = 0
    # At the end of the last segment: not committed yet, or never. The next start of a server repairs it.
    uncommitted_bytes: int = 0
    damages: list[Damage] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.damages


def verify(disk: Disk) -> Verification:
    """Read everything. Raises OSError, and UnknownVersion for a segment of a newer program."""
    return _Look(disk).all()


class _Look:
    """One pass over the segments, in order."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._found = Verification()
        # The highest revision of each entity so far.
        self._revisions: dict[str, int] = {}

    def all(self) -> Verification:
        found = self._found
        # Before the segments: what is committed later is not looked at.
        mark = read_mark(self._disk)
        segments = bases(self._disk)
        if mark is None:
            if MARK_NAME in self._disk.names():
                found.damages.append(MARK_DAMAGED)
            elif segments:
                found.damages.append(Damage(MARK_NAME, 0, 0, 0, -1, "there are segments, but no mark"))
        else:
            segments = [base for base in segments if base <= mark.segment]
            if mark.segment not in segments:
                found.damages.append(
                    Damage(segment_name(mark.segment), 0, 0, mark.segment, mark.sequence, "the segment is missing")
                )
        for number, base in enumerate(segments):
            after = segments[number + 1] if number + 1 < len(segments) else None
            self._segment(base, after, mark)
        self._saved_revisions_readable()
        return found

    def _segment(self, base: int, after: int | None, mark: Mark | None) -> None:
        name = segment_name(base)
        try:
            file = self._disk.view(name)
        except FileNotFoundError:
            # Retention has dropped it since.
            return
        try:
            header, damages = read_header(file, name)
            self._found.damages += damages
            self._found.segments += 1
            size = file.size()
            self._found.size += size
            if header is not None:
                self._frames(file, header, size, after, mark)
        finally:
            file.close()

    def _frames(
        self, file: ReadableFile, header: SegmentHeader, size: int, after: int | None, mark: Mark | None
    ) -> None:
        found, name = self._found, segment_name(header.base)
        is_last = mark is not None and mark.segment == header.base
        end, last = (mark.position, mark.sequence) if mark is not None and is_last else (size, self._fence(after))
        if is_last:
            found.uncommitted_bytes = max(0, size - end)
        builder = IndexBuilder()
        before = len(found.damages)
        for entry in scan(file, name, header.salt, DATA_START, min(end, size), header.base, last):
            if isinstance(entry, Damage):
                found.damages.append(entry)
            else:
                self._frame(entry, header, builder)
        if len(found.damages) == before and end == size:
            self._compare_index(header.base, builder, mark if is_last else None)
        self._compare_revisions(header.base)

    def _fence(self, after: int | None) -> int | None:
        """The last sequence of a segment that counts, as the next one knows it."""
        if after is None:
            return None
        name = segment_name(after)
        try:
            file = self._disk.view(name)
        except FileNotFoundError:
            return None
        try:
            header, _ = read_header(file, name)
        finally:
            file.close()
        return None if header is None else header.previous

    def _frame(self, frame: Frame, header: SegmentHeader, builder: IndexBuilder) -> None:
        found, name = self._found, segment_name(header.base)
        first, last = frame.header.first, frame.header.last
        assert frame.payload is not None
        try:
            batch = decode_payload(frame.payload, frame.header, header)
            numbers = batch.column("sequence").to_pylist()
        except Exception as error:
            what = f"the checksum is right, but the records cannot be read: {error}"
            found.damages.append(Damage(name, frame.position, frame.header.span, first, last, what))
            return
        if not _fit(numbers, first, last, header):
            what = "the records are not numbered as the frame says"
            found.damages.append(Damage(name, frame.position, frame.header.span, first, last, what))
        builder.add(frame.position, frame.header, set(batch.column("entity").to_pylist()))
        count_batch(self._revisions, batch)
        found.frames += 1
        found.records += batch.num_rows
        found.first = found.first or first
        found.last = last

    # -- sidecars -------------------------------------------------------------------------------------------------

    def _compare_index(self, base: int, builder: IndexBuilder, mark: Mark | None) -> None:
        """A segment may have none, such as one that was given up when the disk refused: it costs time only.

        The last one may have been written on and sealed since: then the mark is another than it was.
        """
        try:
            index = load_index(self._disk, base)
        except SidecarDamaged:
            self._found.damages.append(index_damaged(base))
            return
        if mark is not None and read_mark(self._disk) != mark:
            return
        if index is not None and (index.blocks, index.places()) != (builder.blocks, builder.places()):
            what = "the index does not agree with its segment; remove the file, it is only an aid to readers"
            self._found.damages.append(Damage(index_name(base), 0, 0, 0, -1, what))

    def _compare_revisions(self, base: int) -> None:
        """Those saved after a segment: none may be behind what the segments have."""
        try:
            tables = read_sidecar(self._disk, revisions_name(base))
        except SidecarDamaged:
            # Told at the end.
            return
        if tables is None:
            return
        (table,) = tables
        known = dict(zip(table["entity"].to_pylist(), table["revision"].to_pylist(), strict=True))
        behind = [entity for entity, revision in self._revisions.items() if known.get(entity, 0) < revision]
        if behind:
            what = f"saved revisions are behind those of the segments, for {len(behind)} entities such as {behind[0]}"
            self._found.damages.append(Damage(revisions_name(base), 0, 0, 0, -1, what))

    def _saved_revisions_readable(self) -> None:
        for base in saved(self._disk):
            try:
                read_sidecar(self._disk, revisions_name(base))
            except SidecarDamaged:
                self._found.damages.append(Damage(revisions_name(base), 0, 0, 0, -1, "saved revisions cannot be read"))


def _fit(numbers: list[int], first: int, last: int, header: SegmentHeader) -> bool:
    """Whether records are numbered as their frame says; some of them may have been erased."""
    if header.version < ERASED_VERSION:
        return numbers == list(range(first, last + 1))
    rising = all(one < other for one, other in pairwise(numbers))
    return rising and (not numbers or (first <= numbers[0] and numbers[-1] <= last))
