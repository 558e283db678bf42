"""`publish_stream`: each batch of a streaming DataFrame goes to the server in one request, from the driver.

The quick way for small batches. One that is larger than Spark lets a driver collect is staged by its tasks, as `sink`
does it, so that the driver never holds it. The function that Spark calls is plain data: it runs as well in Spark
Connect's server. Read next: docs/pipeline.md, "Items from a DataFrame".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from penstock.log import get
from penstock.pipeline.errors import BadOption, PipelineError
from penstock.pipeline.outlet import PART_BYTES, STAGINGS, Delivery, Outlet, StageLost, cut
from penstock.pipeline.place import Place
from penstock.pipeline.sink import stage
from penstock.pipeline.target import Target
from penstock.pipeline.token import read_token

log = get(__name__)

QUERY = "sql.streaming.queryId"
ONCE = "once"

# Spark's setting for how much a driver may collect. A message that names it says that a batch is larger.
MAX_RESULT = "spark.driver.maxResultSize"

# What a task that has staged its rows returns.
STAGED = "partition int, stages array<string>, rows long"


def publish_stream(
    df: DataFrame,
    *,
    adapter_set: str,
    adapter: str,
    checkpoint: str | Path,
    server: str | None = None,
    place: Place | None = None,
    token: str | None = None,
    token_file: str | Path | None = None,
    item: str | None = None,
    item_template: str | None = None,
    mode: str = "MERGE",
    key: str | None = None,
    command: str | None = None,
    fields: Sequence[str] = (),
    order_by: Sequence[str] = (),
    trigger: str = "0 seconds",
    output_mode: str = "update",
    query_name: str | None = None,
    retry_timeout: float | None = None,
) -> StreamingQuery:
    """Publish a streaming DataFrame as items, exactly once; the query runs until it is stopped.

    Raises BadOption for options that contradict one another and for columns that are not there.

    - `df`: the streaming DataFrame.
    - `adapter_set`, `adapter`: the ingest adapter that publishes the items; it must be journaled.
    - `checkpoint`: Spark's directory for the query, one of its own for each query.
    - `server`: the address of the server's API port, such as `http://127.0.0.1:8081`.
    - `place`: in place of `server`, where the pipeline works; it knows the address, and the token unless one is given.
    - `token`: what opens the ingest adapter.
    - `token_file`: in place of `token`, a file with it in its first line that is not a comment.
    - `item`: the column with the names of the items.
    - `item_template`: in place of `item`, a text with columns in braces; without braces all rows are of one item.
    - `mode`: MERGE, DISTINCT or COMMAND, as the adapter declares the items.
    - `key`: the column with the key of a row; COMMAND needs it, and no other mode has it.
    - `command`: in COMMAND mode, a column with ADD, UPDATE, DELETE or null.
    - `fields`: the columns to publish; by default all that are not named above.
    - `order_by`: columns by which the rows of a batch are sorted; by default they are not.
    - `trigger`: the time between two batches, or "once": all there is now, then the query ends.
    - `output_mode`: Spark's; `complete` publishes every row in each batch.
    - `query_name`: Spark's name for the query; by default it has none.
    - `retry_timeout`: seconds for which a server that is away or busy is waited for; by default for ever.
    """
    if (server is None) == (place is None):
        raise BadOption("server and place: exactly one is needed")
    if place is not None:
        place = place.with_token()
        server = place.api
        if token is None and token_file is None:
            token = place.token
    assert server is not None
    target = Target(
        server,
        adapter_set,
        adapter,
        read_token(token, token_file),
        item=item,
        item_template=item_template,
        mode=mode,
        key=key,
        command=command,
        fields=tuple(fields),
        retry_timeout=retry_timeout,
    )
    target.check_columns(df.columns)
    missing = [name for name in order_by if name not in df.columns]
    if missing:
        raise BadOption(f"order_by names the column {missing[0]!r}; the DataFrame has {', '.join(df.columns)}")
    publisher = BatchPublisher(target, str(checkpoint), tuple(order_by))
    return start_query(df, publisher, checkpoint, trigger=trigger, output_mode=output_mode, query_name=query_name)


def start_query(
    df: DataFrame,
    each: Callable[[DataFrame, int], None],
    checkpoint: str | Path,
    *,
    trigger: str = "0 seconds",
    output_mode: str = "update",
    query_name: str | None = None,
) -> StreamingQuery:
    """A query that hands its batches to a function; `trigger` as in `publish_stream`."""
    stream = df.writeStream.outputMode(output_mode).foreachBatch(each).option("checkpointLocation", str(checkpoint))
    if query_name is not None:
        stream = stream.queryName(query_name)
    if trigger == ONCE:
        return stream.trigger(availableNow=True).start()
    return stream.trigger(processingTime=trigger).start()


@dataclass
class BatchPublisher:
    """What Spark calls with each batch."""

    target: Target
    checkpoint: str
    order_by: tuple[str, ...] = ()
    _outlet: Outlet | None = field(default=None, init=False, repr=False)
    _query: str | None = field(default=None, init=False, repr=False)
    # The batch before was sent by the tasks, and was large indeed.
    _large: bool = field(default=False, init=False, repr=False)

    def __call__(self, df: DataFrame, batch: int) -> None:
        if self._query is None:
            self._query = query_id(self.checkpoint, df)
        if not self._large:
            try:
                table = df.toArrow()
            except Exception as error:
                if MAX_RESULT not in str(error):
                    raise
                log.info(
                    "a batch is too large for the driver, and is sent by the tasks", query=self._query, batch=batch
                )
            else:
                self.send(self._query, batch, table)
                return
        self.stage(self._query, batch, df)

    def send(self, query: str, batch: int, table: pa.Table) -> Delivery | None:
        """The rows of one batch; None: there were none, so there is nothing to remember either."""
        if table.num_rows == 0:
            return None
        if self.order_by:
            table = table.sort_by([(name, "ascending") for name in self.order_by])

        def parts() -> Iterator[pa.Table]:
            before = 0
            for part in cut(table, PART_BYTES):
                yield self.target.rows(part, before)
                before += part.num_rows

        return self._connection().put_parts(query, batch, parts, self.target.mode)

    def stage(self, query: str, batch: int, df: DataFrame) -> Delivery | None:
        """The same for a batch that nobody can hold: its tasks send their rows, and the driver commits."""
        outlet = self._connection()
        last = outlet.last_batch(query)
        if last is not None and batch <= last:
            return Delivery(0, repeated=True)
        if self.order_by:
            df = df.orderBy(*(fn.col(name).asc_nulls_last() for name in self.order_by))
        # What an attempt before has left behind, before a crash, takes room and is of no use.
        outlet.abandon(query, batch)
        for left in range(STAGINGS, -1, -1):
            done = df.mapInArrow(partial(_stage_rows, self.target, query, batch), STAGED).collect()
            done.sort(key=lambda row: row.partition)
            # The next one may well be as large: to find out costs running it twice.
            self._large = any(len(row.stages) > 1 for row in done)
            names = [name for row in done for name in row.stages]
            if not names:
                return None
            try:
                return outlet.commit(query, batch, names, self.target.mode)
            except StageLost:
                if not left:
                    raise
        raise AssertionError("unreachable")

    def _connection(self) -> Outlet:
        if self._outlet is None:
            # Kept from batch to batch, and so its connection.
            self._outlet = self.target.outlet()
        return self._outlet

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_outlet": None}


def _stage_rows(target: Target, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does with its rows."""
    task = TaskContext.get()
    assert task is not None
    with target.outlet() as outlet:
        staged = stage(outlet, target, query, batch, task.partitionId(), batches)
    row = {"partition": staged.partition, "stages": staged.stages, "rows": staged.rows}
    types = [("partition", pa.int32()), ("stages", pa.list_(pa.string())), ("rows", pa.int64())]
    yield pa.RecordBatch.from_pylist([row], pa.schema(types))


def query_id(checkpoint: str, df: DataFrame) -> str:
    """The query's id, which lives in its checkpoint: a new checkpoint is another query, with batches from 0 on."""
    path = _local(checkpoint)
    if path is not None:
        try:
            return str(json.loads((path / "metadata").read_text(encoding="utf-8"))["id"])
        except (OSError, ValueError, KeyError) as error:
            raise PipelineError(f"the checkpoint {checkpoint} does not contain the query's id: {error}") from None
    # Somewhere that only Spark can read. Under Spark Connect there is no such context.
    context = getattr(df.sparkSession, "sparkContext", None)
    found = None if context is None else context.getLocalProperty(QUERY)
    if found is None:
        raise PipelineError(f"the checkpoint {checkpoint} is not on this machine, so the query's id cannot be read")
    return str(found)


def _local(checkpoint: str) -> Path | None:
    parts = urlsplit(checkpoint)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(checkpoint)
