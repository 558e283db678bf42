"""Search: how soon a page of results is there among many things, and how late the index is while they change.

A server process with 100,000 things, each with a policy of its own. Pages of 25 are asked for over HTTP, one after the
other; then things are changed at a steady rate over a WebSocket, while the server's own figure of the lag is read.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import quote

import msgspec
import numpy as np

from bench.rig.child import Child, penstock
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.rig.websocket import KEY, WebSocketClient, client_frame
from bench.scenarios.ditto import PASSWORD, SETTINGS, USER
from penstock.adapters.access.users import User, hashed
from penstock.doors.ditto.saved_state import save_state
from penstock.journal.disk import DirectoryDisk
from penstock.twins.names import TwinNames, policy_key, thing_key
from penstock.twins.policies import default_policy
from penstock.twins.state import TwinsState
from penstock.twins.twin import Twin

ABOUT = "milliseconds to a page of a search among many things, and how late the index is while they change"

SEED = 23
PAGE = 25
SUBJECT = f"nginx:{USER}"
NOW = 1_700_000_000_000_000
# Things that have the same location: a search for one finds a page.
ALIKE = 25
# Seconds for one answer, and for the index to be filled.
PATIENCE = 60.0
FILLING = 600.0
# Seconds between two looks at the lag.
LOOK = 0.02


@dataclass(frozen=True, slots=True)
class Plan:
    """So many things, searches of each kind, changes a second and for how long."""

    things: int = 100_000
    searches: int = 1000
    warm_up: int = 100
    rate: int = 1000
    seconds: float = 10.0


@dataclass(slots=True)
class Figures:
    """Milliseconds p50 and p99 of each kind of search, and of the lag."""

    filled: float = 0.0
    times: dict[str, tuple[float, float]] = field(default_factory=dict)
    lags: list[float] = field(default_factory=list)
    changed: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)


def thing(number: int, random: Random, alike: int) -> dict[str, object]:
    return {
        "thingId": f"bench:{number:06}",
        "policyId": f"bench:{number:06}",
        "attributes": {"location": f"room {number // alike}", "level": random.random() * 1000, "maker": "ACME"},
        "features": {"lamp": {"properties": {"on": bool(number % 2), "color": ["red", "green", "blue"][number % 3]}}},
    }


def write_things(journal: Path, plan: Plan) -> None:
    """The saved state of a server that has these things, without their history."""
    names, random = TwinNames(), Random(SEED)
    twins: dict[str, Twin] = {}
    for number in range(plan.things):
        document = thing(number, random, ALIKE)
        id = str(document["thingId"])
        twins[names.entity(policy_key(id))] = Twin(default_policy(id, SUBJECT), 1, NOW, NOW)
        twins[names.entity(thing_key(id))] = Twin(document, 1, NOW, NOW)
    save_state(DirectoryDisk(journal, make=True), TwinsState(0, twins))


# -- the load -----------------------------------------------------------------------------------------------------


class Searcher:
    """One connection for HTTP, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._authorization = b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    async def get(self, path: str) -> bytes:
        self._writer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {self._authorization}\r\n\r\n".encode()
        )
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), PATIENCE)
        if b"chunked" in head.lower():
            body = b""
            while size := int(await self._reader.readline(), 16):
                body += (await self._reader.readexactly(size + 2))[:-2]
            await self._reader.readexactly(2)
            return body
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None, head
        return await self._reader.readexactly(int(length[1]))

    async def search(self, filter: str) -> list[dict[str, object]]:
        answer = msgspec.json.decode(await self.get(f"/api/2/search/things?filter={quote(filter)}"))
        assert "items" in answer, answer
        return list(answer["items"])

    async def figure(self, name: str) -> float:
        found = re.search(rf"(?m)^{name} ([\d.e+-]+)$", (await self.get("/metrics")).decode())
        assert found is not None, name
        return float(found[1])


def address(child: Child) -> tuple[str, int]:
    match = re.search(r"api=http://([\d.]+):(\d+)", child.ready)
    assert match is not None, child.ready
    return match[1], int(match[2])


@asynccontextmanager
async def searcher(child: Child) -> AsyncIterator[Searcher]:
    reader, writer = await asyncio.open_connection(*address(child), limit=1 << 24)
    try:
        yield Searcher(reader, writer)
    finally:
        writer.close()
        # Of a connection that was lost.
        with suppress(OSError):
            await writer.wait_closed()


class Changer(WebSocketClient):
    """Sends changes and counts answers."""

    def __init__(self) -> None:
        super().__init__()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answered = 0
        self.failures: Counter[str] = Counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        credentials = b64encode(f"{USER}:{PASSWORD}".encode())
        self.transport.write(
            b"GET /ws/2 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n"
            b"Authorization: Basic " + credentials + b"\r\n\r\n"
        )

    def opened(self) -> None:
        self.ready.set_result(None)

    def received(self, payload: bytes) -> None:
        self.answered += 1
        if b'"status":204' not in payload:
            self.failures["a change was refused"] += 1

    def failed(self, reason: str) -> None:
        self.failures[reason] += 1

    def change(self, number: int, level: float) -> None:
        message = {
            "topic": f"bench/{number:06}/things/twin/commands/modify",
            "headers": {"correlation-id": "c"},
            "path": "/attributes/level",
            "value": level,
        }
        self.transport.write(client_frame(msgspec.json.encode(message).decode()))


