"""What happens at the start: the last segment is read, a torn tail is cut, sequences and revisions go on from there.

Bounded by one segment, unless the saved revisions are damaged; then those written since the ones before are read too.
A long append that is not there to its end is taken away. A cut tail was never acknowledged; a damaged place stays where
it is, and readers step over it as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.journal.blocks import BLOCKS_SUFFIX
from penstock.journal.damage import Damage
from penstock.journal.disk import Disk, ReadableFile
from penstock.journal.index import IndexBuilder, SegmentIndex, index_damaged, load_index
from penstock.journal.mark import MARK_DAMAGED, MARK_NAME, Mark, read_mark
from penstock.journal.revisions import count_batch, drop_old_revisions, load_revisions, save_revisions
from penstock.journal.scan import Frame, scan
from penstock.journal.segment import (
    DATA_START,
    HEADER_BLOCK,
    TEMPORARY_SUFFIX,
    SegmentHeader,
    base_of,
    decode_header_copy,
    decode_payload,
    decode_segment_header,
    segment_name,
)
from penstock.journal.sidecar import SidecarDamaged
from penstock.journal.unfinished import NOTE_DAMAGED, NoteDamaged, end, read_note, take_back


@dataclass(slots=True)
class Recovery:
    """What was found, and where to go on: the next segment begins at `next`, and `previous` is the last before it."""

    next: int = 1
    previous: int = 0
    revisions: dict[str, int] = field(default_factory=dict)
    # Of the torn tail: how many bytes were cut, and of which file.
    cut_bytes: int = 0
    cut_file: str = ""
    damages: list[Damage] = field(default_factory=list)
    # Records of segments that were read; none after an orderly end.
    records_read: int = 0


def bases(disk: Disk) -> list[int]:
    """The segments of a journal, in order."""
    found = (base_of(name) for name in disk.names())
    return sorted(base for base in found if base is not None)


def read_header(file: ReadableFile, name: str) -> tuple[SegmentHeader | None, list[Damage]]:
    """Raises UnknownVersion."""
    header, damaged = decode_segment_header(file.read(0, DATA_START), name)
    if header is None:
        return None, [Damage(name, 0, file.size(), base_of(name), None, "the header cannot be read")]
    if damaged:
        return header, [Damage(name, 0, DATA_START, header.base, header.base - 1, "one copy of the header is damaged")]
    return header, []


def read_first_header(file: ReadableFile, name: str) -> SegmentHeader | None:
    """Without a look at the second copy, for those who read often; None if the first is damaged."""
    return decode_header_copy(file.read(0, HEADER_BLOCK), name)


def recover(disk: Disk) -> Recovery:
    """Put the directory in order. Raises OSError and UnknownVersion; changes nothing that a second call would miss."""
    found = Recovery()
    for name in disk.names():
        if name.endswith(TEMPORARY_SUFFIX):
            disk.remove(name)
    mark = read_mark(disk)
    if mark is None and MARK_NAME in disk.names():
        found.damages.append(MARK_DAMAGED)
    _settle_long(disk, mark, found)
    segments = bases(disk)
    saved_after, found.revisions, damaged = load_revisions(disk)
    found.damages += [Damage(name, 0, 0, 0, -1, "saved revisions cannot be read") for name in damaged]
    for base in segments[:-1]:
        if saved_after is None or base > saved_after:
            _count_sealed(disk, base, found)
    if segments:
        _recover_last(disk, segments[-1], mark, saved_after or 0, found)
    if mark is not None and mark.sequence > found.previous:
        # Readers were shown records that are gone. Their numbers are not given again, and the next segment's header
        # says that they were here, so that every reader is told.
        found.damages.append(
            Damage(MARK_NAME, 0, 0, found.previous + 1, mark.sequence, "committed records are no longer there")
        )
        found.previous = mark.sequence
    found.next = max(found.next, found.previous + 1)
    # Last: until the index is there, readers find by these.
    for name in disk.names():
        if name.endswith(BLOCKS_SUFFIX):
            disk.remove(name)
    return found


def _settle_long(disk: Disk, mark: Mark | None, found: Recovery) -> None:
    """A long append that was being written is there to its end, or it goes."""
    try:
        note = read_note(disk)
    except NoteDamaged:
        found.damages.append(NOTE_DAMAGED)
        end(disk)
        return
    if note is None:
        return
    if (mark is not None and mark.sequence >= note.last) or _is_whole(disk, bases(disk)[-1], note.last):
        end(disk)
    else:
        take_back(disk, note)


def _is_whole(disk: Disk, base: int, last: int) -> bool:
    """Whether the frames of the last segment reach a sequence without a gap; those before it were synced earlier."""
    name = segment_name(base)
    file = disk.view(name)
    try:
        header, _ = read_header(file, name)
        if header is None:
            # No crash leaves that behind: it was damaged later, and nothing is removed on a guess.
            return True
        reached = header.previous
        for entry in scan(file, name, header.salt, DATA_START, file.size(), base):
            if isinstance(entry, Damage) or reached >= last:
                break
            reached = entry.header.last
        return reached >= last
    finally:
        file.close()


def _recover_last(disk: Disk, base: int, mark: Mark | None, saved_after: int, found: Recovery) -> None:
    name = segment_name(base)
    file = disk.view(name)
    try:
        header, damages = read_header(file, name)
        found.damages += damages
        if header is None:
            # Nobody knows what is in it: go on behind it.
            found.previous = base
            found.next = base + 1
            return
        found.previous, found.next = header.previous, base
        size = file.size()
        index = _index(disk, base, found)
        # Both sidecars, because the power may have gone when only one of them had its name.
        if index is not None and index.end == size and index.blocks and saved_after >= base:
            found.previous = index.blocks[-1].last
            found.next = found.previous + 1
            return
        builder = IndexBuilder()
        end = _read_segment(file, name, header, size, mark, builder, found)
    finally:
        file.close()
    if end < size:
        found.cut_file, found.cut_bytes = name, size - end
    writable = disk.open(name)
    try:
        if end < size:
            writable.truncate(end)
        # After a crash of the process alone, frames may be whole without being on the disk.
        writable.sync()
    finally:
        writable.close()
    if not builder.blocks:
        return
    found.previous = builder.blocks[-1].last
    found.next = found.previous + 1
    builder.save(disk, base)
    save_revisions(disk, base, found.revisions)
    disk.sync_directory()
    drop_old_revisions(disk)


def _index(disk: Disk, base: int, found: Recovery) -> SegmentIndex | None:
    try:
        return load_index(disk, base)
    except SidecarDamaged:
        found.damages.append(index_damaged(base))
        return None


def _read_segment(
    file: ReadableFile,
    name: str,
    header: SegmentHeader,
    size: int,
    mark: Mark | None,
    builder: IndexBuilder,
    found: Recovery,
) -> int:
    """Where the part that counts ends. A hole is damage if anything knows that it was on the disk; else it is torn."""
    synced = mark.synced if mark is not None else 0
    holes: list[Damage] = []
    waiting: list[Frame] = []
    for entry in scan(file, name, header.salt, DATA_START, size, header.base):
        if isinstance(entry, Damage):
            holes.append(entry)
        else:
            waiting.append(entry)
            synced = max(synced, entry.header.synced)
        while holes and (holes[0].first or 0) <= synced:
            found.damages.append(holes.pop(0))
        if not holes:
            _take(waiting, header, builder, found)
            waiting = []
    if not holes:
        return size
    # What follows a torn place was written later, was not committed either, and must not be there without it.
    end = holes[0].position
    _take([frame for frame in waiting if frame.position < end], header, builder, found)
    return end


def _take(frames: list[Frame], header: SegmentHeader, builder: IndexBuilder, found: Recovery) -> None:
    for frame in frames:
        assert frame.payload is not None
        batch = decode_payload(frame.payload, frame.header, header)
        builder.add(frame.position, frame.header, set(batch.column("entity").to_pylist()))
        count_batch(found.revisions, batch)
        found.records_read += batch.num_rows


def _count_sealed(disk: Disk, base: int, found: Recovery) -> None:
    """Revisions of a segment after which none were saved."""
    name = segment_name(base)
    file = disk.view(name)
    try:
        header, _ = read_header(file, name)
        if header is None:
            return
        for entry in scan(file, name, header.salt, DATA_START, file.size(), header.base):
            if isinstance(entry, Frame) and entry.payload is not None:
                batch = decode_payload(entry.payload, entry.header, header)
                count_batch(found.revisions, batch)
                found.records_read += batch.num_rows
    finally:
        file.close()
