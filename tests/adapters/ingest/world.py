"""What the tests of batches share: one life of an adapter with its journal, rows as Arrow, what the journal holds."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from penstock.adapters import AdapterSet, MetadataAdapter
from penstock.adapters.api import Journaling
from penstock.adapters.ingest import IngestAdapter
from penstock.adapters.ingest.adapter import IngestIntake
from penstock.adapters.ingest.batches import Batches
from penstock.adapters.running import RunningSet
from penstock.journal.disk import Disk
from penstock.journal.gatherer import Gatherer
from penstock.journal.journal import Journal, JournalSettings
from penstock.journal.reader import JournalReader
from penstock.kernel.item import Mode
from penstock.kernel.ports import CheckedEvent
from penstock.testing import Harness, Peer

TOKEN = "0123456789abcdef"
MODES = {"m*": "MERGE", "d*": "DISTINCT", "c*": "COMMAND"}

# Entity, kind and value of a record.
Record = tuple[str, str, str | None]


def table(rows: Sequence[Mapping[str, object]], types: Mapping[str, pa.DataType] | None = None) -> pa.RecordBatch:
    """Rows as Spark would send them: all have all columns, of text unless told otherwise."""
    names = list(dict.fromkeys(["item", *(name for row in rows for name in row)]))
    given = types or {}
    arrays = [pa.array([row.get(name) for row in rows], given.get(name, pa.string())) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names)


def stream(*batches: pa.RecordBatch, compression: str | None = None) -> bytes:
    """The body of a request."""
    buffer = io.BytesIO()
    with pa.ipc.new_stream(
        buffer, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return buffer.getvalue()


def records(disk: Disk | Path) -> list[Record]:
    """All that the journal holds, in order."""
    reader = JournalReader(disk)
    found: list[Record] = []
    for batch in reader.read():
        found += zip(*(batch.column(name).to_pylist() for name in ("entity", "kind", "value")), strict=True)
    assert reader.damages == []
    return found


class Life:
    """An ingest adapter SET/ADAPTER in a kernel without sockets, from a start to a stop, and the journal it writes."""

    def __init__(
        self,
        disk: Disk | Path,
        directory: Path,
        *,
        patterns: Sequence[str] = ("*",),
        policy: Any = "ack",
        settings: JournalSettings | None = None,
        **parameters: Any,
    ) -> None:
        self.adapter = IngestAdapter(**{"items": MODES, "tokens": [TOKEN], **parameters})
        self.harness = Harness()
        self.journal: Journal
        self._disk = disk
        self._directory = directory
        self._journaling = Journaling(tuple(patterns), policy)
        self._settings = settings

    @property
    def batches(self) -> Batches:
        assert self.adapter.batches is not None
        return self.adapter.batches

    @property
    def gatherer(self) -> Gatherer:
        assert self.adapter.recorder is not None
        return self.adapter.recorder.gatherer

    async def __aenter__(self) -> Life:
        self.journal = Journal(self._disk, self._settings)
        self._time = 1_700_000_000_000_000
        gatherer = Gatherer(self.journal, asyncio.get_running_loop().call_soon, self._now)
        adapter_set = AdapterSet(
            "SET", MetadataAdapter(), {"ADAPTER": self.adapter}, journal={"ADAPTER": self._journaling}
        )
        self._running = RunningSet(self.harness.kernel, adapter_set, gatherer=gatherer, directory=self._directory)
        try:
            await self._running.start()
        except BaseException:
            await asyncio.to_thread(self.journal.close)
            raise
        self.harness.feed = self.harness.kernel.feed("SET", "ADAPTER")
        return self

    def _now(self) -> int:
        self._time += 1_000_000
        return self._time

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.stop()
        await asyncio.to_thread(self.journal.close)

    async def put(self, query: str, batch: int, mode: str, rows: Sequence[Mapping[str, object]]) -> tuple[int, int]:
        """A batch that is not a repetition; rows taken and ignored."""
        outcome = await self.batches.put(query, batch, mode, [table(rows)])
        assert not outcome.repeated
        return outcome.rows, outcome.ignored

    async def lines(self, *events: tuple[str, dict[str, str | None] | None]) -> None:
        """What a request with JSON lines does; None for an event clears."""
        async with self.adapter.lock:
            intake = IngestIntake(self.adapter)
            for item, event in events:
                if event is None:
                    intake.clear(1, item)
                else:
                    intake.update(1, item, CheckedEvent(dict(event)))
            intake.flush()
            assert intake.errors == []
        await self.gatherer.committed()

    def watch(self, items: str, fields: str, mode: Mode = Mode.RAW) -> Peer:
        peer = Peer(self.harness)
        peer.open()
        peer.subscribe(items, fields, mode, snapshot=mode is not Mode.RAW, unfiltered=True)
        return peer

    def seen(self, peer: Peer, item: int = 1) -> list[Any]:
        """What a peer was told of an item since the last time."""
        self.harness.turn()
        peer.receive()
        return peer.seen.pop((1, item), [])

    def snapshot(self, item: str, fields: str, mode: Mode) -> list[tuple[str | None, ...]]:
        """What somebody who comes now is told of an item."""
        peer = self.watch(item, fields, mode)
        told = [event.values for event in self.seen(peer) if hasattr(event, "values")]
        peer.session.unsubscribe(1)
        self.harness.turn()
        return told
