"""A range of the journal as an Arrow IPC stream, made piece by piece on a thread.

Each record batch says, in its metadata, up to which sequence the range has been read (`through`), and which places were
damaged (`damage`). A batch without rows only says this. A stream whose last batch is not at the end of the range is not
complete, and its reader goes on after `through`. Not here: who may read (`rights`), how it is sent (`routes`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from penstock.journal.damage import Damage
from penstock.journal.disk import Disk
from penstock.journal.indexes import Indexes
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA
from penstock.journal.selection import EventSelection

ARROW = "application/vnd.apache.arrow.stream"

# Sequences after which a range says how far it is, also if nothing in them was wanted.
STEP = 100_000

# Names in the metadata of a batch.
THROUGH = b"through"
DAMAGE = b"damage"

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Passage:
    """Sequences `first` to `last`. `chosen` is what the reader wants; of that, it gets what `allowed` lets it see.

    Iterate over it for the bytes of the stream, a batch at a time. Raises Expired.
    """

    def __init__(
        self, disk: Disk, indexes: Indexes, first: int, last: int, chosen: EventSelection, allowed: tuple[str, ...]
    ) -> None:
        self.events = 0
        self._damages: list[Damage] = []
        self._reader = JournalReader(disk, self._damages.append, indexes)
        self._first = first
        self._last = last
        if not chosen.entities:
            # The journal's index finds them.
            chosen, allowed = EventSelection(allowed, chosen.kinds, chosen.since, chosen.until), ()
        self._chosen = chosen
        self._allowed = EventSelection(allowed)

    def __iter__(self) -> Iterator[bytes]:
        sink = _Pieces()
        with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), SCHEMA, options=_OPTIONS) as writer:
            for start in range(self._first, self._last + 1, STEP):
                end = min(start + STEP - 1, self._last)
                for batch in self._reader.read(start, end + 1, self._chosen):
                    found = self._allowed.apply(batch)
                    self.events += found.num_rows
                    # More of the last frame may follow in the next batch: only what was sent is through.
                    self._write(writer, found, batch.column("sequence")[-1].as_py())
                    yield sink.take()
                self._write(writer, _NOTHING, end)
                yield sink.take()
        # What ends the stream.
        yield sink.take()

    def _write(self, writer: Any, batch: Any, through: int) -> None:
        about = {THROUGH: str(through).encode()}
        if self._damages:
            about[DAMAGE] = json.dumps([asdict(damage) for damage in self._damages]).encode()
            self._damages.clear()
        # Segments of earlier versions may have other types for the same columns.
        writer.write_batch(batch if batch.schema.equals(SCHEMA) else batch.cast(SCHEMA), custom_metadata=about)


_NOTHING = pa.RecordBatch.from_pylist([], SCHEMA)


class _Pieces:
    """A file that is only written, and emptied now and then."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def flush(self) -> None:
        """Nothing is kept back."""

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
