"""Latency of Spark: from an event posted to a server until a client has the update that Spark made of it.

Server, Spark and this client are processes of their own. An event's value is its number, so that an update tells which
events it holds: the newest is the one it names, the oldest the first since the update before. Beside it stands how long
a batch takes, ours and that of plain Spark in the same JVM.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import numpy as np

from bench.rig.child import ChildError
from bench.rig.machine import Cores
from bench.rig.queries import ITEMS, RATE
from bench.rig.results import Report
from bench.rig.spark_process import REAL_TIME, SparkProcess
from bench.scenarios.candles import percentiles, process, ready
from penstock.client import connect
from penstock.pipeline.realtime import JAR_PATH

ABOUT = "milliseconds from an event to the update that Spark makes of it, and of a batch beside plain Spark"

# For `all`, in seconds; on a quiet machine it takes about three minutes.
DEADLINE = 480.0

TOKEN = "only-for-this-benchmark"
# Events of one request.
REQUEST = 2
# The parts of a batch that are worth a column, as Spark calls them.
PARTS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
# Those beside `plain`, `plain-collected` and `plain-aggregate`. In real-time mode there are no batches to speak of.
OURS = ("source", "stateless", "aggregate", REAL_TIME)
# Those that publish.
LIVE = ("stateless", "aggregate", REAL_TIME)

CONFIGURATION = f"""
[stream]
port = 0
[api]
port = 0
[log]
level = "warning"
[adapters.BENCH.data.IN]
adapter = "ingest"
parameters = {{ items = ["t*"], tokens = ["{TOKEN}"] }}
journal = {{ items = ["*"], policy = "ack" }}
[adapters.BENCH.data.OUT]
adapter = "ingest"
parameters = {{ items = {{ "out.*" = "MERGE" }}, tokens = ["{TOKEN}"] }}
journal = {{ items = ["*"] }}
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds for each query, before and while it is measured; `start` is for the first of them, with a cold JVM."""

    queries: tuple[str, ...] = ("plain", "plain-aggregate", *OURS)
    rate: int = RATE
    start: float = 30.0
    warm_up: float = 12.0
    seconds: float = 10.0


@dataclass(slots=True)
class Posted:
    """When each request was about to be sent, in a thread, until there are enough."""

    at: list[float] = field(default_factory=list)
    refused: int = 0
    enough: bool = False

    def when(self, number: int) -> float:
        return self.at[number // REQUEST]

    def post(self, api: str, rate: int) -> None:
        address = urlsplit(api)
        connection = http.client.HTTPConnection(str(address.hostname), address.port)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-ndjson"}
        begin = time.perf_counter()
        while not self.enough:
            turn = len(self.at)
            body = "".join(
                f'{{"item":"t{number % ITEMS}","fields":{{"number":"{number}"}}}}\n'
                for number in range(turn * REQUEST, (turn + 1) * REQUEST)
            )
            time.sleep(max(0.0, begin + turn * REQUEST / rate - time.perf_counter()))
            self.at.append(time.perf_counter())
            connection.request("POST", "/api/ingest/BENCH/IN", body, headers)
            answer = connection.getresponse()
            answer.read()
            self.refused += answer.status != 200
        connection.close()


@dataclass(slots=True)
class Updates:
    """What a client saw: seconds since the newest and since the oldest event of each update."""

    newest: list[float] = field(default_factory=list)
    oldest: list[float] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=dict)
    events: int = 0
    backward: int = 0

    def see(self, item: str, number: int, posted: Posted, since: float) -> None:
        now = time.perf_counter()
        before = self.latest.get(item)
        self.latest[item] = max(number, before or number)
        if before is None:
            return
        self.backward += number < before
        numbers = range(before + ITEMS, number + 1, ITEMS)
        if numbers and posted.when(numbers[0]) >= since:
            self.events += len(numbers)
            self.oldest.append(now - posted.when(numbers[0]))
            self.newest.append(now - posted.when(numbers[-1]))


async def watch(stream: str, posted: Posted, updates: dict[str, Updates], turn: list[tuple[str, float]]) -> None:
    """All the time; `turn` ends with the query that is measured, and since when."""
    items = " ".join(f"out.{item}" for item in range(ITEMS))
    async with connect(stream, adapter_set="BENCH", proxy=None) as client:
        async for update in client.subscribe(items, "number", data_adapter="OUT"):
            number = update.values["number"]
            name, since = turn[-1]
            if number is not None:
                updates.setdefault(name, Updates()).see(update.item, int(number), posted, since)


@dataclass(slots=True)
class Measured:
    """For each query its batches, and what a client saw of it."""

    batches: dict[str, list[dict[str, int]]] = field(default_factory=dict)
    updates: dict[str, Updates] = field(default_factory=dict)
    expected: dict[str, int] = field(default_factory=dict)
    refused: int = 0


async def measure(plan: Plan, folder: Path) -> Measured:
    settings = folder / "bench.toml"
    settings.write_text(CONFIGURATION)
    with process(folder, "serve", "--config", str(settings), "--data-dir", str(folder / "data")) as server:
        stream, api = ready(server)
        spark = SparkProcess(folder, api, TOKEN, real_time=REAL_TIME in plan.queries)
        posted = Posted()
        posting = threading.Thread(target=posted.post, args=(api, plan.rate))
        posting.start()
        try:
            return await _measure(plan, stream, posted, spark)
        finally:
            posted.enough = True
            posting.join()
            spark.close()


async def _measure(plan: Plan, stream: str, posted: Posted, spark: SparkProcess) -> Measured:
    done = Measured()
    turn = [("", float("inf"))]
    watching = asyncio.create_task(watch(stream, posted, done.updates, turn))
    for number, name in enumerate(plan.queries):
        turn.append((name, float("inf")))
        await spark.say(name)
        await asyncio.sleep(plan.start if not number else plan.warm_up)
        before = len(await spark.batches())
        since = time.perf_counter()
        turn.append((name, since))
        await asyncio.sleep(plan.seconds)
        # What was posted a while ago must have arrived; a query without batches has been stopped by nobody.
        done.expected[name] = sum(REQUEST for at in posted.at if since <= at <= since + plan.seconds - 5)
        done.batches[name] = (await spark.batches())[before:]
        if not done.batches[name] and name != REAL_TIME:
            raise ChildError(f"the query {name} has no batch after {plan.warm_up + plan.seconds:.0f} seconds")
    watching.cancel()
    done.refused = posted.refused
    return done


def check(done: Measured) -> Counter[str]:
    failures: Counter[str] = Counter()
    if done.refused:
        failures["a request was refused"] += done.refused
    for name, updates in done.updates.items():
        if name in LIVE and updates.events < done.expected[name]:
            failures[f"an event of {name} is in no update"] += done.expected[name] - updates.events
        if updates.backward:
            failures[f"an item of {name} went back"] += updates.backward
    for name in LIVE:
        if name in done.expected and name not in done.updates:
            failures[f"no update of {name}"] += 1
    return failures


def add_options(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    parser.add_argument("queries", nargs="*", default=plan.queries, help="which of them (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=plan.rate, help="events a second (default %(default)s)")
    parser.add_argument("--start", type=float, default=plan.start, help="seconds of the first (default %(default)s)")
    parser.add_argument("--warm-up", type=float, default=plan.warm_up, help="seconds (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="measured (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when an event is missing."""
    report = Report("latency")
    os.sched_setaffinity(0, {core for core in (cores.server, cores.load) if core is not None} or {0})
    queries = tuple(options.queries)
    if REAL_TIME in queries and not JAR_PATH.exists():
        report.remark(f"{REAL_TIME} is left out: there is no {JAR_PATH.name}, which `make jar` builds with a JDK")
        queries = tuple([name for name in queries if name != REAL_TIME])
    plan = Plan(queries, options.rate, options.start, options.warm_up, options.seconds)
    with tempfile.TemporaryDirectory(prefix="bench-latency-") as folder:
        done = await measure(plan, Path(folder))
    rows = []
    for name, batches in done.batches.items():
        if not batches:
            continue
        whole = [one["triggerExecution"] for one in batches]
        parts = [f"{median(one.get(part, 0) for one in batches):,.0f}" for part in PARTS]
        rows.append((name, f"{len(batches)}", f"{median(whole):,.0f}", f"{np.percentile(whole, 99):,.0f}", *parts))
    report.table("a batch, milliseconds (parts: medians)", ("batches", "p50", "p99", *PARTS), rows)
    ends = [
        (f"{name}, {which} event", *percentiles(seconds))
        for name, seen in done.updates.items()
        if name in LIVE
        for which, seconds in (("newest", seen.newest), ("oldest", seen.oldest))
    ]
    if ends:
        report.table(f"from an event posted to a client, {plan.rate:,} a second, milliseconds", ("p50", "p99"), ends)
    report.failures("the pipeline", check(done))
    return report.save()