# -- measuring ----------------------------------------------------------------------------------------------------


def kinds(plan: Plan) -> dict[str, str]:
    """Filters by what they are; `{}` is a random room."""
    return {
        "one indexed condition": 'eq(attributes/location,"room {}")',
        "two conditions": 'and(eq(attributes/location,"room {}"),eq(features/lamp/properties/on,true))',
        "a range that half of the things meet": "gt(attributes/level,500)",
        "a range that 1 in 1,000 meets": "gt(attributes/level,999)",
        "no condition that the index knows": "not(eq(attributes/location,'room {}'))",
    }


async def timed(search: Searcher, plan: Plan, filter: str, failures: Counter[str]) -> tuple[float, float]:
    random = Random(SEED)
    times = []
    for number in range(plan.warm_up + plan.searches):
        asked = filter.replace("{}", str(random.randrange(plan.things // ALIKE)))
        begin = time.perf_counter()
        found = await search.search(asked)
        if number >= plan.warm_up:
            times.append((time.perf_counter() - begin) * 1000)
        if not 1 <= len(found) <= PAGE:
            failures["a search has found too little or too much"] += 1
    return float(np.percentile(times, 50)), float(np.percentile(times, 99))


async def changed(child: Child, search: Searcher, plan: Plan, figures: Figures) -> None:
    """Change things at a rate, and look at the lag meanwhile."""
    _, changer = await asyncio.get_running_loop().create_connection(Changer, *address(child))
    await asyncio.wait_for(changer.ready, PATIENCE)
    random = Random(SEED)
    begin = time.perf_counter()
    count = int(plan.rate * plan.seconds)
    sent = 0
    seen = time.perf_counter()
    while sent < count:
        due = min(count, int((time.perf_counter() - begin) * plan.rate))
        for _ in range(due - sent):
            changer.change(random.randrange(plan.things), random.random())
        sent = due
        if time.perf_counter() >= seen + LOOK:
            seen = time.perf_counter()
            figures.lags.append(1000 * await search.figure("penstock_ditto_search_lag_seconds"))
        await asyncio.sleep(0.002)
    end = time.perf_counter() + PATIENCE
    while changer.answered < count and time.perf_counter() < end:  # noqa: ASYNC110 - it is a count
        await asyncio.sleep(0.005)
    figures.changed = changer.answered / (time.perf_counter() - begin)
    figures.failures += changer.failures
    if changer.answered != count:
        figures.failures["a change was not answered"] += count - changer.answered
    changer.transport.abort()


async def measure(plan: Plan, directory: Path, cores: Cores) -> Figures:
    figures = Figures()
    write_things(directory / "data" / "journal", plan)
    (directory / "users").write_text(User(USER, hashed(PASSWORD), ()).line() + "\n")
    with penstock(directory, cores.server, SETTINGS) as child:
        async with searcher(child) as search:
            begin = time.perf_counter()
            while await search.figure("penstock_ditto_search_indexed_total") < plan.things:
                if time.perf_counter() > begin + FILLING:
                    figures.failures["the index was not filled in time"] += 1
                    return figures
                await asyncio.sleep(0.1)
            figures.filled = time.perf_counter() - begin
            for name, filter in kinds(plan).items():
                figures.times[name] = await timed(search, plan, filter, figures.failures)
            await changed(child, search, plan, figures)
    return figures


# -- the benchmark ------------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    plan = Plan()
    parser.add_argument("--things", type=int, default=plan.things, help="how many (default %(default)s)")
    parser.add_argument("--searches", type=int, default=plan.searches, help="of each kind (default %(default)s)")
    parser.add_argument("--rate", type=int, default=plan.rate, help="changes a second (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="of changes (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 10


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when something was wrong or missing."""
    report = Report("search")
    plan = Plan(options.things, options.searches, min(100, options.searches), options.rate, options.seconds)
    with tempfile.TemporaryDirectory(prefix=".bench-search-", dir=Path.cwd()) as folder:
        figures = await measure(plan, Path(folder), cores)
    show(report, plan, figures)
    return report.save()


def show(report: Report, plan: Plan, figures: Figures) -> None:
    report.remark(f"The index of {plan.things:,} things was filled in {figures.filled:.1f} s.")
    report.table(
        f"milliseconds to a page of {PAGE} out of {plan.things:,} things",
        ("p50", "p99"),
        [(name, f"{p50:.1f}", f"{p99:.1f}") for name, (p50, p99) in figures.times.items()],
    )
    if figures.lags:
        p50, p99 = (float(np.percentile(figures.lags, at)) for at in (50, 99))
        report.table(
            f"milliseconds by which the index is late at {figures.changed:,.0f} changes a second",
            ("p50", "p99", "most"),
            [("lag", f"{p50:.1f}", f"{p99:.1f}", f"{max(figures.lags):.1f}")],
        )
    report.failures("search", figures.failures)
