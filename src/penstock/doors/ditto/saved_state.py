"""The state of all things and policies in one file, so that a start reads only the records after it.

One Arrow table with a checksum, written beside the old one and renamed, so that it is never incomplete. It can be
rebuilt from the journal, as long as that is kept. Read next: docs/ditto.md, "Durability".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from penstock import log
from penstock.journal.arrays import numbers, text
from penstock.journal.disk import Disk
from penstock.journal.reader import JournalReader
from penstock.journal.selection import EventSelection
from penstock.journal.sidecar import SidecarDamaged, drop_rows, read_sidecar, write_sidecar
from penstock.twins.names import TwinNames
from penstock.twins.record import Record, records_of
from penstock.twins.state import TwinsState
from penstock.twins.twin import Document, Twin
from penstock.wire.ditto.document import parse, text_of
from penstock.wire.ditto.kinds import EVENTS

_log = log.get(__name__)

NAME = "twins.state"
# The previous one, which a start falls back to if the newest is damaged.
PREVIOUS = "twins.previous"

VERSION = 1
_METADATA = "_metadata"
_HEAD = ["version", "sequence"]
_COLUMNS = ["entity", "revision", "created", "modified", "document"]

# How many are encoded at once: even with the largest documents a batch stays far below what Arrow can address.
BATCH_TWINS = 4096


def save_state(disk: Disk, state: TwinsState) -> None:
    """Replace the saved state. Blocks: not for an event loop. If it raises OSError, the old one is still there."""
    entities, twins = list(state.twins), list(state.twins.values())
    batches = [
        _batch(entities[at : at + BATCH_TWINS], twins[at : at + BATCH_TWINS])
        for at in range(0, max(1, len(twins)), BATCH_TWINS)
    ]
    head = pa.Table.from_arrays([numbers([VERSION], pa.int64()), numbers([state.sequence], pa.int64())], _HEAD)
    if NAME in disk.names():
        disk.rename(NAME, PREVIOUS)
    write_sidecar(disk, NAME, [head, pa.Table.from_batches(batches)])
    disk.sync_directory()


def _batch(entities: list[str], twins: list[Twin]) -> Any:
    columns = [
        text(entities),
        numbers([twin.revision for twin in twins], pa.int64()),
        numbers([twin.created for twin in twins], pa.int64()),
        numbers([twin.modified for twin in twins], pa.int64()),
        text([text_of(_saved(twin)) for twin in twins]),
    ]
    return pa.RecordBatch.from_arrays(columns, _COLUMNS)


def _saved(twin: Twin) -> Document:
    """The metadata is in the document, under a name that no field of a thing has."""
    return {**twin.document, _METADATA: twin.metadata} if twin.metadata else twin.document


def load_state(disk: Disk) -> TwinsState:
    """The newest readable state; an empty one if there is none: then the whole journal is read."""
    for name in (NAME, PREVIOUS):
        try:
            tables = read_sidecar(disk, name)
        except SidecarDamaged:
            _log.error("the saved state of twins is damaged", file=name)
            continue
        if tables is None:
            continue
        head, body = tables
        version = head["version"][0].as_py()
        if version == VERSION:
            return TwinsState(head["sequence"][0].as_py(), dict(_twins(body)))
        _log.error("the saved state of twins is of another version", file=name, version=version, known=VERSION)
    return TwinsState()


def forget_twins(disk: Disk, entities: Collection[str]) -> None:
    """Leave some out of what is saved, while no server runs. Raises OSError."""
    for name in (NAME, PREVIOUS):
        drop_rows(disk, name, 1, text(list(entities)))
    disk.sync_directory()


def _twins(table: Any) -> Iterator[tuple[str, Twin]]:
    for batch in table.to_batches():
        entities, *rest, documents = (batch.column(name).to_pylist() for name in _COLUMNS)
        parsed = [parse(document) for document in documents]
        metadata = [document.pop(_METADATA, {}) for document in parsed]
        yield from zip(entities, map(Twin, parsed, *rest, metadata), strict=True)


def records_after(reader: JournalReader, names: TwinNames, sequence: int) -> Iterator[Record]:
    """What happened to things and policies after a saved state, with one batch in memory at a time.

    Raises Expired if retention has dropped some of it: then a reader of the lake must be used.
    """
    # And few others: a reader skips blocks that contain none of these.
    selection = EventSelection(names.patterns(), tuple(kind.value for kind in EVENTS))
    return records_of(reader.read(sequence + 1, None, selection))
