"""`format("penstock")` for reading: the journal as a batch or streaming DataFrame, in Arrow batches; with option table
a typed table instead, which has what is only in the lake as well.

Offsets are sequence numbers: {"sequence": N} = everything up to and including N was read. Partitions are slices of
segment files, or ranges of sequences that a task asks a server for, as plain data. Not here: options (`options`),
writing (`sink`). Read next: docs/pipeline.md, "The source".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.history.projection import projected
from penstock.history.scan import ScanShare, TableScan
from penstock.journal.damage import Damage
from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader, Slice
from penstock.journal.selection import EventSelection
from penstock.pipeline import reports
from penstock.pipeline.errors import BadOption, PipelineError
from penstock.pipeline.options import NAMES, SourceOptions, micros, micros_of, parse
from penstock.pipeline.remote import OTHER_JOURNAL, RemoteJournal, RemotePart
from penstock.pipeline.schema import EVENTS, table_schema

# A partition with less than this costs more to start than to read.
EVENTS_PER_PARTITION = 25_000

# A batch of no more events, and no more bytes of the journal, is read where it is planned: to hand it to a worker
# takes longer than reading it, and the worker's answer longer still.
EVENTS_READ_AHEAD = 5_000
BYTES_READ_AHEAD = 2 * 1024 * 1024

# What helps when retention has dropped what a query has not read.
_SKIPPING = "option onExpired with the value earliest would go on from there"

# {"sequence": N, "salt": S}: the salt, where known, is that of the segment N is in, and tells journals apart.
Offset = dict[str, int]

# A directory, or a server that has it.
AnyJournal = JournalReader | RemoteJournal


class JournalSource(DataSource):
    """Registered by `penstock.pipeline.register`; `spark.read.format("penstock").load("…/journal")`."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    # What a class made for one table has beside what its user writes.
    given: ClassVar[Mapping[str, str]] = {}

    def schema(self) -> StructType:
        table = self._parsed(stream=False).table if self._is_table() else None
        return EVENTS if table is None else table_schema(table)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._parsed(stream=False)
        _check_schema(schema, options)
        return SparkJournalReader(options) if options.table is None else SparkTableReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._parsed(stream=True)
        _check_schema(schema, options)
        return SparkJournalStreamReader(options) if options.table is None else SparkTableStreamReader(options)

    def _is_table(self) -> bool:
        return any(name.lower() == "table" for name in (*self.given, *self.options))

    def _parsed(self, *, stream: bool) -> SourceOptions:
        others = dict(self.options)
        if self.given:
            # A table of Spark's catalog comes with its properties, and with a path that is Spark's own.
            own = {"path", *(name.lower() for name in self.given)}
            known = {name.lower() for name in NAMES} - own
            others = {name: value for name, value in self.options.items() if name.lower() in known}
        return parse({**others, **self.given}, stream=stream)

    # Loaded when needed: reading must not wait for what only writing imports.

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.pipeline import sink

        return sink.writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.pipeline import sink

        return sink.stream_writer(self.options, schema, overwrite)


@dataclass
class JournalShare(InputPartition):
    """What one task reads."""

    slices: list[Slice] | list[RemotePart]
    # For the server: a worker may not have the file that it is in.
    token: str | None = field(default=None, repr=False)


@dataclass
class TableShare(InputPartition):
    """What one task reads of a typed table."""

    share: ScanShare
    # As that of a share of the journal.
    token: str | None = field(default=None, repr=False)


