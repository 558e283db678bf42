"""The events of a large batch on their way to journal and clients: in a file, because memory need not hold them.

Written as the batch is drafted, read twice: by the journal's thread, then to be published. The file ends with the
batch, and is of no use to anybody else. Not here: small batches, which need none (`batches`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa

from penstock.adapters.ingest.errors import TooLarge
from penstock.adapters.ingest.stages import TEMPORARY_SUFFIX
from penstock.durable import OWNER_FILE, make_directory
from penstock.journal.entity import batch_entity, entity_of
from penstock.journal.gatherer import value_of
from penstock.journal.journal import MAX_APPEND
from penstock.journal.long import LongAppend
from penstock.journal.record import SCHEMA, Columns, arrays
from penstock.journal.recorder import BATCH, UPDATE, JournalItemRecorder
from penstock.kernel.ports import CheckedEvent

# Characters of the records that are written, and journaled, together: as many as a group of the journal has bytes.
PIECE_CHARACTERS = 1024 * 1024

# Bytes of one record; the journal takes no larger one, because it must fit into a frame.
MAX_RECORD = MAX_APPEND - 1024 * 1024

# Of a record, in the order of `record.arrays`; and whether it is journaled.
_GIVEN = ("entity", "timestamp", "kind", "path", "value", "headers")
_SCHEMA = pa.schema([*(SCHEMA.field(name) for name in _GIVEN), pa.field("journaled", pa.bool_())])

_decode_event = msgspec.json.Decoder(CheckedEvent).decode


@dataclass(frozen=True, slots=True)
class SpooledPiece:
    """Some events, in order, and those records of them that are journaled."""

    events: list[tuple[str, CheckedEvent]]
    journaled: Columns


class EventSpool:
    """Of one batch. `add` all events, `end` it, then read; `close` in any case."""

    def __init__(self, directory: Path, recorder: JournalItemRecorder, max_bytes: int) -> None:
        self.counts: dict[str, int] = {}
        self.bytes = 0
        self._path = directory / f"{uuid4().hex}{TEMPORARY_SUFFIX}"
        self._recorder = recorder
        self._max_bytes = max_bytes
        self._prefix = entity_of(recorder.adapter_set, recorder.adapter, "")
        self._columns = Columns()
        self._journaled: list[bool] = []
        self._characters = 0
        self._sink: Any = None
        self._writer: Any = None

    # -- writing --------------------------------------------------------------------------------------------------

    async def add(self, events: Sequence[tuple[str, CheckedEvent]], timestamp: int) -> None:
        """Raises TooLarge, OSError."""
        for item, event in events:
            await self._put(self._prefix + item, timestamp, UPDATE, value_of(event), self._recorder.wants(item))

    async def end(self, query: str, batch: int, rows: int, timestamp: int) -> None:
        """The batch's own record, the last. Raises OSError."""
        marker = batch_entity(self._recorder.adapter_set, self._recorder.adapter, query)
        await self._put(marker, timestamp, BATCH, f'{{"batch":{batch},"rows":{rows}}}', True)
        await self._flush()
        await asyncio.to_thread(self._close_file)

    async def _put(self, entity: str, timestamp: int, kind: str, value: str | None, journaled: bool) -> None:
        size = len(value or "") + len(entity)
        # A character takes up to four bytes.
        if size > MAX_RECORD // 4 and (taken := len(f"{entity}{value}".encode())) > MAX_RECORD:
            raise TooLarge(f"an event takes {taken} bytes; a record of the journal has at most {MAX_RECORD}")
        if self._characters + size > PIECE_CHARACTERS:
            await self._flush()
        self._columns.add(entity, timestamp, kind, "", value)
        self._journaled.append(journaled)
        self._characters += size
        if journaled:
            self.counts[entity] = self.counts.get(entity, 0) + 1

    async def _flush(self) -> None:
        if not self._journaled:
            return
        columns, journaled = self._columns, self._journaled
        self._columns, self._journaled, self._characters = Columns(), [], 0
        await asyncio.to_thread(self._write, columns, journaled)
        if self.bytes > self._max_bytes:
            raise TooLarge(
                f"the events of the batch take more than {self._max_bytes} bytes; max_staged_bytes ="
                f" {self._max_bytes}: raise it, and the same batch is accepted"
            )

    def _write(self, columns: Columns, journaled: list[bool]) -> None:
        if self._writer is None:
            make_directory(self._path.parent)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_FILE)
            self._sink = os.fdopen(descriptor, "wb")
            self._writer = pa.ipc.new_stream(self._sink, _SCHEMA)
        piece = pa.RecordBatch.from_arrays([*arrays(columns), pa.array(journaled, pa.bool_())], schema=_SCHEMA)
        self._writer.write_batch(piece)
        self.bytes += piece.nbytes

    def _close_file(self) -> None:
        if self._writer is not None:
            writer, sink, self._writer, self._sink = self._writer, self._sink, None, None
            try:
                writer.close()
            finally:
                sink.close()

    async def close(self) -> None:
        """Remove the file."""
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        with suppress(OSError):
            # Nobody reads it any more.
            self._close_file()
        self._path.unlink(missing_ok=True)

    # -- reading --------------------------------------------------------------------------------------------------

    def records(self) -> LongAppend:
        """What is journaled."""
        return LongAppend(self.counts, self._journal_pieces)

    def _journal_pieces(self) -> Iterator[list[Any]]:
        for batch in self._batches():
            chosen = batch.filter(batch.column("journaled"))
            if chosen.num_rows:
                yield [chosen.column(name) for name in _GIVEN]

    async def pieces(self, most: int) -> AsyncIterator[SpooledPiece]:
        """All events, at most so many at a time. Raises OSError."""
        batches = await asyncio.to_thread(self._batches)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            for start in range(0, batch.num_rows, most):
                yield self._piece(batch.slice(start, most))

    def _piece(self, batch: Any) -> SpooledPiece:
        skip = len(self._prefix)
        entities, kinds, values = (batch.column(name).to_pylist() for name in ("entity", "kind", "value"))
        events = [
            (entity[skip:], _decode_event(value))
            for entity, kind, value in zip(entities, kinds, values, strict=True)
            if kind == UPDATE
        ]
        kept = batch.filter(batch.column("journaled"))
        times = kept.column("timestamp").cast(pa.int64())
        lists = [times if name == "timestamp" else kept.column(name) for name in _GIVEN]
        return SpooledPiece(events, Columns(*(each.to_pylist() for each in lists)))

    def _batches(self) -> Iterator[Any]:
        with pa.OSFile(str(self._path)) as file, pa.ipc.open_stream(file) as reader:
            yield from reader
