"""The whole module of push notifications in a server process: many devices with a trigger each, while items change.

Updates are posted over HTTP, go through the kernel's watches to the triggers, and what fires is written to the database
and sent to the log. Beside it the same updates with one device for each item: what is left is the feed itself.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from uuid import UUID

from bench.rig.child import Child, ChildError, penstock
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.rig.table import row
from penstock.push.records import (
    Device,
    DeviceKey,
    DeviceStatus,
    Flow,
    Platform,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveSubscription,
    SubscriptionStatus,
)
from penstock.store.node import node_name
from penstock.store.opening import open_store
from penstock.store.push import PushStore

ABOUT = "share of a core, memory and start of a server with 100,000 devices that wait for 100 items"

SEED = 18
OPENING = 100.0
APPLICATION = "com.mydomain.myapp"
TOKEN = "a-token-of-the-benchmark-of-push-notifications"
SETTINGS = [
    'log.level = "info"',
    "[adapters.BENCH.data.FEED]",
    'adapter = "ingest"',
    f'parameters = {{ items = ["*"], tokens = ["{TOKEN}"] }}',
    "[push]",
    "enabled = true",
    f'[push.apple."{APPLICATION}"]',
]
FIELDS = ("name", "price", "time")
API = re.compile(r"  api=http://[\d.]+:(\d+)")
# Devices in one transaction, when the database is filled.
PORTION = 10_000
# Seconds before a measurement, and for what has fired to be sent at the end.
SETTLING = 2.0
PATIENCE = 60.0

# What may be used: share of a core, bytes of a device.
SHARE_GOAL = 0.5
MEMORY_GOAL = 2_048


@dataclass(frozen=True, slots=True)
class Plan:
    devices: int
    items: int
    # Updates a second of each item.
    rate: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one server; `behind` is how much later than planned the last update was published."""

    start: float
    start_cpu: float
    memory: int
    share: float
    behind: float
    expected: int
    sent: int


class Waiting:
    """The trigger of a device: above or below a price."""

    __slots__ = ("is_above", "item", "price")

    def __init__(self, random: Random, item: int) -> None:
        self.item = item
        self.is_above = random.random() < 0.5
        distance = abs(random.gauss(0, 10)) + 0.02
        self.price = round(OPENING + distance if self.is_above else OPENING - distance, 2)

    @property
    def text(self) -> str:
        return f"Double.parseDouble($[2]) {'>' if self.is_above else '<'} {self.price}"

    def fires(self, lowest: float, highest: float) -> bool:
        return highest > self.price if self.is_above else lowest < self.price


def waiting(plan: Plan) -> list[Waiting]:
    random = Random(SEED)
    return [Waiting(random, number % plan.items) for number in range(plan.devices)]


def walk(plan: Plan) -> Iterator[list[float]]:
    """The prices of all items, one update of each after the other; the same in every run."""
    random = Random(SEED)
    prices = [OPENING] * plan.items
    for _ in range(int(plan.rate * plan.seconds)):
        prices = [round(price + random.gauss(0, 0.05), 2) for price in prices]
        yield prices


def expected(plan: Plan) -> int:
    """How many triggers fire, found without anything of the server."""
    lowest, highest = [OPENING] * plan.items, [OPENING] * plan.items
    for prices in walk(plan):
        lowest = list(map(min, lowest, prices))
        highest = list(map(max, highest, prices))
    return sum(each.fires(lowest[each.item], highest[each.item]) for each in waiting(plan))


def changes(plan: Plan) -> Iterator[PushChange]:
    now = time.time_ns() // 1_000_000
    random = Random(SEED)
    for number, each in enumerate(waiting(plan)):
        id = str(UUID(int=random.getrandbits(128), version=4))
        item = f"item{each.item}"
        yield SaveDevice(
            Device(id, DeviceKey(Platform.APPLE, APPLICATION, f"{number:064x}"), DeviceStatus.ACTIVE, now, now)
        )
        yield SaveSubscription(
            PushSubscription(
                str(UUID(int=random.getrandbits(128), version=4)),
                id,
                Flow("BENCH", "FEED", item, " ".join(FIELDS), "MERGE", (item,), FIELDS),
                '{"aps":{"alert":"$[1] is $[2]","badge":"AUTO"}}',
                each.text,
                None,
                None,
                SubscriptionStatus.ACTIVE,
                now,
            )
        )


def fill(plan: Plan, data_dir: Path) -> None:
    """The database, as if all devices had been registered with the server that is started then."""
    data_dir.mkdir()
    store = open_store("", data_dir)
    try:
        push = PushStore.join(store, node_name(data_dir), 3_600_000)
        made = changes(plan)
        while portion := list(islice(made, 2 * PORTION)):
            push.write(portion)
        push.leave()
    finally:
        store.close()


