"""Spark jobs with the lake in an object store: written by tasks, read by tables, a backfill and the history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import history
from penstock.config import load
from penstock.history.reader import History
from penstock.journal.disk import DirectoryDisk
from penstock.journal.recovery import bases
from penstock.journal.retention import Retention, drop_expired
from penstock.pipeline.errors import BadOption
from penstock.pipeline.lake import Lake
from penstock.pipeline.place import Place
from penstock.pipeline.remote import RemoteError
from tests.history.world import rows, whole_lake
from tests.pipeline.world import NOON, SECOND, held, some
from tests.support.journal_server import NARROW_TOKEN, TOKEN, JournalServer
from tests.support.lake_store import LIMITS, lake_in, options
from tests.support.object_store import SECRET, ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JVM, a server and an object store; the machine may have much other work.
pytestmark = pytest.mark.timeout(900)

TABLE = '[pipeline.tables.readings]\nadapter = "PLANT/READINGS"\nitem = "r.{machine}"\nfields = { n = "bigint" }\n'
ASKED = "SELECT machine, count(*) AS events, sum(n) AS total FROM plant.readings GROUP BY machine ORDER BY machine"

READINGS = """
[adapters.PLANT.data.READINGS]
adapter = "ingest"
parameters = { items = { "r.*" = "MERGE" }, tokens = ["a-token-of-more-than-16-characters"] }
[adapters.PLANT.data.READINGS.journal]
items = ["*"]
"""


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


def reading(n: int) -> tuple[str, str, str, int]:
    return f"PLANT/READINGS/r.{'ab'[n % 2]}", "update", json.dumps({"n": n}), NOON + n * SECOND


def drop(data: Path, sequence: int) -> None:
    """All sealed segments that the lake has."""
    disk = DirectoryDisk(data / "journal")
    assert drop_expired(disk, Retention(max_bytes=0), sequence, 0, bases(disk)[-1])


def remote(server: JournalServer, lake: Any, own: Path, token: str = TOKEN) -> Place:
    return Place(own, server.api, remote=True, reader_token=token, lake_root=lake)


def test_history_tables_and_a_backfill_need_no_disk_of_the_server(
    spark: SparkSession, store: ObjectStore, tmp_path: Path
) -> None:
    from penstock.pipeline.backfill import past_events
    from penstock.pipeline.jobs import history as job
    from penstock.pipeline.queries import catalog_of
    from penstock.pipeline.streaming_sql import SqlQuery, past

    lake = lake_in(store)
    given = ", ".join(f'{name} = "{value}"' for name, value in {**options(store), **LIMITS}.items())
    configuration = tmp_path / "pipeline.toml"
    configuration.write_text(f'[lake]\nurl = "{lake}"\noptions = {{ {given} }}\n{TABLE}')
    config = load(configuration, {"server.data_dir": str(tmp_path / "own")}).config
    with JournalServer(tmp_path / "server", overrides={"journal.segment_bytes": 65_536}) as server:
        place = remote(server, lake, tmp_path / "own")
        server.append([reading(n) for n in range(3_000)], frame=500)
        job.start(spark, place, job.Settings(max_events=1_000), once=True).awaitTermination()
        server.append([reading(n) for n in range(3_000, 3_500)], frame=500)
        # Once with the seam in the journal, once with all that the lake has dropped from it.
        for dropped in (False, True):
            if dropped:
                drop(server.data, Lake(lake).sequence())
            query = SqlQuery(ASKED, catalog_of(config, place.data_dir, place), "sql")
            answer = query.dataframe(spark, past(spark, place)).toArrow().to_pylist()
            assert answer == [
                {"machine": "a", "events": 1_750, "total": sum(range(0, 3_500, 2))},
                {"machine": "b", "events": 1_750, "total": sum(range(1, 3_500, 2))},
            ]
        job.start(spark, place, job.Settings(), once=True).awaitTermination()
        # The next one writes nothing twice.
        job.start(spark, place, job.Settings(), once=True).awaitTermination()
        assert [event.sequence for event in whole_lake(Lake(lake))] == list(range(1, 3_501))
        # Without Spark: the server's history, and DuckDB's way.
        found = history.table("plant.readings", server.data, config=configuration)
        assert found.column("n").to_pylist() == list(range(3_500))
        assert len(list(History(server.journal_path, lake).events("PLANT/READINGS/r.b"))) == 1_750
    # A backfill is beside the server.
    begin, end = (datetime.fromtimestamp((NOON + n * SECOND) / 1e6, UTC) for n in (100, 3_400))
    beside = Place(server.data, "http://127.0.0.1:1", lake_root=lake)
    events = past_events(spark, beside, ["PLANT/*"], ("update",), begin, end).toArrow()
    assert sorted(events.column("sequence").to_pylist()) == list(range(101, 3_401))


def test_a_token_for_some_entities_does_not_make_a_lake(
    spark: SparkSession, store: ObjectStore, tmp_path: Path
) -> None:
    from penstock.pipeline.jobs import history as job

    with JournalServer(tmp_path / "server") as server:
        server.append(some(20))
        with pytest.raises(BadOption) as narrow:
            job.start(spark, remote(server, lake_in(store), tmp_path / "own", NARROW_TOKEN), job.Settings(), once=True)
        assert str(narrow.value) == (
            f"the job history reads all entities, and the token for the server {server.api} is for some of them only; "
            'expected a reader with entities = ["*"]'
        )
        with pytest.raises(RemoteError, match="refused the token"):
            job.start(spark, remote(server, lake_in(store), tmp_path / "own", "x" * 20), job.Settings(), once=True)
        with pytest.raises(BadOption, match=r"^pipeline.journal is \"server\", so the job history needs lake.url"):
            job.start(spark, remote(server, None, tmp_path / "own"), job.Settings(), once=True)
        assert len(rows(held(server.journal_path))) == 20


@pytest.mark.parametrize(
    ("declared", "entities"),
    [
        (TABLE, "OTHER/*"),
        # What is only in the lake would be there of all entities, what is only in the journal of one.
        (TABLE, "PLANT/READINGS/r.1"),
        ("", "OTHER/*"),
    ],
    ids=["declared", "partly", "inferred"],
)
def test_a_table_that_the_token_is_not_for_any_more_is_refused_in_one_sentence(
    spark: SparkSession, store: ObjectStore, tmp_path: Path, declared: str, entities: str
) -> None:
    """Whoever asks for the table by its name is refused before (`test_remote_tables`)."""
    from penstock.pipeline.errors import explain
    from penstock.pipeline.queries import catalog_of
    from penstock.pipeline.streaming_sql import live, past

    configuration = tmp_path / "pipeline.toml"
    configuration.write_text(f"{declared}{READINGS}")
    lake = lake_in(store)
    config = load(configuration, {"server.data_dir": str(tmp_path / "own")}).config
    readers = "".join(
        f'[journal.readers.{name}]\ntoken = "{token}"\nentities = ["{each}"]\n'
        for name, token, each in (("all", TOKEN, "*"), ("other", NARROW_TOKEN, entities))
    )
    with JournalServer(tmp_path / "server", readers) as server:
        server.append([reading(n) for n in range(20)])
        table = catalog_of(config, tmp_path / "own", remote(server, lake, tmp_path / "own")).table("plant.readings")
        place = remote(server, lake, tmp_path / "own", NARROW_TOKEN)

        def once() -> None:
            past(spark, place)(table).collect()

        def as_it_grows() -> None:
            rows = live(spark, place)(table).writeStream.format("noop")
            rows.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

        for ask in (once, as_it_grows):
            with pytest.raises(Exception, match="refused the token") as refused:
                ask()
            told = explain(refused.value)
            assert told.startswith("the table plant.readings needs the token of a reader with entities = [")
            assert told.endswith(f"; its entities are {entities}")
            assert NARROW_TOKEN not in str(refused.value)


def test_a_store_that_is_away_ends_a_batch_in_one_sentence_and_the_next_start_goes_on(
    spark: SparkSession, store: ObjectStore, tmp_path: Path
) -> None:
    from penstock.pipeline.errors import explain
    from penstock.pipeline.jobs import history as job

    lake = lake_in(store)
    with JournalServer(tmp_path / "server") as server:
        server.append(some(2_000))
        place = remote(server, lake, tmp_path / "own")
        Lake(lake)
        for method in ("PUT", "POST"):
            store.fail(method, "503", 1_000, path=".parquet")
        query = job.start(spark, place, job.Settings(max_events=500), once=True)
        with pytest.raises(Exception, match=r"503") as failed:
            query.awaitTermination()
        told = explain(failed.value)
        assert told == (
            f"the lake in {lake} cannot be written: the object store answered 503 Service Unavailable; nothing of "
            "this batch is in it"
        )
        assert SECRET not in str(failed.value)
        store.forget()
        job.start(spark, place, job.Settings(max_events=500), once=True).awaitTermination()
        assert whole_lake(Lake(lake)) == rows(held(server.journal_path))
