"""`penstock sql` as people call it, and `penstock config check` of queries: with Spark, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.history.world import NOON, SECOND, World
from tests.pipeline.sink_server import TOKEN, SinkServer
from tests.support.command import PENSTOCK

# Seconds for Spark to start and to answer, on a machine with other work.
PATIENCE = 240.0

pytestmark = [pytest.mark.spark, pytest.mark.spark_long, pytest.mark.timeout(2 * PATIENCE)]

CONFIG = """
[demo]
enabled = false
[server]
data_dir = "data"
[adapters.PLANT.data.HEAT]
adapter = "ingest"
parameters = { items = { "heat.*" = "MERGE" }, tokens = ["a-token-of-more-than-16-characters"] }
[adapters.PLANT.data.HEAT.journal]
items = ["*"]
[pipeline.tables.readings]
adapter = "PLANT/READINGS"
item = "r.{machine}"
fields = { celsius = "double" }
[pipeline.queries.heat]
sql = "SELECT machine, celsius FROM plant.readings"
item = "heat.{machine}"
"""


def append(world: World, *values: tuple[str, str]) -> None:
    first = len(world.events)
    world.append(
        [
            (f"PLANT/READINGS/r.{machine}", NOON + (first + n) * SECOND, json.dumps({"celsius": celsius}))
            for n, (machine, celsius) in enumerate(values)
        ]
    )


def penstock(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(PENSTOCK), *arguments, "--config", "penstock.toml"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_a_query_is_answered_once_and_live(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(CONFIG)
    with closing(World(tmp_path / "data")) as world:
        append(world, ("a", "1.5"), ("b", "2"), ("a", "hot"))
        world.move(stop=3)
        query = "SELECT machine, count(celsius) AS n FROM plant.readings GROUP BY machine"
        done = penstock(tmp_path, "sql", f"{query} ORDER BY machine")
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "machine  n\na        1\nb        1\n")
        live = subprocess.Popen(
            [str(PENSTOCK), "sql", query, "--live", "--json", "--watermark", "never", "--config", "penstock.toml"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert live.stdout is not None
            rows = [json.loads(live.stdout.readline()) for _ in range(2)]
            assert sorted(row["machine"] for row in rows) == ["a", "b"]
            append(world, ("b", "3"))
            assert json.loads(live.stdout.readline()) == {"machine": "b", "n": 2}
            os.killpg(live.pid, signal.SIGINT)
            assert (*live.communicate(timeout=PATIENCE), live.returncode) == ("", "", 0)
        finally:
            if live.poll() is None:
                os.killpg(live.pid, signal.SIGKILL)
    # Nothing of a query that nobody will continue is left.
    assert not list((tmp_path / "data" / "pipeline").glob("sql-*"))


def test_rows_are_published_once_or_as_they_change(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(f'{CONFIG}[pipeline]\ntoken = "{TOKEN}"\n')
    query = "SELECT machine, celsius FROM plant.readings WHERE celsius > 1"
    with closing(World(tmp_path / "data")) as world, SinkServer() as sink:
        to = ("--to", "SET/OUT", "--item", "r.{machine}", "--mode", "DISTINCT", "--api", sink.url)

        def published() -> list[tuple[str, str]]:
            return sorted((row["item"], row["celsius"]) for row in sink.rows())

        append(world, ("a", "1.5"), ("b", "2"), ("c", "0"))
        done = penstock(tmp_path, "sql", query, *to)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "penstock: 2 rows published\n")
        once = published()
        assert [item for item, _ in once] == ["r.a", "r.b"]
        live = subprocess.Popen(
            [str(PENSTOCK), "sql", query, "--live", *to, "--config", "penstock.toml"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert live.stdout is not None
            assert live.stdout.readline() == "penstock: publishing to SET/OUT; Ctrl-C ends it\n"
            append(world, ("d", "3"))
            deadline = time.monotonic() + PATIENCE
            while len(published()) < 2 * len(once) + 1:
                assert time.monotonic() < deadline, published()
                threading.Event().wait(0.05)
            assert [item for item, _ in published()] == ["r.a", "r.a", "r.b", "r.b", "r.d"]
            os.killpg(live.pid, signal.SIGINT)
            assert (*live.communicate(timeout=PATIENCE), live.returncode) == ("", "", 0)
        finally:
            if live.poll() is None:
                os.killpg(live.pid, signal.SIGKILL)


def test_a_token_that_is_missing_is_told_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(CONFIG)
    with closing(World(tmp_path / "data")) as world, SinkServer() as sink:
        append(world, ("a", "1.5"))
        done = penstock(tmp_path, "sql", "SELECT 1", "--to", "SET/OUT", "--item", "r", "--api", sink.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "answered 401: " in done.stderr
    missing = tmp_path / "data" / "pipeline" / "token"
    assert done.stderr.endswith(f"; there is no token in {missing}: set pipeline.token or pipeline.token_file\n")


def test_sql_that_is_wrong_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(CONFIG)
    with closing(World(tmp_path / "data")) as world:
        append(world, ("a", "1.5"))
    done = penstock(tmp_path, "sql", "SELECT celcius FROM plant.readings")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("penstock: sql: A column, variable, or function parameter with name `celcius` cannot")
    assert done.stderr.count("\n") == 1
    # Each would be in the place of the other: rows have names.
    twice = "SELECT a.celsius, b.celsius FROM plant.readings a JOIN plant.readings b ON a.machine = b.machine"
    done = penstock(tmp_path, "sql", twice)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "penstock: sql: 2 columns of the result are called celsius; use AS\n"
    # An answer, and no stream.
    done = penstock(tmp_path, "sql", "SELECT celsius FROM plant.readings LIMIT 3", "--live")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('penstock: sql: LIMIT needs output_mode = "append", ')
    assert done.stderr.count("\n") == 1
    # Known only when it is run.
    done = penstock(tmp_path, "sql", "SELECT cast(machine AS int) FROM plant.readings")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith('penstock: sql: The value \'a\' of the type "STRING" cannot be cast to "INT"')
    assert done.stderr.count("\n") == 1


def test_config_check_lets_spark_look_at_the_sql(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(CONFIG)
    done = penstock(tmp_path, "config", "check")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "penstock: penstock.toml: ok\n")
    twice = "SELECT max(n) AS machine FROM (SELECT count(*) AS n FROM plant.readings GROUP BY machine)"
    config = CONFIG.replace("SELECT machine, celsius FROM plant.readings", twice) + 'watermark = "never"\n'
    (tmp_path / "penstock.toml").write_text(config)
    done = penstock(tmp_path, "config", "check")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pipeline.queries.heat: rows that were grouped or deduplicated can be grouped, joined or " in done.stderr
    assert done.stderr.count("\n") == 1
    # Who knows better tells Spark so.
    setting = "spark.sql.streaming.statefulOperator.checkCorrectness.enabled"
    (tmp_path / "penstock.toml").write_text(f'{config}[pipeline.spark]\n"{setting}" = false\n')
    assert penstock(tmp_path, "config", "check").returncode == 0
    (tmp_path / "penstock.toml").write_text(CONFIG.replace("celsius FROM", "celsius FORM"))
    done = penstock(tmp_path, "config", "check")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pipeline.queries.heat: it cannot be parsed: Syntax error at or near " in done.stderr
    assert done.stderr.count("\n") == 1
