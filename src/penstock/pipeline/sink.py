"""`format("penstock")` for writing: rows of a batch or streaming DataFrame become items, exactly once.

Tasks stage their rows at the server, in parts, the driver commits all of them at once. Stages outlive a restart of the
server. If they are gone nevertheless (they were waiting for too long, or a disk was lost), the commit fails, and the
query with it; Spark runs the batch again when the query is started again, under the same number. `publish` is quicker
for small batches, and does the same as this with large ones.
Read next: docs/pipeline.md, "Exactly once".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.pipeline.errors import BadOption
from penstock.pipeline.outlet import PART_BYTES, Outlet, OutletError, StageLost, cut
from penstock.pipeline.target import Target

# What Spark tells its tasks of the query they work for.
QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"


@dataclass
class Staged(WriterCommitMessage):
    """What a task put aside, in order."""

    query: str
    partition: int
    stages: list[str]
    rows: int


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """For `writeStream`, in append or update mode; raises BadOption."""
    if overwrite:
        raise BadOption("outputMode is complete, which would publish every row again with each batch; use update")
    return StreamWriter(_target(options, schema))


def writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """For `df.write`: one batch, under a name of its own; written again, it is published again. Raises BadOption."""
    if overwrite:
        raise BadOption("mode is overwrite; items cannot be overwritten: use mode append")
    return BatchWriter(_target(options, schema))


def _target(options: Mapping[str, str], schema: StructType) -> Target:
    target = Target.of(options)
    target.check_columns(schema.fieldNames())
    return target


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark makes one for each batch, and copies of it for the tasks and for the commit."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        if query is None or batch is None:
            raise OutletError(f"Spark does not tell its tasks the query and the batch ({QUERY}, {BATCH})")
        with self._target.outlet() as outlet:
            return stage(outlet, self._target, query, int(batch), task.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        commit(self._target, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        abandon(self._target, messages, batchId)


class BatchWriter(DataSourceArrowWriter):
    """All copies of one carry the same name, which stands for the query."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._query = f"write-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        with self._target.outlet() as outlet:
            return stage(outlet, self._target, self._query, 0, task.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit(self._target, messages, 0)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abandon(self._target, messages, 0)


def stage(
    outlet: Outlet, target: Target, query: str, batch: int, partition: int, batches: Iterable[pa.RecordBatch]
) -> Staged:
    """What a task does: its rows, put aside in parts, of which it holds one at a time."""
    # Unique, so that a task which Spark gave up and which is still at work cannot replace what another one staged.
    attempt = uuid.uuid4().hex[:12]
    staged = Staged(query, partition, [], 0)
    for number, part in enumerate(_parts(target, batches)):
        names, repeated = outlet.stage(query, batch, f"{partition}-{attempt}-{number}", part)
        staged.stages += names
        staged.rows += part.num_rows
        if repeated:
            # It was committed before; the commit will say so.
            break
    return staged


def _parts(target: Target, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows as they are sent, together up to the size of a part."""
    waiting: list[pa.Table] = []
    size = 0
    for each in batches:
        if each.num_rows == 0:
            continue
        for rows in cut(target.rows(each), PART_BYTES):
            if waiting and size + rows.nbytes > PART_BYTES:
                yield pa.concat_tables(waiting)
                waiting, size = [], 0
            waiting.append(rows)
            size += rows.nbytes
    if waiting:
        yield pa.concat_tables(waiting)


def commit(target: Target, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """What the driver does: all stages become one batch, in the order of the partitions."""
    staged = _staged(messages)
    stages = [name for one in staged for name in one.stages]
    if not stages:
        return
    with target.outlet() as outlet:
        try:
            outlet.commit(staged[0].query, batch, stages, target.mode)
        except StageLost as lost:
            raise StageLost(
                f"{lost}; batch {batch} was not published: start the query again from its checkpoint, which runs the "
                "batch again",
                lost.status,
            ) from None


def abandon(target: Target, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """Best effort: the server drops stages by itself after a while."""
    staged = _staged(messages)
    if not staged:
        return
    once = Outlet(target.server, target.adapter_set, target.adapter, target.token, retry_timeout=0)
    try:
        once.abandon(staged[0].query, batch)
    except OutletError:
        # The task's failure is what people must read, not this.
        pass
    finally:
        once.close()


def _staged(messages: Sequence[Any]) -> list[Staged]:
    return sorted((one for one in messages if isinstance(one, Staged)), key=lambda one: one.partition)
