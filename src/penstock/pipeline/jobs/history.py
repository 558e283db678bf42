"""The job `history`: every journaled event into the lake, once.

Each batch becomes Parquet files, written by the tasks and adopted by one Delta commit that says up to which sequence
the lake is complete. The next start goes on after that sequence: Spark's checkpoint is never trusted, and made anew.
Not here: what is in a file (`files`), in a commit (`lake`), between batches (`maintenance`).

Imports pyspark only to start: `penstock history maintain` has the same settings, and needs no Spark.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock import log
from penstock.history.lake_root import FOLDER
from penstock.journal.erasing import Crash
from penstock.pipeline.errors import BadOption
from penstock.pipeline.files import Written, write_task
from penstock.pipeline.lake import Lake, gap_refused, nowhere
from penstock.pipeline.maintenance import VACUUM_HOURS, maintain
from penstock.pipeline.place import Place
from penstock.pipeline.remote import JournalPlace, RemoteJournal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "history"

_log = log.get(__name__)

_WRITTEN = "path string, size bigint, bucket int, rows bigint, first bigint, last bigint, stats string"

# How often files that nobody needs are looked for, and rows past retention.
_UPKEEP_SECONDS = 600.0

# A job that has just ended lets go of the lake a moment later.
_PATIENCE_SECONDS = 3.0

# Times are counted in 64 bits; nobody means more than this.
_MOST_DAYS = 1_000_000


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[pipeline.jobs.history]`."""

    # The journal serves what the lake has not yet: waiting makes files larger and costs readers nothing.
    trigger: str = "10 seconds"
    # A batch has at most this many: larger ones are faster, and a batch is held in memory.
    max_events: int = 500_000
    # At most this many tasks read and write a batch.
    partitions: int = 2
    # More small files than this in a bucket are merged.
    max_small_files: int = 16
    # Events older than this are dropped from the lake; 0: never.
    max_age_days: float = 0
    # Versions of the table can be read for this long, because replaced files are kept.
    time_travel_hours: int = 24
    # The journal has dropped what the lake does not have: stop, or go on and record the gap in the lake's log.
    on_gap: Literal["stop", "go on"] = "stop"

    def __post_init__(self) -> None:
        for name, least in (
            ("max_events", 0),
            ("partitions", 1),
            ("max_small_files", 1),
            ("max_age_days", 0),
            ("time_travel_hours", VACUUM_HOURS),
        ):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        # Not a number is not at most anything.
        if not self.max_age_days <= _MOST_DAYS:
            raise ValueError(f"max_age_days is {self.max_age_days}; it must be at most {_MOST_DAYS}")


def start(
    spark: SparkSession,
    place: Place,
    settings: Settings,
    *,
    once: bool = False,
    crash: Crash = nowhere,
) -> StreamingQuery:
    """The query runs until it is stopped; with `once`, until the lake has what the journal holds now.

    Raises LakeInUse, OtherJournal, LakeGap, LakeFailed, BadOption. `crash` is called wherever a test may kill the
    process.
    """
    _check_journal(place)
    lake = Lake(place.lake)
    lake.lock(_PATIENCE_SECONDS)
    try:
        query = _start(spark, place, settings, lake, once, crash)
    except BaseException:
        lake.unlock()
        raise
    threading.Thread(target=_unlock_after, args=(query, lake), name="penstock-history-lock", daemon=True).start()
    return query


def _check_journal(place: Place) -> None:
    remote = place.remote_journal
    if remote is None:
        if not place.journal.is_dir():
            raise BadOption(f"there is no journal in {place.journal}; start the server with this data directory first")
        return
    if place.lake_root is None or place.lake_root == place.data_dir / FOLDER:
        raise BadOption(
            'pipeline.journal is "server", so the job history needs lake.url, a place that the server reaches as well'
        )
    if not RemoteJournal(remote).sees_all():
        # The journal drops what the lake says it has: all of it must have been read.
        raise BadOption(
            f"the job history reads all entities, and the token for the server {remote} is for some of them only; "
            'expected a reader with entities = ["*"]'
        )


def _start(
    spark: SparkSession, place: Place, settings: Settings, lake: Lake, once: bool, crash: Crash
) -> StreamingQuery:
    from penstock.pipeline.events import load

    journal: JournalPlace = place.remote_journal or place.journal
    lake.check_journal(journal)
    gap = lake.check_gap(journal)
    after = lake.sequence()
    # A new lake begins with what there is.
    if gap is not None and after and settings.on_gap == "stop":
        raise gap_refused(gap, place.lake, journal)
    if gap is not None:
        _log.warning("lake has a gap", lake=str(place.lake), first=gap.first, last=gap.last, reason=gap.why)
    shutil.rmtree(place.checkpoints(NAME), ignore_errors=True)
    # A folder of its own: the JVM of a killed driver lives some seconds longer, and may still write into its own.
    checkpoint = place.checkpoints(NAME) / uuid.uuid4().hex
    checkpoint.mkdir(parents=True)
    source = (
        spark.readStream.format("penstock")
        .option("partitions", settings.partitions)
        .option("maxEventsPerTrigger", settings.max_events)
        .option("onExpired", "stop" if settings.on_gap == "stop" else "earliest")
        .option("startingOffset", "earliest" if gap is not None or not after else str(after + 1))
        .option("damageReports", str(place.damage))
    )
    write = _Write(lake, journal, settings, crash)
    writer = (
        load(source, place)
        .writeStream.queryName(NAME)
        .foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
    )
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=settings.trigger)).start()


class _Write:
    """What happens to a batch. A class, not a closure: under Spark Connect it travels to the server."""

    def __init__(self, lake: Lake, journal: JournalPlace, settings: Settings, crash: Crash) -> None:
        self._lake = lake
        self._journal = journal
        self._settings = settings
        self._crash = crash
        self._upkeep_due = 0.0

    def __call__(self, batch: DataFrame, number: int) -> None:
        add(batch, number, self._lake, self._journal, self._crash)
        self._crash("between")
        upkeep = time.monotonic() >= self._upkeep_due
        maintain(
            self._lake,
            self._settings.max_small_files,
            self._settings.max_age_days,
            time_travel_hours=self._settings.time_travel_hours,
            upkeep=upkeep,
            crash=self._crash,
        )
        if upkeep:
            self._upkeep_due = time.monotonic() + _UPKEEP_SECONDS


def add(batch: DataFrame, number: int, lake: Lake, journal: JournalPlace, crash: Crash = nowhere) -> int:
    """One batch, from whichever query, streaming or not; returns how many events were new."""
    after = lake.sequence()
    rows: list[Any] = batch.mapInArrow(write_task(lake.root, after), _WRITTEN).collect()
    return lake.adopt(journal, after, [Written(*row) for row in rows], crash, batch=number)


def _unlock_after(query: StreamingQuery, lake: Lake) -> None:
    # Why it ended is told to whoever started it.
    with suppress(Exception):
        query.awaitTermination()
    lake.unlock()
