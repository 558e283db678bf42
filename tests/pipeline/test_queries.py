"""`[pipeline.queries.NAME]` and `penstock sql` as far as they go without Spark: names, files, adapters, durations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.config import load
from penstock.pipeline.errors import BadOption
from penstock.pipeline.place import Place
from penstock.pipeline.queries import LiveQuery, live_query, start
from tests.pipeline.world import make_journal

# `penstock config check` sets the log up, for the whole process.
pytestmark = pytest.mark.usefixtures("root_logger")

PLANT = """
[demo]
enabled = false
[adapters.PLANT.data.OUT]
adapter = "ingest"
parameters = { items = { "heat.*" = "DISTINCT", "all" = "COMMAND" }, tokens = ["a-token-of-more-than-16-characters"] }
[adapters.PLANT.data.OUT.journal]
items = ["*"]
policy = "ack"
[adapters.PLANT.data.LOST]
adapter = "ingest"
parameters = { items = { "heat.*" = "DISTINCT" }, tokens = ["a-token-of-more-than-16-characters"] }
"""
HEAT = """
[pipeline.queries.heat]
sql = "SELECT machine, celsius FROM plant.readings"
item = "heat.{machine}"
mode = "DISTINCT"
"""


def query(tmp_path: Path, text: str, name: str = "heat") -> LiveQuery:
    path = tmp_path / "penstock.toml"
    path.write_text(PLANT + text)
    return live_query(load(path, {}).config, name)


def test_rows_go_to_the_only_adapter_that_declares_such_items(tmp_path: Path) -> None:
    found = query(tmp_path, HEAT)
    assert (found.adapter_set, found.adapter) == ("PLANT", "OUT")


def test_a_query_that_cannot_see_the_lake_is_refused(tmp_path: Path) -> None:
    found = query(tmp_path, HEAT)
    place = Place(tmp_path, "http://127.0.0.1", remote=True)
    with pytest.raises(BadOption, match=r"^pipeline.queries.heat needs lake.url of the configuration, because"):
        start(cast(SparkSession, None), place, found)


def test_the_sql_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "heat.sql").write_text("SELECT 1")
    text = f'[pipeline.queries.heat]\nfile = "{tmp_path}/heat.sql"\nitem = "heat.x"\nmode = "DISTINCT"\n'
    assert query(tmp_path, text).sql == "SELECT 1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('file = "x.sql"', "pipeline.queries.heat: expected exactly one of sql and file"),
        ('to = "PLANT/NONE"', "pipeline.queries.heat.to = 'PLANT/NONE': expected an ingest adapter; there is none of"),
        ('to = "PLANT/LOST"', "expected an adapter that is journaled; set adapters.PLANT.data.LOST.journal.items"),
        (
            'watermark = "soon"',
            "pipeline.queries.heat.watermark = 'soon': expected a duration such as \"10 minutes\", or",
        ),
        ('trigger = "never"', "pipeline.queries.heat.trigger = 'never': expected a duration such as \"10 seconds\""),
        ('starting = "noon"', "pipeline.queries.heat: option starting is 'noon'; allowed: "),
        ('key = "machine"', "pipeline.queries.heat: key is 'machine'; only mode COMMAND has keys and commands"),
    ],
)
def test_what_is_wrong_with_a_query_is_told_in_one_sentence(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(BadOption) as caught:
        query(tmp_path, HEAT + change + "\n")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEAT.replace("heat.{machine}", "cold.{machine}"),
            "because no journaled ingest adapter declares 'cold.{machine}'",
        ),
        (
            HEAT.replace('"DISTINCT"', '"MERGE"'),
            "because no journaled ingest adapter declares 'heat.{machine}' as MERGE",
        ),
        (HEAT.replace("heat.{machine}", "all").replace("DISTINCT", "COMMAND"), "key is missing; mode COMMAND needs"),
        (
            HEAT.replace('sql = "SELECT machine, celsius FROM plant.readings"', 'file = "none.sql"'),
            "a readable file (No",
        ),
    ],
)
def test_a_query_that_nobody_can_publish_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadOption) as caught:
        query(tmp_path, text)
    assert message in str(caught.value)


def test_two_adapters_that_declare_the_items_are_named(tmp_path: Path) -> None:
    text = '[adapters.PLANT.data.LOST.journal]\nitems = ["*"]\n' + HEAT
    with pytest.raises(BadOption, match=r"not exactly one .* as DISTINCT: PLANT/OUT and PLANT/LOST do$"):
        query(tmp_path, text)


def test_a_query_cannot_have_the_name_of_a_job(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"^pipeline.queries.candles: expected another name, because a job has it$"):
        query(tmp_path, HEAT.replace("queries.heat", "queries.candles"), "candles")


# -- on the command line ----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_queries_are_listed_with_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(PLANT + HEAT)
    done = run("pipeline", "list", "--config", "penstock.toml")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "heat     SQL: SELECT machine, celsius FROM plant.readings"
    done = run("pipeline", "run", "warmth", "--config", "penstock.toml")
    assert (done.exit_code, done.stderr) == (
        2,
        "penstock: NAME = warmth: expected history, candles, movers, traffic, heat\n",
    )


def test_tables_are_shown_without_spark(tmp_path: Path) -> None:
    make_journal(tmp_path / "penstock-data" / "journal", [("PLANT/READINGS/a", "update", '{"celsius":"1.5","x":"y"}')])
    (tmp_path / "penstock.toml").write_text("[demo]\nenabled = false\n")
    done = run("sql", "--tables", "--config", "penstock.toml")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "plant.readings  PLANT/READINGS/* (types inferred)"
    assert "    celsius double" in done.stdout.splitlines()
    (line,) = run("sql", "--tables", "--json", "--config", "penstock.toml").stdout.splitlines()
    assert json.loads(line)["columns"]["x"] == "string"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected a query, or --file with one"),
        (("SELECT 1", "--file", "x"), "expected a query, or --file with one"),
        (("--file", "none.sql"), "--file = none.sql: expected a readable file (No such file or directory)"),
        (("SELECT 1", "--to", "PLANT"), "--to = PLANT: expected SET/ADAPTER"),
        (("SELECT 1", "--to", "PLANT/OUT"), "--to and --item: expected both or none of them"),
        (("SELECT 1", "--live", "--watermark", "x"), "--watermark = 'x': expected a duration such as"),
        (("SELECT 1", "--live", "--master", "sc://x"), "--live: rows can only be shown with a Spark of this process"),
        (("SELECT 1", "--data-dir", "none"), "there is no journal in "),
    ],
)
def test_a_wrong_command_line_is_told_before_spark_starts(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    make_journal(tmp_path / "penstock-data" / "journal", [("PLANT/READINGS/a", "update", "{}")])
    done = run("sql", *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"penstock: {message}")
    assert done.stderr.count("\n") == 1


def test_config_check_refuses_a_table_and_a_query_that_make_no_sense(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(PLANT + '[pipeline.tables.t]\nadapter = "PLANT/OUT"\nfields = { a = "duble" }\n')
    done = run("config", "check", "--config", str(path))
    assert done.exit_code == 2
    assert "pipeline.tables.t.fields.a = 'duble': expected string" in done.stderr
    path.write_text(PLANT + HEAT.replace("heat.{machine}", "cold"))
    done = run("config", "check", "--config", str(path))
    assert done.exit_code == 2
    assert "no journaled ingest adapter declares 'cold' as DISTINCT" in done.stderr