class SparkJournalReader(DataSourceReader):
    """A range once. With option pushFilters, filters on entity, kind, timestamp and sequence go down to its index."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._selection = options.selection
        self._first: int | None = None
        self._stop: int | None = None

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterator[Filter]]:
        """A method, but for Spark's eyes: see `_Push`."""
        return _Push(self)

    def push(self, filters: list[Filter]) -> Iterator[Filter]:
        """What comes back is checked by Spark again: whatever the journal only narrows down."""
        for each in filters:
            if not (self._options.push_filters and self._push(each)):
                yield each

    def partitions(self) -> Sequence[InputPartition]:
        reader = _open(self._options)
        start = _resolve(reader, "startingOffset", self._options.starting)
        stop = _ending(self._options, reader)
        if start > stop and self._options.ending != "latest":
            raise BadOption(
                f"option startingOffset is {self._options.starting} and endingOffset {self._options.ending}, which is "
                "before it"
            )
        if self._first is not None:
            start = max(start, self._first)
        if self._stop is not None:
            stop = min(stop, self._stop)
        return _plan(reader, start, stop, self._options, self._selection)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, self._selection, partition)

    def _push(self, each: Filter) -> bool:
        """Whether the journal alone decides it."""
        attribute = getattr(each, "attribute", None)
        if attribute == ("entity",) and not self._selection.entities:
            entities = _literals(each)
            if isinstance(each, StringStartsWith):
                entities = (f"{each.value}*",) if _plain(each.value) else ()
            elif not all(map(_plain, entities)):
                entities = ()
            self._selection = replace(self._selection, entities=entities)
            return bool(entities)
        if attribute == ("kind",) and not self._selection.kinds:
            self._selection = replace(self._selection, kinds=_literals(each))
            return bool(self._selection.kinds)
        if attribute == ("timestamp",):
            return self._push_time(each)
        if attribute == ("sequence",):
            return self._push_sequence(each)
        return False

    def _push_time(self, each: Filter) -> bool:
        value = getattr(each, "value", None)
        # Without a zone nobody here knows which moment it is: Spark does.
        if not isinstance(value, datetime) or value.tzinfo is None:
            return False
        if isinstance(each, GreaterThan | GreaterThanOrEqual):
            since = _highest(micros(value) + isinstance(each, GreaterThan), self._selection.since)
            self._selection = replace(self._selection, since=since)
            return True
        if isinstance(each, LessThan | LessThanOrEqual):
            until = _lowest(micros(value) + isinstance(each, LessThanOrEqual), self._selection.until)
            self._selection = replace(self._selection, until=until)
            return True
        return False

    def _push_sequence(self, each: Filter) -> bool:
        value = getattr(each, "value", None)
        if not isinstance(value, int):
            return False
        if isinstance(each, GreaterThan | GreaterThanOrEqual | EqualTo):
            self._first = _highest(value + isinstance(each, GreaterThan), self._first)
        if isinstance(each, LessThan | LessThanOrEqual | EqualTo):
            self._stop = _lowest(value + (not isinstance(each, LessThan)), self._stop)
        return isinstance(each, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual | EqualTo)


class _Push:
    """`SparkJournalReader.pushFilters`, so made that a session without the setting for it can read, too.

    Unless spark.sql.python.filterPushdown.enabled is true, and by default it is not, Spark refuses every reader that
    has a pushFilters of its own; it would not have called it, and filters by itself. `__func__`, which is what it looks
    at, says that there is only the inherited one.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: SparkJournalReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterator[Filter]:
        return self._reader.push(filters)


class SparkJournalStreamReader(_SimpleStreamReaderWrapper, SupportsTriggerAvailableNow):
    """The journal as it grows. One object per query, in a process of its own beside the driver.

    Spark asks the class that it wraps a simple reader in, and no other, for rows along with the plan (`getCache`), and
    then needs no Python worker to read them: a third of a small batch's time. So this is such a class, which is its own
    simple reader; what it has none of, larger batches, the tasks read as ever.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.simple_reader: Any = self
        self._options = options
        # Made where it is used: the object itself travels to the tasks.
        self._reader: AnyJournal | None = None
        self._target: int | None = None
        self._planned: Sequence[InputPartition] = ()

    def initialOffset(self) -> Offset:
        return self._offset(_resolve(self._journal(), "startingOffset", self._options.starting) - 1)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_events) if self._options.max_events else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        reader = self._journal()
        begin = start["sequence"]
        latest = reader.poll()
        self._check_same(start, latest)
        if self._options.on_expired == "earliest":
            # What is gone counts for nothing: no batches without rows until the earliest is reached.
            begin = max(begin, self._earliest() - 1)
        if self._target is not None:
            latest = min(latest, self._target)
        if isinstance(limit, ReadMaxRows):
            latest = min(latest, begin + limit.max_rows)
        # The very same where nothing is new: Spark compares.
        return self._offset(latest) if latest > start["sequence"] else start

    def reportLatestOffset(self) -> Offset:
        return self._offset(self._journal().poll())

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._journal().poll()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, stop = start["sequence"] + 1, end["sequence"] + 1
        if first >= stop:
            return []
        latest = self._journal().poll()
        self._check_same(start, latest)
        self._check_same(end, latest)
        self._planned = self._shares(first, stop)
        return self._planned

    def getCache(self, start: Offset, end: Offset) -> Iterator[Any] | None:
        """The rows of what was planned last, if they are few; None: the tasks read them."""
        # How many bytes a share has is known of a directory, not of a server.
        if self._options.remote is not None or len(self._planned) != 1:
            return None
        if end["sequence"] - start["sequence"] > EVENTS_READ_AHEAD:
            return None
        slices = self._slices(self._planned[0])
        if slices is None or sum(one.end - one.position for one in slices) > BYTES_READ_AHEAD:
            return None
        return self._read_here(self._planned[0])

    def commit(self, end: Offset) -> None:
        """Nothing is kept."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._options, self._options.selection, partition)

    def _slices(self, partition: InputPartition) -> Sequence[Slice] | None:
        """All that a task would read of the journal's directory; None if it would read something else."""
        assert isinstance(partition, JournalShare)
        return [one for one in partition.slices if isinstance(one, Slice)]

    def _read_here(self, partition: InputPartition) -> Iterator[Any]:
        journal = self._journal()
        assert isinstance(journal, JournalReader)
        return journal.read_slices(self._slices(partition) or (), self._options.selection)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None, "_planned": ()}

    def _journal(self) -> AnyJournal:
        if self._reader is None:
            self._reader = _open(self._options)
        return self._reader

    def _shares(self, first: int, stop: int) -> Sequence[InputPartition]:
        """What the tasks read of a range that there is."""
        return _plan(self._journal(), first, stop, self._options, self._options.selection)

    def _earliest(self) -> int:
        """The first sequence that there is."""
        return self._journal().earliest()

    def _offset(self, sequence: int) -> Offset:
        salt = self._journal().salt_at(sequence)
        return {"sequence": sequence} if salt is None else {"sequence": sequence, "salt": salt}

    def _check_same(self, offset: Offset, latest: int) -> None:
        """A checkpoint that was made with another journal in this place would skip or repeat what it must not."""
        sequence = offset["sequence"]
        if sequence > latest:
            raise BadOption(
                f"the checkpoint knows sequence {sequence}, but the journal {self._options.place} ends at {latest}: "
                f"{OTHER_JOURNAL}"
            )
        salt = self._journal().salt_at(sequence)
        if salt is not None and offset.get("salt", salt) != salt:
            raise BadOption(
                f"the checkpoint was made with another segment for sequence {sequence} than the journal "
                f"{self._options.place} has: {OTHER_JOURNAL}"
            )


