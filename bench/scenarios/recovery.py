"""Recovery: from a kill of the pipeline, or of its JVM, until a client has a closed candle of a later window.

Server and pipeline (`candles` and `history`) are processes as people run them. A window of one second is closed two
seconds after its end at the earliest, so three seconds is the least. The killed pipeline is started again at once; a
killed JVM is replaced by the pipeline itself. Beside it stands a plain Spark program with the same windows over Spark's
own source, whose driver sees the candles itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path

from bench.rig.child import ChildError
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.rig.spark_process import SparkProcess
from bench.scenarios import candles
from penstock.client import connect

ABOUT = "seconds from a kill of the pipeline or its JVM until closed candles come again"

JOBS = ("candles", "history")
VICTIMS = ("jvm", "pipeline")
# Trades a second.
RATE = 1_000
# Seconds until it counts as not coming back.
PATIENCE = 180.0
# The same for the archive of classes.
ARCHIVE_PATIENCE = 300.0

# A pipeline that is started anew knows nothing of the kill before: it needs no longer than to be at work.
AT_WORK = 10.0

# How often plain Spark is asked, in seconds.
LOOK = 0.05

# For `all`, in seconds; on a quiet machine it takes about four minutes.
DEADLINE = 900.0


class Pipeline:
    """`penstock pipeline run candles history`, in a process group of its own."""

    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        self._log = folder / "pipeline.log"
        self._command = [sys.executable, "-m", "penstock.pipeline", "run", *JOBS, "--with-parent", *options]
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            # It ends with us, because its standard input does.
            return subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, victim: str) -> None:
        if victim == "jvm":
            os.kill(self._jvm(), signal.SIGKILL)
        else:
            self._process.kill()
            self._process.wait()
            self._process = self._started()

    def _jvm(self) -> int:
        pid = self._process.pid
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                if b"SparkSubmit" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
        raise ChildError(f"the pipeline has no JVM; it said: {self._log.read_text()[-500:]}")

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def seconds_of(text: str) -> float:
    """A time as candles have it, in seconds since 1970."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


async def closed_after(starts: asyncio.Queue[float], moment: float) -> float:
    """Seconds until a window that began after the moment is closed."""
    async with asyncio.timeout(PATIENCE):
        while await starts.get() < moment:
            pass
    return time.time() - moment


def has_archive(data: Path, ending: str = "jsa") -> bool:
    return any(data.rglob(f"classes-*.{ending}"))


async def archived(data: Path) -> bool:
    """Wait for the archive of the JVM's classes, which a pipeline makes in its first minutes, once.

    False if it cannot be made here: Spark runs without it.
    """
    deadline = time.monotonic() + ARCHIVE_PATIENCE
    while not has_archive(data):
        if has_archive(data, "failed"):
            return False
        if time.monotonic() > deadline:
            raise ChildError(f"no archive of classes after {ARCHIVE_PATIENCE:.0f} seconds")
        await asyncio.sleep(1)
    return True


async def watch(stream: str, starts: asyncio.Queue[float]) -> None:
    async with connect(stream, adapter_set="BENCH", proxy=None) as client:
        async for update in client.subscribe("candles.1s.t0", "start", mode="DISTINCT", data_adapter="CANDLES"):
            start = update.values["start"]
            if start is not None:
                starts.put_nowait(seconds_of(start))


async def plain(kills: int, folder: Path, taken: dict[str, list[float]]) -> None:
    """The same of plain Spark, which has no archive of classes, and is started again with its checkpoint."""
    for number in range(kills + 1):
        doing = "plain Spark: killed" if number else "plain Spark: started"
        moment = time.time()
        spark = SparkProcess(folder)
        try:
            await spark.say(f"plain-closed-candles {RATE}")
            taken.setdefault(doing, []).append(await plain_closed_after(spark, moment))
            print(f"{doing}: a closed candle after {taken[doing][-1]:.1f} s", flush=True)
            await asyncio.sleep(AT_WORK)
        finally:
            # A benchmark that fails wants no more of it either.
            spark.kill()


async def plain_closed_after(spark: SparkProcess, moment: float) -> float:
    deadline = moment + PATIENCE
    while await spark.closed() < moment:
        if time.time() > deadline:
            raise ChildError(f"plain Spark has no closed candle after {PATIENCE:.0f} seconds")
        await asyncio.sleep(LOOK)
    return time.time() - moment


async def measure(kills: int, settle: float, folder: Path, taken: dict[str, list[float]], report: Report) -> None:
    """Seconds until a closed candle, after the start and after each kill, by what was done."""
    settings = folder / "bench.toml"
    settings.write_text(candles.CONFIGURATION)
    options = ("--config", str(settings), "--data-dir", str(folder / "data"))
    with candles.process(folder, "serve", *options) as server:
        stream, api = candles.ready(server)
        trades = candles.Trades()
        posting = asyncio.create_task(asyncio.to_thread(candles.post, api, candles.Plan(rate=RATE), trades))
        pipeline = Pipeline(folder, (*options, "--api", api, "--log-level", "warning"))
        starts: asyncio.Queue[float] = asyncio.Queue()
        watching = asyncio.create_task(watch(stream, starts))
        try:
            doing = "started"
            taken[doing] = [await closed_after(starts, time.time())]
            recovered = time.monotonic()
            print(f"the first closed candle {taken[doing][-1]:.1f} s after the start", flush=True)
            if not await archived(folder / "data"):
                report.remark("The archive of classes cannot be made here: Spark starts without it.")
            for victim in [victim for _ in range(kills) for victim in VICTIMS]:
                pause = settle if victim == "jvm" else AT_WORK
                await asyncio.sleep(max(0.0, recovered + pause - time.monotonic()))
                doing = f"{victim} killed"
                moment = time.time()
                pipeline.kill(victim)
                taken.setdefault(doing, []).append(await closed_after(starts, moment))
                recovered = time.monotonic()
                print(f"{doing}: a closed candle after {taken[doing][-1]:.1f} s", flush=True)
        except TimeoutError:
            raise ChildError(f"{doing}: no closed candle within {PATIENCE:.0f} seconds") from None
        finally:
            trades.enough = True
            await posting
            watching.cancel()
            pipeline.close()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=1, help="of each (default %(default)s)")
    parser.add_argument("--directory", type=Path, help="where the archive of classes is kept for another run")
    parser.add_argument(
        "--settle", type=float, default=65.0, help="seconds before the JVM's; 60 counts as recovered (%(default)s)"
    )


def kept(directory: Path | None) -> AbstractContextManager[str]:
    """The directory, or one for this run only."""
    if directory is None:
        return tempfile.TemporaryDirectory(prefix="bench-recovery-")
    directory.mkdir(parents=True, exist_ok=True)
    return nullcontext(str(directory.resolve()))


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report."""
    report = Report("recovery")
    os.sched_setaffinity(0, {core for core in (cores.server, cores.load) if core is not None} or {0})
    taken: dict[str, list[float]] = {}
    with kept(options.directory) as folder:
        try:
            await measure(options.kills, options.settle, Path(folder), taken, report)
            with kept(None) as own:
                await plain(options.kills, Path(own), taken)
        except ChildError as error:
            report.failure("the pipeline", str(error))
    rows = [(name, f"{min(each):.1f}", f"{max(each):.1f}", f"{len(each)}") for name, each in taken.items()]
    report.table(f"seconds until a closed candle, {RATE:,} trades a second", ("best", "worst", "times"), rows)
    return report.save()
