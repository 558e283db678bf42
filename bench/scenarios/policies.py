"""What it costs that clients see an event only when it is on the disk: HTTP ingest to a TLCP client, by journal policy.

Requests come one after another, each when the one before was answered and its last event has reached the client. With
`ack` both wait for the disk; with `interval` and `off`, and without a journal, neither does.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.peers.penstock import install
from bench.rig.child import Child, ChildError
from bench.rig.child import penstock as serve
from bench.rig.machine import Cores
from bench.rig.results import Report
from penstock.client import Subscription, connect

ABOUT = "milliseconds from an event in an HTTP request to a client, by the policy of the journal"

TOKEN = "only-for-this-benchmark"
POLICIES = ("none", "off", "interval", "ack")

HEAD = (
    "POST /api/ingest/BENCH/IN HTTP/1.1\r\nHost: localhost\r\n"
    f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/x-ndjson\r\n"
)
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
API = re.compile(r"api=http://[\d.]+:(\d+)")

# Requests before those that count.
WARM_UP = 20

# Seconds that an update may take.
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds until the answer, and until the client had the last event of the request; CPU-seconds of all."""

    answered: list[float]
    shown: list[float]
    cpu: float


def settings(policy: str) -> list[str]:
    adapter = 'adapters.BENCH.data.IN = { adapter = "ingest", parameters = { items = ["*"], tokens = ["%s"] }%s }'
    journal = "" if policy == "none" else f', journal = {{ items = ["*"], policy = "{policy}" }}'
    return [adapter % (TOKEN, journal), 'log.level = "error"']


async def measure(server: Child, requests: int, size: int) -> Delays:
    """`size` events in each request, the last of which is the item that the client has."""
    found = API.search(server.ready)
    assert found is not None
    reader, writer = await asyncio.open_connection(server.host, int(found[1]))
    answered, shown, used = [], [], 0.0
    async with connect(f"http://{server.host}:{server.port}", adapter_set="BENCH", proxy=None) as client:
        updates = client.subscribe("last", "number", data_adapter="IN")
        for number in range(requests + WARM_UP):
            if number == WARM_UP:
                used = server.cpu_seconds()
            names = [*[f"i{each}" for each in range(size - 1)], "last"]
            body = "".join([f'{{"item":"{name}","fields":{{"number":"{number}"}}}}\n' for name in names]).encode()
            head = f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode()
            began = time.perf_counter()
            writer.write(head + body)
            async with asyncio.timeout(PATIENCE):
                first, second = await asyncio.gather(_answer(reader), _update(updates, number))
            if number >= WARM_UP:
                answered.append(first - began)
                shown.append(second - began)
        used = server.cpu_seconds() - used
    writer.close()
    return Delays(answered, shown, used)


async def _answer(reader: asyncio.StreamReader) -> float:
    """When it is there; all of it was accepted."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = LENGTH.search(head)
    assert length is not None
    body = await reader.readexactly(int(length[1]))
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise ChildError(f"the events were refused: {body.decode()}")
    return time.perf_counter()


async def _update(updates: Subscription, number: int) -> float:
    while (await anext(updates)).values["number"] != str(number):
        """What was there before."""
    return time.perf_counter()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--requests", type=int, default=300, help="of each size (default %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 1000], help="events of a request (default 1 1000)")
    parser.add_argument("--rounds", type=int, default=1, help="how often all policies are measured in turn")


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("policies")
    report.remark(install())
    for size in options.sizes:
        found: dict[str, list[Delays]] = {policy: [] for policy in POLICIES}
        for _ in range(options.rounds):
            for policy, rounds in found.items():
                with (
                    tempfile.TemporaryDirectory() as directory,
                    serve(Path(directory), cores.server, settings(policy)) as server,
                ):
                    rounds.append(await measure(server, options.requests, size))
        rows = []
        for policy, rounds in found.items():
            # Another program on the machine makes all rounds worse and none better.
            best = min(rounds, key=lambda each: median(each.shown))
            events = options.requests * size
            cpu = min(each.cpu for each in rounds) / events * 1e6
            rows.append((policy, _both(best.shown), _both(best.answered), f"{cpu:.1f}"))
        report.table(
            f"{options.requests:,} requests, events in each: {size:,}",
            ("ms to the client: p50 / p99", "ms to the answer: p50 / p99", "CPU µs per event"),
            rows,
        )
    return report.save()


def _both(seconds: list[float]) -> str:
    return f"{median(seconds) * 1e3:.2f} / {sorted(seconds)[int(len(seconds) * 0.99)] * 1e3:.2f}"