class SparkTableReader(DataSourceReader):
    """A typed table once: what the lake and the journal have of it when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        reader = _open(options)
        _check_rights(options, reader)
        first = 1 if options.starting == "earliest" else _resolve(reader, "startingOffset", options.starting)
        stop = _ending(options, reader)
        return _table_shares(options, _scan(options, reader).plan(first, stop, options.partitions))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read_table(self._options, partition)


class SparkTableStreamReader(SparkJournalStreamReader):
    """A typed table as it grows. From the earliest on it begins with what is only in the lake."""

    def initialOffset(self) -> Offset:
        # At the first start; later it has the rights that it had.
        _check_rights(self._options, self._journal())
        if self._options.starting == "earliest":
            return self._offset(self._earliest() - 1)
        return super().initialOffset()

    def _shares(self, first: int, stop: int) -> Sequence[InputPartition]:
        parts = _parts(first, stop, self._options)
        skips_gap = self._options.on_expired == "earliest"
        try:
            shares = _scan(self._options, self._journal()).plan_range(first, stop, parts, skips_gap=skips_gap)
        except Expired as error:
            raise Expired(f"{error}, and the lake does not have it; {_SKIPPING}", error.earliest) from None
        return _table_shares(self._options, shares)

    def _earliest(self) -> int:
        return _scan(self._options, self._journal()).earliest()

    def _slices(self, partition: InputPartition) -> Sequence[Slice] | None:
        assert isinstance(partition, TableShare)
        return partition.share.slices if not partition.share.files else None

    def _read_here(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, TableShare)
        assert self._options.table is not None
        return projected(self._options.table, _scan(self._options, self._journal()).read(partition.share))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read_table(self._options, partition)


def _check_schema(schema: StructType, options: SourceOptions) -> None:
    """A caller may name columns by `.schema(…)`, and would get an error of Arrow's much later."""
    expected = EVENTS if options.table is None else table_schema(options.table)
    if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in expected]:
        whose = "the journal's columns" if options.table is None else f"the columns of {options.table.name}"
        raise BadOption(
            f"schema is {schema.simpleString()}; {whose} are {expected.simpleString()}: leave schema(…) "
            "out and select what you need"
        )


