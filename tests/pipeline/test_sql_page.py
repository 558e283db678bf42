"""docs/sql.md: its commands, tables, queries and code are run, and its tables of options and keys are complete."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from penstock.cli import app
from penstock.config import load
from penstock.config.schema.pipeline import QuerySection, TableSection
from penstock.history.typed_table import RESERVED
from penstock.pipeline.place import Place
from tests.history.world import World
from tests.pipeline.sink_server import TOKEN, SinkServer
from tests.support.broker_process import free_ports
from tests.support.command import PENSTOCK, Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Seconds for a command that starts Spark, on a machine with other work.
PATIENCE = 240.0

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sql.md").read_text()


def blocks(language: str) -> list[tuple[str, str]]:
    """The words behind the language of each block, and its text."""
    return re.findall(rf"^```{language}([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def cells(title: str) -> list[list[str]]:
    """The rows of the tables from a heading to the next, without heads."""
    text = PAGE.partition(f"{title}\n")[2].partition("\n#")[0]
    found = []
    for table in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        found += [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    return found


def names(title: str) -> list[str]:
    return [name for row in cells(title) for name in re.findall(r"`([^`]+)`", row[0])]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The plant of the page: readings, half of them in the lake, and one that is no number."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token.txt").write_text(f"{TOKEN}-and-more\n")
    (tmp_path / "penstock.toml").write_text("\n".join(text for words, text in blocks("toml") if words.strip()))
    world = World(tmp_path / "penstock-data")
    with closing(world):
        ((_, readings),) = blocks("json")
        for reading in map(json.loads, readings.splitlines()):
            micros = int(datetime.fromisoformat(reading["fields"]["time"]).timestamp() * 1e6)
            world.append([(f"PLANT/READINGS/{reading['item']}", micros, json.dumps(reading["fields"]))])
        world.move(stop=7)
        yield tmp_path


def test_the_page_has_every_key_of_a_table_and_of_a_query() -> None:
    assert [row[0].strip("`") for row in cells("### Types")[1:]] == list(TableSection.__struct_fields__)
    told = names("## SQL in, live items out")
    assert sorted(told) == sorted(QuerySection.__struct_fields__)
    defaults = {row[0]: row[1] for row in cells("## SQL in, live items out")}
    for name in ("mode", "output_mode", "trigger", "starting", "max_events"):
        value = getattr(QuerySection(item="x"), name)
        assert defaults[f"`{name}`"] == f"`{json.dumps(value)}`"


def test_the_page_has_every_column_that_all_tables_have_and_every_option_of_the_command() -> None:
    assert set(names("## Tables")) == RESERVED
    group: Any = get_command(app)
    command: Any = group.commands["sql"]
    options = {name for each in command.params for name in each.opts if name.startswith("-")}
    assert set(names("## Ask once")) == options - {"--help"}


def test_the_files_of_the_page_are_a_configuration(plant: Path) -> None:
    assert list(tomllib.loads((plant / "penstock.toml").read_text())["pipeline"]["queries"]) == ["heat"]
    from penstock.pipeline.queries import live_query

    query = live_query(load(plant / "penstock.toml", {}).config, "heat")
    assert (query.adapter_set, query.adapter) == ("PLANT", "HEAT")


def test_the_queries_of_the_page_give_what_it_says(spark: SparkSession, plant: Path) -> None:
    from penstock.pipeline.queries import catalog_of
    from penstock.pipeline.sql_command import as_text
    from penstock.pipeline.streaming_sql import SqlQuery, past

    catalog = catalog_of(load(plant / "penstock.toml", {}).config, plant / "penstock-data")
    shown = re.findall(r"^```sql\n(.*?)^```\n+```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(shown) == len(blocks("sql")) == 2
    for sql, text in shown:
        df = SqlQuery(sql, catalog, "sql").dataframe(spark, past(spark, Place(plant / "penstock-data", "")))
        assert list(as_text(df.columns, df.toArrow().to_pylist())) == text.splitlines()


def test_the_live_query_of_the_page_publishes_what_it_says(spark: SparkSession, plant: Path) -> None:
    from penstock.pipeline.queries import LiveQuery, live_query, start

    config = load(plant / "penstock.toml", {}).config
    query = live_query(config, "heat")
    # The server of the tests has one adapter.
    there = LiveQuery("heat", query.sql, query.section, "SET", "OUT", config)
    with SinkServer() as sink:
        start(spark, Place(plant / "penstock-data", sink.url, TOKEN), there, once=True).awaitTermination()
        rows = sink.rows()
    ((_, text),) = [block for block in blocks("text") if block[0].strip() == "heat.lathe"]
    lathe = [row for row in rows if row["item"] == "heat.lathe"]
    told = [f"minute={row['minute']:%Y-%m-%dT%H:%M:%S}.000Z celsius={row['celsius']}" for row in lathe]
    assert told == text.splitlines()


def test_the_code_of_the_page_runs(spark: SparkSession, plant: Path) -> None:
    found: dict[str, Any] = {"spark": spark}
    code = [text for words, text in blocks("python") if words.strip() in ("", "spark")]
    assert len(code) == 2
    for text in code:
        exec(compile(text, "docs/sql.md", "exec"), found)
    assert found["readings"].num_rows == 13
    assert {row.machine: row.celsius for row in found["hottest"].itertuples()} == {"lathe": 72.0, "press": 65.5}
    assert found["live"].isStreaming


# -- the commands of the page, as they stand there ---------------------------------------------------------------------


def commands(name: str = "") -> list[str]:
    """Those that are typed one after another; or the one that goes on in a terminal of its own."""
    return [text for words, text in blocks("sh") if words.strip() == name]


PUBLISH, TABLES, ASK, CHECK, WATCH = commands()


def answer(command: str) -> str:
    """What the page shows below a command; for the one with SQL, below the same SQL."""
    found = re.search(
        rf"```sh\n{re.escape(command)}```(?:\n\n```sql\n.*?```)?\n\n```text\n(.*?)^```$", PAGE, re.M | re.S
    )
    assert found is not None, command
    return found[1]


def typed(command: str) -> str:
    """What is printed."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with the files of the page, in which the server runs and the readings are published."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{PENSTOCK.parent}{os.pathsep}{os.environ['PATH']}")
    for language in ("text", "json"):
        for words, text in blocks(language):
            if words.strip() in ("token.txt", "readings.jsonl"):
                (tmp_path / words.strip()).write_text(text)
    # The ports of the page may be taken; what would ask there is told by a context.
    stream, api = free_ports(2)
    ports = f"[stream]\nport = {stream}\n[api]\nport = {api}\n"
    (tmp_path / "penstock.toml").write_text("\n".join([ports, *(text for words, text in blocks("toml") if words)]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    typed(f"penstock context add plant http://127.0.0.1:{stream} --api http://127.0.0.1:{api}")
    (serve,) = commands("server")
    with Command(tmp_path, *shlex.split(serve)[1:]) as server:
        assert server.line().startswith("penstock: ready ")
        assert typed(PUBLISH) == ""
        yield tmp_path
        assert server.stop() == (0, "")


@pytest.mark.timeout(PATIENCE)
def test_readings_are_published_and_their_table_is_listed(reader: Path) -> None:
    listed = typed(TABLES).splitlines()
    assert "plant.readings  PLANT/READINGS/reading.{machine}" in listed
    columns = {f"    {row[0].strip('`')} {row[1]}" for row in cells("## Tables") if len(row) == 3}
    assert len(columns) == len(RESERVED)
    assert columns < set(listed)


@pytest.mark.spark_long
@pytest.mark.timeout(5 * PATIENCE)
def test_the_commands_that_start_spark_do_what_the_page_says(reader: Path) -> None:
    assert typed(ASK) == answer(ASK)
    assert typed(CHECK) == answer(CHECK)
    (run,) = commands("pipeline")
    with Command(reader, *shlex.split(run)[1:]) as pipeline:
        seen = typed(WATCH)
        shown = [" ".join(line.split()[2:]) for line in seen.splitlines()]
        assert shown == next(text for words, text in blocks("text") if words.strip() == "heat.lathe").splitlines()
        code, _ = pipeline.stop(signal.SIGINT)
        assert code == 0, pipeline.errors
