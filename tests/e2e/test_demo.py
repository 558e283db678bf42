"""`penstock demo` with the pipeline beside the server: the real thing once, and the companion with other processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from penstock.client import ItemUpdate, Subscription, connect
from penstock.pipeline.companion import Again, Companion
from penstock.pipeline.status import read
from tests.support.command import PORTS, Command
from tests.support.privacy import open_to_others

PATIENCE = 10.0
# Spark takes its time to start, much more of it on a machine that has other work.
SPARK_PATIENCE = 400.0

READY = re.compile(r"penstock: ready  stream=(http://\S+)  api=(http://\S+)(?:  tlex=\S+)?")


# -- the real thing ---------------------------------------------------------------------------------------------------


def processes_of(directory: Path) -> dict[int, str]:
    """Everything that runs in a directory, by number."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if Path(os.readlink(entry / "cwd")) == directory and (command := (entry / "cmdline").read_bytes()):
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
    return found


async def first(subscription: Subscription, field: str) -> ItemUpdate:
    """The first update that has a value."""
    async for update in subscription:
        if update.values[field] is not None:
            return update
    raise AssertionError("the subscription ended")


async def look(stream: str) -> tuple[ItemUpdate, ItemUpdate, ItemUpdate]:
    """Wait until the demo has a candle, a mover, and a query that says it runs."""
    async with connect(stream, adapter_set="WELCOME", proxy=None) as client:
        candle = client.subscribe("candle.10s.item2", "open high low close trades", data_adapter="CANDLES")
        movers = client.subscribe("movers", "key command name price change", mode="COMMAND", data_adapter="MOVERS")
        query = client.subscribe("query.candles", "state batch", data_adapter="PIPELINE")
        return await first(candle, "close"), await first(movers, "price"), await first(query, "batch")


@pytest.mark.spark
@pytest.mark.timeout(SPARK_PATIENCE + 60)
def test_the_demo_computes_candles_and_movers_and_one_signal_stops_all_of_it(tmp_path: Path) -> None:
    with Command(tmp_path, "demo", *PORTS) as command:
        page = command.line()
        ready = READY.fullmatch(command.line())
        assert ready is not None
        assert page == f"penstock: the page is at {ready[1]}/"
        assert command.line().startswith("penstock: administrator admin, password ")
        assert command.line() == "pipeline: starting Spark…"
        candle, mover, query = asyncio.run(asyncio.wait_for(look(ready[1]), SPARK_PATIENCE))
        low, high = float(candle.values["low"] or ""), float(candle.values["high"] or "")
        assert low <= float(candle.values["open"] or "") <= high
        assert low <= float(candle.values["close"] or "") <= high
        assert int(candle.values["trades"] or "") >= 1
        assert mover.values["command"] == "ADD"
        assert float(mover.values["price"] or "") > 0
        assert query.values["state"] == "running"
        assert command.line() == "pipeline: running"
        assert len(processes_of(tmp_path)) >= 3, "the server, the pipeline, and its JVM"

        begin = time.monotonic()
        code, output = command.stop(signal.SIGINT)
        assert (code, output) == (0, "pipeline: stopping…\n")
        assert time.monotonic() - begin < 15
    # Spark's own helpers need a moment to see that their JVM is gone.
    deadline = time.monotonic() + PATIENCE
    while left := processes_of(tmp_path):
        assert time.monotonic() < deadline, left
        threading.Event().wait(0.05)
    states = {found.status.name: found.status.state for found in read(tmp_path / "penstock-data" / "pipeline")}
    assert states == {"candles": "stopped", "movers": "stopped", "history": "stopped"}
    assert "Traceback" not in command.errors
    assert "Exception" not in command.errors
    # People have been told on standard output; the log of the demo has what is wrong, and nothing is.
    assert "INFO" not in command.errors
    assert (tmp_path / "penstock-data" / "pipeline" / "spark.log").stat().st_size > 0
    assert open_to_others(tmp_path / "penstock-data") == []


def test_without_the_pipeline_nothing_of_it_is_started(tmp_path: Path) -> None:
    with Command(tmp_path, "demo", *PORTS, "--no-pipeline") as command:
        command.line()
        assert READY.fullmatch(command.line())
        assert command.line().startswith("penstock: administrator admin, password ")
        assert len(processes_of(tmp_path)) == 1
        assert command.stop() == (0, "")


# -- the companion ----------------------------------------------------------------------------------------------------

# Both say when they are there; one stops when it is told to.
OBEDIENT = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"


class Said:
    """What the companion tells people."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()

    def __call__(self, line: str) -> None:
        with self._news:
            self.lines.append(line)
            self._news.notify()

    def wait(self, count: int = 1) -> list[str]:
        """Until there are so many lines."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.lines) >= count, PATIENCE), self.lines
            return list(self.lines)


@pytest.fixture
def said() -> Said:
    return Said()


# As quick as a test wants it.
SOON = Again(first=0.01, last=0.02, tries=2, well=60.0)


