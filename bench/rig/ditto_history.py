"""The history that the Ditto benchmark reads: one thing that was changed some million times, hot and then in the lake.

Written as the server and the job `history` would leave it, but by their parts, without a server and without Spark. Also
plain reading of the same files: no server, no socket, no index. Read next: `ditto`.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.doors.ditto.saved_state import save_state
from penstock.history.layout import bucket_of
from penstock.journal.disk import DirectoryDisk
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA
from penstock.journal.recovery import bases, read_header
from penstock.journal.retention import Retention, drop_expired
from penstock.journal.scan import Frame, scan
from penstock.journal.segment import DATA_START, FrameHeader, decode_payload, segment_name
from penstock.journal.writer import BatchGroup, SegmentWriter
from penstock.pipeline.files import Written, write_task
from penstock.pipeline.lake import Lake
from penstock.twins.milestone import EVERY, with_milestone
from penstock.twins.names import TwinNames, policy_key, thing_key
from penstock.twins.policies import default_policy
from penstock.twins.state import TwinsState
from penstock.twins.twin import Twin
from penstock.wire.ditto.document import text_of

THING = "bench:thing"
SUBJECT = "nginx:bench"
PATH = "/attributes/counter"

START_MICROS = 1_700_000_000_000_000
# Between two events.
STEP_MICROS = 1_000

_NAMES = TwinNames()
ENTITY = _NAMES.entity(thing_key(THING))
_POLICY = _NAMES.entity(policy_key(THING))

# Revision n of the thing has the counter n, and follows the policy: it is record n + 1.
_BEFORE = 1

_SEGMENT_BYTES = 128 * 1024 * 1024
_LONG_MICROS = 10**15

# Of one task of `history`, and tasks that make a commit.
_TASK_ROWS = 250_000
_TASKS = 2

# Events made at once.
_MADE_ROWS = 500_000


def time_of(revision: int) -> int:
    """In microseconds since 1970."""
    return START_MICROS + revision * STEP_MICROS


def write_journal(directory: Path, events: int, frame: int) -> None:
    """All events of the thing and its policy, with `frame` of them in a group commit, and the saved state."""
    disk = DirectoryDisk(directory, make=True)
    revisions: dict[str, int] = {}
    writer = SegmentWriter(disk, revisions, _now, segment_bytes=_SEGMENT_BYTES, segment_micros=_LONG_MICROS)
    writer.start(1, 0)
    policy = default_policy(THING, SUBJECT)
    for entity, document in ((_POLICY, policy), (ENTITY, _thing(1).document)):
        revisions[entity] = 1
        row = (len(revisions), entity, 1, time_of(1), "created", "/", text_of(document), None)
        columns = [pa.array([value], field.type) for value, field in zip(row, SCHEMA, strict=True)]
        _append(writer, pa.RecordBatch.from_arrays(columns, schema=SCHEMA), {"created"})
    for first in range(2, events + 1, _MADE_ROWS):
        batch = _changes(first, min(_MADE_ROWS, events - first + 1))
        for start in range(0, batch.num_rows, frame):
            part = batch.slice(start, frame)
            revisions[ENTITY] = first + start + part.num_rows - 1
            _append(writer, part, {"modified"})
    writer.seal()
    writer.close()
    twins = {_POLICY: Twin(policy, 1, time_of(1), time_of(1)), ENTITY: _thing(events)}
    save_state(disk, TwinsState(events + _BEFORE, twins))


def _changes(first: int, count: int) -> Any:
    """Revisions that set the counter."""
    revisions = pa.arange(first, first + count)
    times = pc.add(pc.multiply(revisions, STEP_MICROS), START_MICROS).cast(pa.timestamp("us", tz="UTC"))
    columns = [
        pc.add(revisions, _BEFORE),
        pa.repeat(ENTITY, count),
        revisions,
        times,
        pa.repeat("modified", count),
        pa.repeat(PATH, count),
        revisions.cast(pa.utf8()),
        pa.array([_milestone(revision) for revision in range(first, first + count)], pa.utf8()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _milestone(revision: int) -> str | None:
    """What a record carries now and then: the thing before it."""
    if revision % EVERY:
        return None
    return text_of(with_milestone({}, revision, _thing(revision - 1)))


def _thing(revision: int) -> Twin:
    document = {"thingId": THING, "policyId": THING, "attributes": {"counter": revision}}
    return Twin(document, revision, time_of(1), time_of(revision))


def _append(writer: SegmentWriter, batch: Any, kinds: set[str]) -> None:
    sequences, times = batch.column("sequence"), batch.column("timestamp").cast(pa.int64())
    first, last = sequences[0].as_py(), sequences[-1].as_py()
    entities = {batch.column("entity")[0].as_py()}
    writer.append(BatchGroup([batch], first, last, times[0].as_py(), times[-1].as_py(), entities, kinds), sync=False)


def move_to_lake(journal: Path, lake: Path) -> None:
    """All that the journal has, as `history` moves it; then retention drops it from the journal."""
    table = Lake(lake)
    reader = JournalReader(journal)
    latest, rows = reader.poll(), _TASK_ROWS * _TASKS
    for after in range(0, latest, rows):
        told: list[Written] = []
        for share in reader.plan(after + 1, after + rows + 1, _TASKS):
            for batch in write_task(str(lake), after)(reader.read_slices(share)):
                told += [Written(**row) for row in batch.to_pylist()]
        table.adopt(journal, after, told)
    disk = DirectoryDisk(journal)
    # A start begins a segment: none of those that are here is being written then.
    writer = SegmentWriter(disk, {}, _now, segment_bytes=_SEGMENT_BYTES, segment_micros=_LONG_MICROS)
    writer.start(latest + 1, latest)
    writer.close()
    drop_expired(disk, Retention(max_bytes=0), table.sequence(), _now(), latest + 1)


def _now() -> int:
    return time.time_ns() // 1000


# -- plain reading ------------------------------------------------------------------------------------------------


def plain_journal(journal: Path, first: int, count: int) -> list[int]:
    """The counters of some revisions: by the segments' names, and frame by frame from the segment's beginning."""
    disk = DirectoryDisk(journal)
    known = bases(disk)
    found: list[int] = []
    for base in known[bisect_right(known, first + _BEFORE) - 1 :]:
        for batch in _frames(disk, base, first + _BEFORE):
            revisions = batch.column("revision").to_pylist()
            values = batch.column("value").to_pylist()
            found += [int(value) for revision, value in zip(revisions, values, strict=True) if revision >= first]
            if len(found) >= count:
                return found[:count]
    return found


def _frames(disk: DirectoryDisk, base: int, sequence: int) -> Iterator[Any]:
    def wanted(frame: FrameHeader) -> bool:
        return frame.last >= sequence

    name = segment_name(base)
    file = disk.view(name)
    try:
        header, _ = read_header(file, name)
        assert header is not None
        for entry in scan(file, name, header.salt, DATA_START, file.size(), base, wanted=wanted):
            if isinstance(entry, Frame) and entry.payload is not None:
                yield decode_payload(entry.payload, entry.header, header)
    finally:
        file.close()


def plain_lake(lake: Path, first: int, count: int) -> list[int]:
    """The same from the lake, by Arrow: it opens the files of the thing's bucket and filters them."""
    files = sorted((lake / f"bucket={bucket_of(ENTITY)}").glob("*.parquet"))
    revision = ds.field("revision")
    wanted = (ds.field("entity") == ENTITY) & (revision >= first) & (revision < first + count)
    table = ds.dataset(files).to_table(columns=["revision", "value"], filter=wanted).sort_by("revision")
    return [int(value) for value in table.column("value").to_pylist()]