class Feed:
    """Publishes the walk, all items in one request."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def close(self) -> None:
        self._http.close()

    def publish(self, number: int, prices: Sequence[float]) -> None:
        lines = [
            json.dumps({"item": f"item{item}", "fields": {"name": f"Item {item}", "price": price, "time": number}})
            for item, price in enumerate(prices)
        ]
        body = "\n".join(lines).encode()
        self._http.request("POST", "/api/ingest/BENCH/FEED", body, {"Authorization": f"Bearer {TOKEN}"})
        reply = self._http.getresponse()
        text = reply.read()
        if reply.status != 200 or json.loads(text)["accepted"] != len(prices):
            raise ChildError(f"the server did not take updates: {reply.status} {text[:200]!r}")

    def figure(self, name: str) -> float:
        self._http.request("GET", "/metrics")
        text = self._http.getresponse().read().decode()
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        if found is None:
            raise ChildError(f"/metrics has no {name}")
        return float(found[1])


def measure(plan: Plan, cores: Cores) -> Figures:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        fill(plan, directory / "data")
        begin = time.perf_counter()
        with penstock(directory, cores.server, SETTINGS) as server:
            start, start_cpu = time.perf_counter() - begin, server.cpu_seconds()
            port = API.search(server.ready)
            assert port is not None, server.ready
            feed = Feed(int(port[1]))
            try:
                return measure_feed(plan, server, feed, start, start_cpu)
            finally:
                feed.close()


def measure_feed(plan: Plan, server: Child, feed: Feed, start: float, start_cpu: float) -> Figures:
    for name in ("penstock_push_devices", "penstock_push_subscriptions"):
        if (there := feed.figure(name)) != plan.devices:
            raise ChildError(f"{name} is {there:,.0f} and not {plan.devices:,}")
    time.sleep(SETTLING)
    memory = server.memory()
    before, begin = server.cpu_seconds(), time.perf_counter()
    for number, prices in enumerate(walk(plan)):
        time.sleep(max(0.0, begin + number / plan.rate - time.perf_counter()))
        feed.publish(number, prices)
    took, spent = time.perf_counter() - begin, server.cpu_seconds() - before
    wanted, deadline = expected(plan), time.monotonic() + PATIENCE
    while (sent := feed.figure("penstock_push_notifications_total")) < wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return Figures(start, start_cpu, memory, spent / took, took - plan.seconds, wanted, int(sent))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", type=int, default=100_000, help="with one trigger each (default %(default)s)")
    parser.add_argument("--items", type=int, default=100, help="that they are on (default %(default)s)")
    parser.add_argument("--rate", type=int, default=10, help="updates a second of each item (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of updates (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 2


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False if not exactly those triggers have been notified that had to be."""
    report = Report("push")
    many = measure(Plan(options.devices, options.items, options.rate, options.seconds), cores)
    few = measure(Plan(options.items, options.items, options.rate, options.seconds), cores)
    each = (many.memory - few.memory) / (options.devices - options.items)
    rows = [
        row("share of a core", many.share, few.share, ".3f"),
        row("seconds to start", many.start, few.start, ".1f"),
        row("CPU-seconds to start", many.start_cpu, few.start_cpu, ".1f"),
        row("memory, MiB", many.memory / 2**20, few.memory / 2**20, ",.0f"),
        row("notifications sent", many.sent, few.sent, ",.0f"),
        row("seconds behind at the end", many.behind, few.behind, ".2f"),
    ]
    title = (
        f"a trigger for each device, {options.items} items at {options.rate} updates/s each for {options.seconds:g} s"
    )
    report.table(title, (f"{options.devices:,} devices", f"{options.items:,}", "ratio"), rows)
    share = many.share - few.share
    report.remark(f"{each:,.0f} bytes a device; the goal is {MEMORY_GOAL:,}: {met(each, MEMORY_GOAL)}.")
    report.remark(f"{share:.3f} of a core for the devices; the goal is {SHARE_GOAL}: {met(share, SHARE_GOAL)}.")
    for name, figures in (("many devices", many), ("few devices", few)):
        if figures.sent != figures.expected:
            report.failure(name, f"{figures.sent:,} notifications, and {figures.expected:,} triggers have come true")
    if not many.sent:
        report.failure("many devices", "no notification was sent")
    return report.save()


def met(figure: float, goal: float) -> str:
    return "met" if figure < goal else "MISSED"
