"""Rows that wait for the commit of their batch, each stage a file: memory is bounded, and a restart loses none.

A file is a line of JSON that says what it is, then an Arrow stream. Nothing is synced: after a power failure a stage
may be damaged, which its checksum tells, and then it counts as missing. Files are handled on threads, all else on the
event loop. Not here: what a commit makes of the rows (`batches`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from penstock.adapters.ingest.errors import Busy, StageConflict, TooLarge, Unavailable, UnknownStage
from penstock.durable import OWNER_FILE, make_directory
from penstock.log import get

if TYPE_CHECKING:
    import pyarrow

log = get(__name__)

SUFFIX = ".stage"
TEMPORARY_SUFFIX = ".tmp"

# What precedes the rows in a file; names have up to 128 characters each.
MAX_HEAD = 1_024

# Bytes that are counted for a stage in addition to its rows, so that empty ones are not free.
STAGE_BYTES = 1_024

# Stages whose rows are being written at the same time; others wait. Each holds a second copy of its rows meanwhile.
WRITERS = 2


class StageHead(msgspec.Struct, frozen=True):
    """The first line of a file."""

    query: str
    batch: int
    stage: str
    rows: int
    # Of the Arrow stream that follows: its length, and a checksum.
    size: int
    sha256: str


@dataclass(slots=True)
class _Waiting:
    """The stages of one batch, and when the last of them came."""

    stages: dict[str, StageHead]
    since: float


class Stages:
    """Of one adapter, in a directory of its own. `max_bytes` is for all files together, `max_seconds` for each batch
    since its last stage.
    """

    def __init__(self, directory: Path, max_bytes: int, max_seconds: float, clock: Callable[[], float]) -> None:
        self.directory = directory
        self.staged_bytes = 0
        # Batches that are being committed: they keep their stages whatever happens.
        self.held: set[tuple[str, int]] = set()
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._clock = clock
        self._batches: dict[tuple[str, int], _Waiting] = {}
        self._writers = asyncio.Semaphore(WRITERS)

    # -- files of the process before ------------------------------------------------------------------------------

    async def recall(self) -> None:
        """Find what is there, once, before anything else. What is not a whole stage is removed."""
        for head in await asyncio.to_thread(self._look):
            self._keep(head)
            self.staged_bytes += _cost(head)

    def _look(self) -> list[StageHead]:
        found = []
        for path in self.directory.glob("*") if self.directory.is_dir() else ():
            head = _head_of(path) if path.suffix == SUFFIX else None
            if head is None or path.name != _name(head.query, head.batch, head.stage):
                path.unlink(missing_ok=True)
            else:
                found.append(head)
        return found

    # -- stages ---------------------------------------------------------------------------------------------------

    async def put(self, query: str, batch: int, stage: str, batches: Sequence[pyarrow.RecordBatch]) -> None:
        """Keep rows; the same may come again. Raises StageConflict, TooLarge, Busy, Unavailable."""
        self.expire()
        async with self._writers:
            body, digest = await asyncio.to_thread(_encoded, batches)
            head = StageHead(query, batch, stage, sum(each.num_rows for each in batches), len(body), digest)
            if self._is_there(head):
                return
            self._check_room(head)
            self.staged_bytes += _cost(head)
            aside = self.directory / f"{uuid4().hex}{TEMPORARY_SUFFIX}"
            kept = False
            try:
                await asyncio.to_thread(_write, aside, head, body)
                # It may have come twice at once.
                if not self._is_there(head):
                    aside.rename(self._path(head))
                    self._keep(head)
                    kept = True
            except OSError as error:
                raise Unavailable(f"the stage cannot be written: {error.strerror or error}") from error
            finally:
                if not kept:
                    self.staged_bytes -= _cost(head)
                    _remove(aside)

    def check(self, query: str, batch: int, names: Sequence[str]) -> None:
        """Raises UnknownStage unless all of them are there."""
        for name in names:
            self._find(query, batch, name)

    async def rows(self, query: str, batch: int, stage: str) -> list[pyarrow.RecordBatch]:
        """Raises UnknownStage, also if the file is damaged."""
        head = self._find(query, batch, stage)
        try:
            return await asyncio.to_thread(_read, self._path(head), head)
        except (OSError, ValueError) as error:
            log.error("stage of a batch is damaged", query=query, batch=batch, stage=stage, reason=str(error))
            self._forget(query, batch, stage)
            raise _unknown(batch, stage) from error

    def drop(self, query: str, batch: int) -> None:
        """Forget the stages of a batch. Raises Busy if it is being committed."""
        if (query, batch) in self.held:
            raise Busy(f"batch {batch} is being committed")
        for stage in list(self._batches[query, batch].stages) if (query, batch) in self._batches else ():
            self._forget(query, batch, stage)

    def drop_until(self, query: str, batch: int) -> None:
        """Forget those of a query up to this batch."""
        for other_query, other in list(self._batches):
            if other_query == query and other <= batch and (other_query, other) not in self.held:
                self.drop(query, other)

    def expire(self) -> None:
        """Forget batches that were not committed in time."""
        before = self._clock() - self._max_seconds
        for (query, batch), waiting in list(self._batches.items()):
            if waiting.since < before and (query, batch) not in self.held:
                log.warning("stages of a batch have expired", query=query, batch=batch, stages=len(waiting.stages))
                self.drop(query, batch)

    def known(self) -> list[tuple[str, int]]:
        """The batches that have stages."""
        return list(self._batches)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _is_there(self, head: StageHead) -> bool:
        waiting = self._batches.get((head.query, head.batch))
        there = None if waiting is None else waiting.stages.get(head.stage)
        if waiting is None or there is None:
            return False
        if there.sha256 != head.sha256:
            raise StageConflict(
                f"stage {head.stage[:60]!r} of batch {head.batch} is there with other rows: use a name of its own for"
                " each attempt, or delete the stages of the batch first"
            )
        waiting.since = self._clock()
        return True

    def _check_room(self, head: StageHead) -> None:
        waiting = self._batches.get((head.query, head.batch))
        own = _cost(head) + (sum(map(_cost, waiting.stages.values())) if waiting is not None else 0)
        if own > self._max_bytes:
            raise TooLarge(
                f"the stages of batch {head.batch} hold {own} bytes; max_staged_bytes = {self._max_bytes}: raise it,"
                " and the same batch is accepted"
            )
        if self.staged_bytes + _cost(head) > self._max_bytes:
            raise Busy(f"{self.staged_bytes} bytes are already staged; max_staged_bytes = {self._max_bytes}")

    def _find(self, query: str, batch: int, stage: str) -> StageHead:
        waiting = self._batches.get((query, batch))
        if waiting is None or stage not in waiting.stages:
            raise _unknown(batch, stage)
        return waiting.stages[stage]

    def _keep(self, head: StageHead) -> None:
        waiting = self._batches.setdefault((head.query, head.batch), _Waiting({}, 0.0))
        waiting.stages[head.stage] = head
        waiting.since = self._clock()

    def _forget(self, query: str, batch: int, stage: str) -> None:
        waiting = self._batches[query, batch]
        head = waiting.stages.pop(stage)
        self.staged_bytes -= _cost(head)
        _remove(self._path(head))
        if not waiting.stages:
            del self._batches[query, batch]

    def _path(self, head: StageHead) -> Path:
        return self.directory / _name(head.query, head.batch, head.stage)


def _cost(head: StageHead) -> int:
    return head.size + STAGE_BYTES


def _unknown(batch: int, stage: str) -> UnknownStage:
    return UnknownStage(f"stage {stage[:60]!r} of batch {batch} is not known; stage it again")


def _name(query: str, batch: int, stage: str) -> str:
    """No two stages share a file, also where the file system does not tell A from a."""
    return sha256(f"{query}/{batch}/{stage}".encode()).hexdigest() + SUFFIX


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _encoded(batches: Sequence[pyarrow.RecordBatch]) -> tuple[memoryview, str]:
    import pyarrow

    if not batches:
        return memoryview(b""), sha256().hexdigest()
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    body = memoryview(sink.getvalue())
    return body, sha256(body).hexdigest()


def _write(path: Path, head: StageHead, body: memoryview) -> None:
    make_directory(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(head) + b"\n")
        file.write(body)


def _head_of(path: Path) -> StageHead | None:
    try:
        with path.open("rb") as file:
            line = file.readline(MAX_HEAD)
            head = msgspec.json.decode(line, type=StageHead)
            return head if os.fstat(file.fileno()).st_size == len(line) + head.size else None
    except (OSError, msgspec.DecodeError):
        return None


def _read(path: Path, head: StageHead) -> list[pyarrow.RecordBatch]:
    import pyarrow

    with path.open("rb") as file:
        file.readline(MAX_HEAD)
        body = file.read()
    if sha256(body).hexdigest() != head.sha256:
        raise ValueError("its checksum is wrong")
    if not body:
        return []
    with pyarrow.ipc.open_stream(pyarrow.py_buffer(body)) as reader:
        return list(reader)