def companion(said: Said, script: str, again: Again = SOON) -> Companion:
    return Companion([], Path("spark.log"), said, [sys.executable, "-c", script], again)


def until_up(capfd: pytest.CaptureFixture[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while "up" not in capfd.readouterr().out:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_a_pipeline_that_ends_by_itself_is_started_again_a_few_times(said: Said) -> None:
    one = companion(said, "import sys; sys.exit(1)")
    one.start("http://127.0.0.1:1")
    assert said.wait(3) == [
        "pipeline: has failed; it restarts in 0.01 s. Why: spark.log",
        "pipeline: has failed; it restarts in 0.02 s. Why: spark.log",
        "pipeline: has failed, 3 times in a row, and stays stopped; the demo continues without it: no candles, no "
        "movers, no history. Why: spark.log. To try again, start the demo again",
    ]
    one.stop()
    assert len(said.lines) == 3


def test_a_pipeline_that_was_killed_comes_back(said: Said, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    killed = tmp_path / "killed"
    die_once = f"import os; p = {str(killed)!r}\nif not os.path.exists(p): open(p, 'w'); os.kill(os.getpid(), 9)\n"
    one = companion(said, die_once + OBEDIENT)
    one.start("http://127.0.0.1:1")
    until_up(capfd)
    told = "was killed, perhaps because memory ran out; it restarts in 0.01 s. Why: spark.log"
    assert said.lines == [f"pipeline: {told}"]
    one.stop()
    assert said.lines[1:] == ["pipeline: stopping…"]


def test_one_that_was_well_for_a_while_has_all_its_tries_again(said: Said) -> None:
    one = companion(said, "import sys; sys.exit(1)", Again(first=0.01, last=0.02, tries=1, well=0.0))
    one.start("http://127.0.0.1:1")
    assert set(said.wait(5)) == {"pipeline: has failed; it restarts in 0.01 s. Why: spark.log"}
    one.stop()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (2, "cannot run as it is configured, as it said above"),
        (0, "was stopped by another process"),
    ],
)
def test_a_pipeline_that_would_end_again_is_not_started_again(said: Said, code: int, told: str) -> None:
    one = companion(said, f"import sys; sys.exit({code})")
    one.start("http://127.0.0.1:1")
    assert said.wait() == [f"pipeline: {told}; the demo continues without it"]
    one.stop()
    assert len(said.lines) == 1


def test_the_demo_stops_while_a_pipeline_waits_to_be_started_again(said: Said) -> None:
    one = companion(said, "import sys; sys.exit(1)", Again(first=600.0))
    one.start("http://127.0.0.1:1")
    said.wait()
    begin = time.monotonic()
    one.stop()
    assert time.monotonic() - begin < PATIENCE
    assert len(said.lines) == 1


def test_a_pipeline_that_is_told_to_stop_does(said: Said, capfd: pytest.CaptureFixture[str]) -> None:
    one = companion(said, OBEDIENT)
    one.start("http://127.0.0.1:1")
    until_up(capfd)
    one.stop()
    assert said.lines == ["pipeline: stopping…"]


def test_a_pipeline_that_does_not_listen_is_killed(
    said: Said, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipeline.companion.GRACE", 0.1)
    one = companion(said, DEAF)
    one.start("http://127.0.0.1:1")
    until_up(capfd)
    one.stop()
    assert said.lines == ["pipeline: stopping…", "pipeline: did not stop in time, killed"]


def test_a_pipeline_that_cannot_be_started_is_told(said: Said) -> None:
    one = Companion([], Path("spark.log"), said, ["/there/is/no/such/program"])
    one.start("http://127.0.0.1:1")
    assert said.lines[0].startswith("pipeline: cannot be started (")
    one.stop()


@pytest.mark.spark
@pytest.mark.timeout(120)
def test_a_pipeline_whose_parent_was_killed_ends_by_itself(tmp_path: Path) -> None:
    with Command(tmp_path, "demo", *PORTS) as command:
        while command.line() != "pipeline: starting Spark…":
            pass
        assert len(processes_of(tmp_path)) >= 2
    # Leaving the command kills it: it could tell nobody.
    deadline = time.monotonic() + 60
    while left := processes_of(tmp_path):
        assert time.monotonic() < deadline, left
        threading.Event().wait(0.05)


@pytest.mark.spark
@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_pipeline_is_stopped_while_spark_starts(tmp_path: Path, number: signal.Signals) -> None:
    with Command(tmp_path, "pipeline", "run", "history", "--wait") as command:
        assert command.line() == "pipeline: starting Spark…"
        assert command.stop(number) == (0, "pipeline: stopping…\n")
    deadline = time.monotonic() + 60
    while left := processes_of(tmp_path):
        assert time.monotonic() < deadline, left
        threading.Event().wait(0.05)
    assert "Traceback" not in command.errors
    (found,) = read(tmp_path / "penstock-data" / "pipeline")
    assert (found.status.state, found.gone) == ("stopped", False)
