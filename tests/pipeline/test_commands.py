"""`penstock pipeline …` and `penstock history …` as people and scripts call them; nothing here starts a JVM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.journal.journal import Journal, Policy
from penstock.journal.record import Columns
from penstock.pipeline.commands import JobPlan, in_order, replace_after
from penstock.pipeline.jobs import JOBS
from penstock.pipeline.status import QueryStatus, held, write
from tests.support.command import PENSTOCK
from tests.support.process import ServerProcess
from tests.support.raw import Exchange

PATIENCE = 10.0


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    """The command in this process, which is much quicker than in one of its own."""
    return CliRunner().invoke(app, arguments)


class Written:
    """A journal that is being written."""

    def __init__(self, data_dir: Path) -> None:
        self.journal = Journal(data_dir / "journal")

    def append(self, *entries: tuple[str, int, str | None]) -> None:
        columns = Columns()
        for entity, second, value in entries:
            columns.add(entity, second * 1_000_000, "update", "", value)
        done = self.journal.append(columns, Policy.ACK).done
        assert done is not None
        done.result(PATIENCE)


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    written = Written(tmp_path / "penstock-data")
    with closing(written.journal):
        written.append(
            ("WELCOME/STOCKS/item1", 1_000, '{"last_price":"3.04"}'),
            ("WELCOME/STOCKS/item2", 1_001, '{"last_price":"7"}'),
            ("DEMO/CHAT/room", 1_002, "no JSON\nbut text"),
            ("WELCOME/STOCKS/item1", 1_003, None),
        )
        yield written


# -- list and status --------------------------------------------------------------------------------------------------


def test_list_names_every_job(tmp_path: Path) -> None:
    done = run("pipeline", "list")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["history", "candles", "movers", "traffic"]


def test_list_as_json_is_for_scripts(tmp_path: Path) -> None:
    jobs = json.loads(run("pipeline", "list", "--json").stdout)
    assert jobs == [{"name": job.name, "about": job.about} for job in JOBS.values()]


def test_commands_that_do_not_need_spark_do_not_import_it(tmp_path: Path) -> None:
    script = "import sys; from penstock.cli import app; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False).returncode == 0


def test_status_says_when_nothing_has_run(tmp_path: Path) -> None:
    (tmp_path / "penstock-data").mkdir()
    done = run("pipeline", "status")
    assert done.exit_code == 0
    assert done.stdout == f"penstock: no query has run in {tmp_path / 'penstock-data'} yet\n"


def test_status_of_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run("pipeline", "status", "--data-dir", "penstok-data", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    missing = tmp_path / "penstok-data"
    assert done.stderr == f"penstock: there is no directory {missing}; expected the server's data directory\n"


def test_status_shows_the_queries_of_a_data_directory(tmp_path: Path) -> None:
    directory = tmp_path / "here" / "pipeline"
    with held(directory, ["candles"]):
        write(directory, QueryStatus(name="candles", state="running", batch=12, lag_events=3))
        write(directory, QueryStatus(name="movers", state="running", pid=1, updated="2026-01-31T12:00:00.000Z"))
        shown = run("pipeline", "status", "--data-dir", "here").stdout.splitlines()
        found = json.loads(run("pipeline", "status", "--data-dir", "here", "--json").stdout)
    assert shown[1].split()[:2] == ["candles", "running"]
    assert shown[2].split()[:2] == ["movers", "gone"]
    assert "the process 1 that ran it has ended; last update 2026-01-31T12:00:00.000Z" in shown[3]
    assert [(each["name"], each["batch"], each["lag_events"], each["gone"]) for each in found] == [
        ("candles", 12, 3, False),
        ("movers", None, None, True),
    ]


# -- what keeps a job from running ------------------------------------------------------------------------------------


def refused(directory: Path, *arguments: str, config: str | None = None) -> str:
    """The one line that `penstock pipeline run` ends with, as a wrong option."""
    given = list(arguments)
    if config is not None:
        (directory / "penstock.toml").write_text(config)
        given += ["--config", "penstock.toml"]
    done = run("pipeline", "run", *given)
    assert (done.exit_code, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_an_unknown_job_is_refused_with_those_there_are(tmp_path: Path) -> None:
    line = refused(tmp_path, "history", "candels")
    assert line == "penstock: NAME = candels: expected history, candles, movers, traffic"


def test_a_wrong_address_is_refused(tmp_path: Path) -> None:
    line = refused(tmp_path, "history", "--api", "localhost:8081")
    assert line == "penstock: --api is 'localhost:8081'; expected an address such as http://127.0.0.1:8081"


def test_a_wrong_configuration_is_refused_as_the_server_would(tmp_path: Path) -> None:
    line = refused(tmp_path, "history", config='[pipeline]\nrestart = "sometimes"\n')
    assert line.startswith("penstock: penstock.toml: pipeline.restart = ")
    assert "always" in line


def test_settings_of_a_job_that_is_not_there_are_refused(tmp_path: Path) -> None:
    line = refused(tmp_path, "history", config="[pipeline.jobs.candels]\nx = 1\n")
    assert line.startswith("penstock: pipeline.jobs.candels: there is no such job; expected history, ")


def test_an_unknown_setting_of_a_job_is_refused_with_its_name(tmp_path: Path) -> None:
    line = refused(tmp_path, "history", config='[pipeline.jobs.history]\nspeed = "high"\n')
    assert line.startswith("penstock: pipeline.jobs.history: ")
    assert "speed" in line


def test_a_setting_of_spark_that_is_a_list_is_refused(tmp_path: Path) -> None:
    line = refused(tmp_path, "history", config='[pipeline.spark]\n"spark.x" = [1]\n')
    assert line == "penstock: pipeline.spark.spark.x: expected text, a number or a switch"


def test_a_data_directory_without_a_journal_is_refused_and_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "penstok-data"
    for more in ((), ("--once",)):
        line = refused(tmp_path, "history", "--data-dir", "penstok-data", *more)
        assert line == (
            f"penstock: there is no journal in {missing}, which does not exist; expected the server's data directory."
            " --wait waits for a server that is about to start"
        )
        assert not missing.exists()
    missing.mkdir()
    line = refused(tmp_path, "history", "--data-dir", "penstok-data")
    assert line.startswith(f"penstock: there is no journal in {missing}; expected the server's data directory")
    assert list(missing.iterdir()) == []


def test_jobs_that_publish_begin_first_in_the_order_in_which_they_were_named() -> None:
    plans = [JobPlan(JOBS[name], None, None) for name in ("history", "movers", "candles")]
    assert [plan.job.name for plan in in_order(plans)] == ["movers", "candles", "history"]


def test_a_dead_spark_is_replaced_almost_at_once_and_later_if_it_dies_again_and_again() -> None:
    assert replace_after(5.0, None) == 0.5
    waited, pauses = "0.5", []
    for _ in range(8):
        pauses.append(replace_after(30.0, waited))
        waited = str(pauses[-1])
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert replace_after(60.0, waited) == 0.5


def test_a_job_that_another_process_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "penstock-data" / "journal").mkdir(parents=True)
    with held(tmp_path / "penstock-data" / "pipeline", ["history"]):
        line = refused(tmp_path, "history")
    assert line == f"penstock: job history is already run by another process in {tmp_path / 'penstock-data'}"


def test_without_spark_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    script = (
        "import sys, importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'pyspark' else find(name, *rest)\n"
        "sys.argv[1:] = ['pipeline', 'run', 'history']; from penstock.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=15, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "penstock: the extra spark is not installed: pip install 'penstock[spark]'\n"


# -- history tail -----------------------------------------------------------------------------------------------------


def test_tail_prints_the_journal(tmp_path: Path, written: Written) -> None:
    done = run("history", "tail")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        '1 1970-01-01T00:16:40.000000Z WELCOME/STOCKS/item1 r1 update {"last_price":"3.04"}',
        '2 1970-01-01T00:16:41.000000Z WELCOME/STOCKS/item2 r1 update {"last_price":"7"}',
        "3 1970-01-01T00:16:42.000000Z DEMO/CHAT/room r1 update no JSON\\nbut text",
        "4 1970-01-01T00:16:43.000000Z WELCOME/STOCKS/item1 r2 update -",
    ]


def test_tail_as_json_has_an_object_a_line(tmp_path: Path, written: Written) -> None:
    lines = run("history", "tail", "--json").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert records[0] == {
        "sequence": 1,
        "entity": "WELCOME/STOCKS/item1",
        "revision": 1,
        "timestamp": "1970-01-01T00:16:40.000000Z",
        "kind": "update",
        "path": "",
        "value": {"last_price": "3.04"},
        "headers": None,
    }
    assert [record["value"] for record in records[2:]] == ["no JSON\nbut text", None]


@pytest.mark.parametrize(
    ("arguments", "sequences"),
    [
        (("WELCOME/STOCKS/*",), [1, 2, 4]),
        (("WELCOME/STOCKS/item2", "DEMO/*"), [2, 3]),
        (("--from", "3"), [3, 4]),
        (("--from", "1970-01-01T00:16:41Z"), [2, 3, 4]),
        (("--from", "1970-01-01T09:16:43+09:00"), [4]),
        (("--from", "latest"), []),
        (("NOBODY/*",), []),
    ],
)
def test_tail_prints_what_it_is_asked_for(
    tmp_path: Path, written: Written, arguments: tuple[str, ...], sequences: list[int]
) -> None:
    done = run("history", "tail", "--json", *arguments)
    assert done.exit_code == 0
    assert [json.loads(line)["sequence"] for line in done.stdout.splitlines()] == sequences


def test_tail_follows_a_journal_that_is_written(tmp_path: Path, written: Written) -> None:
    with subprocess.Popen(
        [str(PENSTOCK), "history", "tail", "WELCOME/*", "--follow", "--from", "4", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Written to a pipe line by line: otherwise Python would keep the lines until there are many.
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["sequence"] == 4
        for number in (5, 7):
            written.append(("WELCOME/STOCKS/item1", 1_004, "{}"), ("DEMO/CHAT/room", 1_005, "{}"))
            assert json.loads(process.stdout.readline())["sequence"] == number
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def test_tail_ends_quietly_when_nobody_reads_any_more(tmp_path: Path, written: Written) -> None:
    for _ in range(20):
        written.append(*(("WELCOME/STOCKS/item1", 1_004, "x" * 1_000) for _ in range(100)))
    done = subprocess.run(
        f"'{PENSTOCK}' history tail | head -1", shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("1 ")
    assert done.stderr == ""


@pytest.mark.parametrize("value", ["yesterday", "2026-01-31T12:00:00", "-4", "٣"])
def test_tail_refuses_a_beginning_that_is_none(tmp_path: Path, written: Written, value: str) -> None:
    done = run("history", "tail", f"--from={value}")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"penstock: --from = {value}: expected ")
    assert len(done.stderr.splitlines()) == 1


def test_tail_says_when_there_is_no_journal(tmp_path: Path) -> None:
    done = run("history", "tail", "--data-dir", "elsewhere")
    assert (done.exit_code, done.stderr) == (2, "penstock: there is no journal in elsewhere\n")


def test_tail_reads_on_where_retention_has_left_something(tmp_path: Path) -> None:
    for second in (1_000, 1_001):
        written = Written(tmp_path / "penstock-data")
        with closing(written.journal):
            written.append(("S/A/item", second, "{}"))
    directory = tmp_path / "penstock-data" / "journal"
    first = min(path.stem for path in directory.iterdir() if path.name[0].isdigit())
    for path in directory.glob(f"{first}*"):
        path.unlink()
    done = run("history", "tail", "--from", "1", "--json")
    assert done.exit_code == 0
    assert [json.loads(line)["sequence"] for line in done.stdout.splitlines()] == [2]
    assert "sequence 1 was dropped by retention; the earliest left is 2" in done.stderr


# -- history show -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "revisions"),
    [
        ((), [1, 2, 3, 4, 5]),
        (("--revisions", "2-4"), [2, 3, 4]),
        (("--revisions", "4-"), [4, 5]),
        (("--revisions", "-2"), [1, 2]),
        (("--revisions", "3"), [3]),
        (("--since", "1970-01-01T00:16:42Z"), [3, 4, 5]),
        (("--since", "1970-01-01T00:16:42Z", "--until", "1970-01-01T00:16:44Z"), [3, 4]),
    ],
)
def test_show_prints_one_entity_by_revision_or_time(
    tmp_path: Path, arguments: tuple[str, ...], revisions: list[int]
) -> None:
    written = Written(tmp_path / "penstock-data")
    with closing(written.journal):
        for number in range(5):
            written.append(("S/A/item", 1_000 + number, f"{number}"), ("S/A/other", 1_000 + number, "{}"))
        done = run("history", "show", "S/A/item", "--json", *arguments)
    assert done.exit_code == 0, done.output
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["revision"] for record in records] == revisions
    assert {record["entity"] for record in records} == {"S/A/item"}


def test_show_says_when_there_is_nothing(written: Written) -> None:
    done = run("history", "show", "S/A/nobody")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "penstock: S/A/nobody: no such events\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--revisions", "5-2"), "--revisions = 5-2: expected the lower one first"),
        (("--revisions", "a-b"), "--revisions = a-b: expected A-B, A-, -B or one revision"),
        (("--revisions=-",), "--revisions = -: expected A-B, A-, -B or one revision"),
        (("--since", "noon"), "--since = noon: expected a time such as 2026-01-31T12:00:00Z"),
        (
            ("--revisions", "1-2", "--since", "2026-01-31T12:00:00Z"),
            "--revisions cannot be combined with --since and --until",
        ),
        (("--data-dir", "nowhere"), "there is neither a journal nor a lake in nowhere"),
    ],
)
def test_show_refuses_what_makes_no_sense(written: Written, arguments: tuple[str, ...], complaint: str) -> None:
    done = run("history", "show", "S/A/item", *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"penstock: {complaint}\n")


# -- backfill and replay ----------------------------------------------------------------------------------------------

RANGE = ("--since", "1970-01-01T00:16:40Z", "--until", "1970-01-01T00:17:00Z")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("candels", *RANGE), "NAME = candels: expected history, candles, movers, traffic"),
        (
            ("candles", "--since", "noon", *RANGE[2:]),
            "--since = noon: expected a time such as 2026-01-31T12:00:00Z",
        ),
        (
            ("candles", *RANGE[:2], "--until", "2026-01-31T12:00"),
            "--until = 2026-01-31T12:00: expected a time with its zone, such as 2026-01-31T12:00Z",
        ),
    ],
)
def test_backfill_refuses_what_is_wrong_before_spark_is_started(arguments: tuple[str, ...], complaint: str) -> None:
    done = run("pipeline", "backfill", *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"penstock: {complaint}\n")


@pytest.mark.parametrize(
    ("source", "missing"),
    [("both", "neither a journal nor a lake"), ("journal", "no journal"), ("lake", "no lake")],
)
def test_backfill_refuses_a_data_directory_with_nothing_in_it(tmp_path: Path, source: str, missing: str) -> None:
    done = run("pipeline", "backfill", "candles", *RANGE, "--source", source, "--data-dir", "nowhere")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"penstock: there is {missing} in {tmp_path / 'nowhere'}, which does not exist; ")
    assert not (tmp_path / "nowhere").exists()


def test_replay_refuses_a_data_directory_with_nothing_in_it(tmp_path: Path) -> None:
    done = run("pipeline", "replay", "*", *RANGE, "--to", "WELCOME/CANDLES", "--data-dir", "nowhere")
    assert (done.exit_code, done.stdout) == (2, "")
    missing = f"neither a journal nor a lake in {tmp_path / 'nowhere'}, which does not exist"
    assert done.stderr == f"penstock: there is {missing}; expected the server's data directory\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("WELCOME/STOCKS/*", *RANGE, "--to", "WELCOME"), "--to = WELCOME: expected SET/ADAPTER"),
        (
            ("NOBODY/*", *RANGE, "--to", "WELCOME/CANDLES"),
            "entities is 'NOBODY/*'; no journaled entity has such a name",
        ),
    ],
)
def test_replay_refuses_what_is_wrong(written: Written, arguments: tuple[str, ...], complaint: str) -> None:
    done = run("pipeline", "replay", *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"penstock: {complaint}\n")


def test_replay_publishes_the_past_to_a_running_server(process: ServerProcess) -> None:
    written = Written(process.directory / "past")
    with closing(written.journal):
        for number in range(3):
            written.append(("WELCOME/STOCKS/item1", 1_000 + number, json.dumps({"close": str(number)})))
        config = process.directory / "replay.toml"
        config.write_text(f'[pipeline]\ntoken_file = "{process.directory / "data" / "pipeline" / "token"}"\n')
        done = run(
            *("pipeline", "replay", "WELCOME/STOCKS/*", *RANGE, "--to", "WELCOME/CANDLES", "--speed", "1000"),
            *("--item", "candle.again.{item}", "--config", str(config)),
            *("--data-dir", str(process.directory / "past"), "--api", f"http://127.0.0.1:{process.api_port}"),
        )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("penstock: 3 events published in ")
    exchange = Exchange(process.host, process.port)
    with exchange.stream("WELCOME") as stream:
        wish = {"reqId": 1, "op": "add", "subId": 1, "group": "candle.again.item1", "schema": "close", "mode": "MERGE"}
        assert exchange.control(stream.session, **wish, snapshot=True, data_adapter="CANDLES") == ["REQOK,1"]
        assert stream.read_until("U")[-1] == "U,1,1,2"
