"""Candles: from a trade posted to a server until a client sees it in a candle that Spark has computed.

Server and pipeline are processes of their own, as people run them, on all cores; each trade's price is its number, so
that a candle's close tells which trades it holds. Beside it stands how long Spark takes for a batch, and how long plain
Spark takes for as many trades of its own, which the driver collects.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from bench.rig.child import READY, ChildError
from bench.rig.machine import Cores
from bench.rig.queries import STOCKS
from bench.rig.results import Report
from bench.rig.spark_process import SparkProcess
from penstock.client import connect

ABOUT = "milliseconds from a trade to the candle that holds it, through journal, Spark and server"

# Trades of one request, and requests a second: 10,000 trades a second.
REQUEST = 200
TOKEN = "only-for-this-benchmark"
START_PATIENCE = 180.0

# For `all`, in seconds; on a quiet machine it takes about four minutes.
DEADLINE = 480.0

CONFIGURATION = f"""
[stream]
port = 0
[api]
port = 0
[log]
level = "warning"
[journal]
interval_millis = 10
[adapters.BENCH.data.TRADES]
adapter = "ingest"
parameters = {{ items = ["t*"], tokens = ["{TOKEN}"] }}
journal = {{ items = ["*"] }}
[adapters.BENCH.data.CANDLES]
adapter = "ingest"
parameters = {{ items = {{ "candle.*" = "MERGE", "candles.*" = "DISTINCT" }}, tokens = ["{TOKEN}"] }}
journal = {{ items = ["*"] }}
[pipeline]
token = "{TOKEN}"
status = ""
[pipeline.jobs.candles]
entities = ["BENCH/TRADES/*"]
adapter_set = "BENCH"
adapter = "CANDLES"
starting = "latest"
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Trades a second, and seconds before and while it is measured: a JVM is quick only after minutes."""

    rate: int = 10_000
    warm_up: float = 100.0
    seconds: float = 30.0
    # Batches of plain Spark do not wait for trades, so there are as many in less time.
    plain_warm_up: float = 60.0
    plain_seconds: float = 15.0


@dataclass(slots=True)
class Trades:
    """When each request was about to be posted."""

    posted: list[float] = field(default_factory=list)
    refused: int = 0
    enough: bool = False

    def at(self, number: int) -> float:
        return self.posted[number // REQUEST]


def post(api: str, plan: Plan, trades: Trades) -> None:
    """In a thread, until there are enough."""
    address = urlsplit(api)
    connection = http.client.HTTPConnection(str(address.hostname), address.port)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-ndjson"}
    begin = time.perf_counter()
    while not trades.enough:
        turn = len(trades.posted)
        numbers = range(turn * REQUEST, (turn + 1) * REQUEST)
        body = "".join(
            f'{{"item":"t{number % STOCKS}","fields":{{"last_price":"{number}","last_quantity":"1"}}}}\n'
            for number in numbers
        )
        time.sleep(max(0.0, begin + turn * REQUEST / plan.rate - time.perf_counter()))
        trades.posted.append(time.perf_counter())
        connection.request("POST", "/api/ingest/BENCH/TRADES", body, headers)
        answer = connection.getresponse()
        answer.read()
        trades.refused += answer.status != 200
    connection.close()


@dataclass(slots=True)
class Seen:
    """For each trade how long it took until a candle had it; of each update, the newest and the oldest trade."""

    latencies: list[float] = field(default_factory=list)
    newest: list[float] = field(default_factory=list)
    oldest: list[float] = field(default_factory=list)
    latest: dict[int, int] = field(default_factory=dict)
    backward: int = 0

    def close(self, stock: int, number: int, trades: Trades, since: float) -> None:
        now = time.perf_counter()
        before = self.latest.get(stock, stock - STOCKS)
        self.backward += number < before
        numbers = [one for one in range(before + STOCKS, number + 1, STOCKS) if trades.at(one) >= since]
        if numbers:
            took = [now - trades.at(one) for one in numbers]
            self.latencies += took
            self.oldest.append(took[0])
            self.newest.append(took[-1])
        self.latest[stock] = max(number, before)


async def watch(stream: str, trades: Trades, since: float, seen: Seen) -> None:
    items = " ".join(f"candle.1s.t{stock}" for stock in range(STOCKS))
    async with connect(stream, adapter_set="BENCH", proxy=None) as client:
        async for update in client.subscribe(items, "close", data_adapter="CANDLES"):
            close = update.values["close"]
            if close is not None:
                seen.close(int(update.item.rpartition("t")[2]), int(float(close)), trades, since)


@contextmanager
def process(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`penstock` with arguments, until it is left."""
    with (directory / "log").open("a") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", *arguments], stdout=subprocess.PIPE, stderr=log, text=True
        )
    with started:
        try:
            yield started
        finally:
            started.terminate()