def _open(options: SourceOptions, token: str | None = None) -> AnyJournal:
    def report(damage: Damage) -> None:
        where = options.path if options.remote is None else options.remote.server
        _warn(f"damaged: {where}/{damage}")
        if options.reports is not None:
            reports.tell(options.reports, damage)

    if options.remote is not None:
        return RemoteJournal(options.remote, token, report)
    return JournalReader(options.path, report=report)


def _parts(first: int, stop: int, options: SourceOptions) -> int:
    return min(options.partitions, 1 + (stop - first - 1) // EVENTS_PER_PARTITION)


def _plan(
    reader: AnyJournal, first: int, stop: int, options: SourceOptions, selection: EventSelection
) -> list[JournalShare]:
    if first >= stop:
        return []
    parts = _parts(first, stop, options)
    try:
        shares = reader.plan(first, stop, parts, selection)
    except Expired as error:
        if options.on_expired == "stop":
            raise Expired(f"{error}; {_SKIPPING}", error.earliest) from None
        _warn(f"{error}; going on from there")
        shares = reader.plan(error.earliest, max(stop, error.earliest), parts, selection)
    token = None if options.remote is None else options.remote.current_token()
    return [JournalShare(slices, token) for slices in shares]


def _read(options: SourceOptions, selection: EventSelection, partition: InputPartition | None) -> Iterator[Any]:
    # Spark still makes one task of an empty plan, with None for its partition.
    if not isinstance(partition, JournalShare):
        return iter(())
    _check_shared(options)
    journal: Any = _open(options, partition.token)
    batches: Iterator[Any] = journal.read_slices(partition.slices, selection)
    return batches


def _check_shared(options: SourceOptions) -> None:
    if options.remote is None and not options.path.is_dir():
        raise PipelineError(
            f"option path is {options.path}; the driver sees that directory and this worker does not: a journal must "
            "be on a file system that all workers share, or be read from its server by option server"
        )


def _scan(options: SourceOptions, reader: AnyJournal) -> TableScan:
    assert options.table is not None
    path = options.path if options.remote is None else None
    return TableScan(path, options.lake, options.table.selection, reader=reader)


def _check_rights(options: SourceOptions, reader: AnyJournal) -> None:
    assert options.table is not None
    if isinstance(reader, RemoteJournal):
        reader.check_table(options.table.name, options.table.selection.entities)


def _table_shares(options: SourceOptions, shares: list[ScanShare]) -> list[TableShare]:
    token = None if options.remote is None else options.remote.current_token()
    return [TableShare(share, token) for share in shares]


def _read_table(options: SourceOptions, partition: InputPartition | None) -> Iterator[Any]:
    # As in `_read`: one task of an empty plan has None.
    if not isinstance(partition, TableShare):
        return iter(())
    _check_shared(options)
    assert options.table is not None
    return projected(options.table, _scan(options, _open(options, partition.token)).read(partition.share))


def _resolve(reader: AnyJournal, name: str, value: str) -> int:
    """The first sequence wanted."""
    if value == "earliest":
        return reader.earliest()
    if value == "latest":
        return reader.poll() + 1
    if not value.isdecimal():
        return reader.sequence_at(micros_of(name, value))
    if int(value) > reader.poll() + 1:
        raise BadOption(f"option {name} is {value}; the journal ends at {reader.poll()}")
    return int(value)


def _ending(options: SourceOptions, reader: AnyJournal) -> int:
    """The first sequence not wanted."""
    ending = options.ending
    if ending == "latest":
        return reader.poll() + 1
    if not ending.isdecimal():
        return reader.sequence_at(micros_of("endingOffset", ending))
    if int(ending) > reader.poll():
        raise BadOption(f"option endingOffset is {ending}; the journal ends at {reader.poll()}")
    return int(ending) + 1


def _literals(each: Filter) -> tuple[str, ...]:
    """What a column must be equal to; empty when the filter says something else."""
    if isinstance(each, EqualTo) and isinstance(each.value, str):
        return (each.value,)
    if isinstance(each, In) and all(isinstance(value, str) for value in each.value):
        return tuple(each.value)
    return ()


def _plain(value: str) -> bool:
    """Whether a literal can stand in a pattern as it is."""
    return not set("*?") & set(value)


def _highest(value: int, other: int | None) -> int:
    return value if other is None else max(value, other)


def _lowest(value: int, other: int | None) -> int:
    return value if other is None else min(value, other)


def _warn(text: str) -> None:
    """Tasks have no log but standard error, which Spark keeps with its own."""
    print(f"penstock source: {text}", file=sys.stderr, flush=True)
