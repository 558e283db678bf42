"""Typed tables in Spark's catalog without the server's directory: examples of docs/sql.md and docs/cluster-spark.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.history.lake_url import LakeUrl
from penstock.journal.reader import JournalReader
from penstock.pipeline.errors import explain
from penstock.pipeline.files import write_task
from penstock.pipeline.lake import Lake
from penstock.pipeline.remote import EntitiesRefused
from tests.history.world import written
from tests.pipeline.test_lake_url_spark import drop
from tests.pipeline.world import NOON, SECOND
from tests.support.journal_server import TOKEN, JournalServer
from tests.support.lake_store import LIMITS, lake_in, options
from tests.support.object_store import SECRET, ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JVM, a server and an object store; the machine may have much other work.
pytestmark = pytest.mark.timeout(900)

DOCS = Path(__file__).parents[2] / "docs"
SQL, CLUSTER = (DOCS / "sql.md").read_text(), (DOCS / "cluster-spark.md").read_text()

NARROW = "a-token-for-alarms-alone"
READERS = f"""
[journal.readers.spark]
token = "{TOKEN}"
entities = ["*"]

[journal.readers.narrow]
token = "{NARROW}"
entities = ["PLANT/ALARMS/*"]
"""
TABLE = """
[pipeline.tables.readings]
adapter = "PLANT/READINGS"
item = "reading.{machine}"
fields = { celsius = "double" }
"""


def blocks(page: str, words: str) -> list[str]:
    found = re.findall(rf"^```{re.escape(words)}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found, words
    return found


def fill(server: JournalServer, first: int, count: int) -> None:
    server.append(
        [
            (f"PLANT/{adapter}/reading.{'ab'[n % 2]}", "update", f'{{"celsius": {n}}}', NOON + n * SECOND)
            for n in range(first, first + count)
            for adapter in ("READINGS", "ALARMS")
        ],
        frame=100,
    )


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture
def server(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JournalServer]:
    """600 readings, of which 500 are in the lake, and the oldest only there. The files of the page are in place."""
    monkeypatch.chdir(tmp_path)
    lake = lake_in(store)
    with JournalServer(tmp_path / "server", READERS, {"journal.segment_bytes": 65_536}) as running:
        fill(running, 0, 500)
        read = JournalReader(running.journal_path).read(1, 1_001)
        assert Lake(lake).adopt(running.journal_path, 0, written(write_task(lake, 0)(read))) == 1_000
        drop(running.data, 1_000)
        assert JournalReader(running.journal_path).earliest() > 1
        fill(running, 500, 100)
        (tmp_path / "pipeline.toml").write_text(configuration(running, lake, store))
        (tmp_path / "reader-token.txt").write_text(f"{TOKEN}\n")
        yield running


def configuration(server: JournalServer, lake: LakeUrl, store: ObjectStore) -> str:
    """That of the page, with what this machine has in place of its addresses."""
    (text,) = blocks(CLUSTER, "toml pipeline.toml")
    given = ", ".join(f'{name} = "{value}"' for name, value in {**options(store), **LIMITS}.items())
    text = text.replace("https://push.example.com:8081", server.api)
    text = re.sub(r"^url = .*\noptions = .*$", f'url = "{lake}"\noptions = {{ {given} }}', text, flags=re.MULTILINE)
    return text + TABLE


def test_the_examples_of_both_pages_have_all_rows(
    spark: SparkSession, server: JournalServer, capfd: pytest.CaptureFixture[str]
) -> None:
    spark.sql("DROP SCHEMA IF EXISTS plant CASCADE")
    hottest = {"a": 598.0, "b": 599.0}
    found: dict[str, Any] = {"spark": spark}
    over_network, arrow = blocks(SQL, "python network")
    (notebook,) = blocks(CLUSTER, "python notebook")
    for text in (over_network, notebook):
        spark.sql("DROP SCHEMA IF EXISTS plant CASCADE")
        found.pop("hottest", None)
        exec(compile(text.replace("https://push.example.com:8081", server.api), "a page", "exec"), found)
        assert {row.machine: row.celsius for row in found["hottest"].itertuples()} == hottest
    tables = {row.tableName for row in spark.sql("SHOW TABLES IN plant").collect() if not row.isTemporary}
    assert tables == {"alarms", "alarms_misfits", "readings", "readings_misfits"}
    # Each row once, and what is journaled until the next query.
    fill(server, 600, 10)
    counted = spark.sql("SELECT count(*) AS n, count(DISTINCT celsius) AS different FROM plant.readings").collect()
    assert counted[0].asDict() == {"n": 610, "different": 610}
    query = found["live"].writeStream.format("memory").queryName("readings_now").trigger(availableNow=True).start()
    query.awaitTermination()
    assert spark.sql("SELECT count(*) AS n FROM readings_now").collect()[0].n == 610
    exec(compile(arrow.replace("https://push.example.com:8081", server.api), "docs/sql.md", "exec"), found)
    assert found["readings"].column("celsius").to_pylist() == [float(n) for n in range(610)]
    # Neither token nor credentials are in what Spark shows.
    spark.table("plant.readings").explain(True)
    described = [str(row) for row in spark.sql("DESCRIBE TABLE EXTENDED plant.readings").collect()]
    shown = "".join([*described, *map(str, query.recentProgress), capfd.readouterr().out])
    assert "readings" in shown
    assert TOKEN not in shown
    assert SECRET not in shown


def test_a_token_for_some_tables_registers_these_and_one_that_is_taken_away_is_told(
    spark: SparkSession, server: JournalServer, tmp_path: Path
) -> None:
    from penstock.pipeline import register_tables

    spark.sql("DROP SCHEMA IF EXISTS plant CASCADE")
    given = {"server": server.api, "config": "pipeline.toml"}
    assert register_tables(spark, **given, token=NARROW) == ["plant.alarms", "plant.alarms_misfits"]
    assert spark.table("plant.alarms").count() == 600
    with pytest.raises(EntitiesRefused, match=r"^the table plant.readings needs the token of a reader with entities"):
        register_tables(spark, **given, token=NARROW, names=["plant.readings"])
    file = tmp_path / "reader-token.txt"
    assert register_tables(spark, **given, token_file=file, names=["plant.readings"])[0] == "plant.readings"
    assert spark.table("plant.readings").count() == 600
    file.write_text(NARROW)
    with pytest.raises(Exception, match="refused the token") as refused:
        spark.table("plant.readings").count()
    assert explain(refused.value).startswith("the table plant.readings needs the token of a reader with entities = [")
    assert NARROW not in str(refused.value)