def ready(server: subprocess.Popen[str]) -> tuple[str, str]:
    """The addresses of stream and API."""
    assert server.stdout is not None
    line = server.stdout.readline()
    if READY.match(line) is None:
        raise ChildError(f"the server said {line!r} and not that it is ready")
    words = dict(word.split("=", 1) for word in line.split() if "=" in word)
    return words["stream"], words["api"]


async def measure(plan: Plan, directory: Path) -> tuple[Seen, list[int], Trades, int]:
    """What was seen, how long Spark's batches took, what was posted, and how many trades should have been seen."""
    settings, data = directory / "bench.toml", directory / "data"
    settings.write_text(CONFIGURATION)
    options = ("--config", str(settings), "--data-dir", str(data))
    with process(directory, "serve", *options) as server:
        stream, api = ready(server)
        with process(directory, "pipeline", "run", "candles", *options, "--api", api, "--log-level", "warning"):
            return await live(plan, stream, api, data / "pipeline" / "candles.json")


async def live(plan: Plan, stream: str, api: str, status: Path) -> tuple[Seen, list[int], Trades, int]:
    trades, seen, batches = Trades(), Seen(), []
    posting = asyncio.create_task(asyncio.to_thread(post, api, plan, trades))
    try:
        await until_running(status)
        since = time.perf_counter() + plan.warm_up
        watching = asyncio.create_task(watch(stream, trades, since, seen))
        while time.perf_counter() < since + plan.seconds:
            await asyncio.sleep(1)
            if time.perf_counter() > since:
                batches.append(last_batch(status)["batch_millis"])
        watching.cancel()
    finally:
        trades.enough = True
        await posting
    expected = sum(REQUEST for at in trades.posted if since <= at <= since + plan.seconds - 5)
    return seen, batches, trades, expected


def last_batch(status: Path) -> dict[str, int]:
    """What the pipeline says of its query; nothing before it has begun."""
    try:
        found: dict[str, int] = json.loads(status.read_bytes())
    except FileNotFoundError:
        return {}
    return found


async def until_running(status: Path) -> None:
    deadline = time.perf_counter() + START_PATIENCE
    while True:
        if last_batch(status).get("batch") is not None:
            return
        if time.perf_counter() > deadline:
            raise ChildError(f"the pipeline has no batch after {START_PATIENCE:.0f} seconds")
        await asyncio.sleep(0.5)


async def plain(plan: Plan, folder: Path, trades: int, millis: int) -> list[int]:
    """How long batches of plain Spark take, one after another."""
    spark = SparkProcess(folder)
    try:
        await spark.say(f"plain-candles {trades} {millis}")
        await asyncio.sleep(plan.plain_warm_up)
        before = len(await spark.batches())
        await asyncio.sleep(plan.plain_seconds)
        return [batch["triggerExecution"] for batch in (await spark.batches())[before:]]
    finally:
        spark.close()


def add_options(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    parser.add_argument("--rate", type=int, default=plan.rate, help="trades a second (default %(default)s)")
    parser.add_argument("--warm-up", type=float, default=plan.warm_up, help="seconds (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="measured (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 0


def percentiles(seconds: list[float]) -> list[str]:
    """p50 and p99, in milliseconds."""
    millis = np.array(seconds or [float("nan")]) * 1000
    return [f"{np.percentile(millis, part):,.0f}" for part in (50, 99)]


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when a trade was refused, or missing in the candles."""
    report = Report("candles")
    os.sched_setaffinity(0, {core for core in (cores.server, cores.load) if core is not None} or {0})
    plan = Plan(options.rate, options.warm_up, options.seconds)
    with tempfile.TemporaryDirectory(prefix="bench-candles-") as folder:
        seen, batches, trades, expected = await measure(plan, Path(folder))
        millis = int(np.median(batches))
        size = plan.rate * millis // 1_000
        alone = await plain(plan, Path(folder), size, millis)
    failures: Counter[str] = Counter()
    if trades.refused:
        failures["a request was refused"] += trades.refused
    if len(seen.latencies) < expected:
        failures["a trade is in no candle"] += expected - len(seen.latencies)
    if seen.backward:
        failures["a candle went back"] += seen.backward
    rows = [
        ("from trade to candle", *percentiles(seen.latencies)),
        ("the newest trade of an update", *percentiles(seen.newest)),
        ("the oldest trade of an update", *percentiles(seen.oldest)),
        *(
            (name, *percentiles([one / 1_000 for one in each]))
            for name, each in (
                ("of that, a batch of Spark", batches),
                (f"plain Spark: a batch of {size:,} trades", alone),
            )
        ),
    ]
    report.table(f"{plan.rate:,} trades a second of {STOCKS} stocks, milliseconds", ("p50", "p99"), rows)
    report.failures("the pipeline", failures)
    return report.save()
