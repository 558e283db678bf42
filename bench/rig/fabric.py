"""A hub that publishes at a fixed pace, or an edge that follows its items, as a process: what crosses between them.

Both are the real servers without clients: the hub has an adapter that makes events by itself, each with a number and
the time; the edge follows items as a subscription does, and checks that no number is missing. Orders come on standard
input, answers are lines of JSON. Read next: bench/scenarios/fabric.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from bench.rig.server import ADAPTER_SET, DATA_ADAPTER
from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.cluster.local import LocalEdge, LocalHub
from penstock.cluster.nats import NatsEdge, NatsHub
from penstock.collector import settle
from penstock.config import Config, load
from penstock.kernel.follower import Follower
from penstock.kernel.item import Mode
from penstock.kernel.ports import Event
from penstock.log import configure
from penstock.server import Server
from penstock.services.cluster.edge import EdgeServer
from penstock.services.cluster.hub import HubPart

# Seconds between two bursts of a publisher: events come in as those of an adapter that reads a socket do.
PACE = 0.001

# One event in so many is timed; all are checked.
TIMED = 16

# Seconds without any event after which what is still under way counts as lost, and between two looks.
PATIENCE = 20.0
LOOK = 0.005

# What neither number nor time is, in an event.
VALUE = "12345.67"


def item_name(number: int) -> str:
    return f"item{number}"


# -- the hub -----------------------------------------------------------------------------------------------------------


class PacedAdapter(DataAdapter):
    """Publishes numbered events of its items in turn."""

    def __init__(self, items: int) -> None:
        self._names = [item_name(number) for number in range(items)]
        self._published = 0

    def has_snapshot(self, item: str) -> bool:
        return False

    async def subscribe(self, item: str) -> None:
        """They are published whether anybody wants them or not."""

    async def publish(self, rate: float, seconds: float) -> dict[str, Any]:
        """At this pace for this time; what a busy machine has delayed is made up for at once."""
        begin, done, bursts = time.monotonic(), 0, 0
        while (now := time.monotonic() - begin) < seconds:
            due = int(now * rate) - done
            if due > 0:
                self._burst(due)
                done += due
                bursts += 1
            await asyncio.sleep(PACE)
        return {"published": done, "bursts": bursts, "total": self._published}

    def _burst(self, count: int) -> None:
        names, first = self._names, self._published
        size = len(names)
        stamp = str(time.monotonic_ns())
        self.updates(
            [
                (names[number % size], {"number": str(number // size + 1), "stamp": stamp, "value": VALUE})
                for number in range(first, first + count)
            ]
        )
        self._published = first + count


async def be_hub(config: Config, over: Path | str, items: int) -> None:
    adapter = PacedAdapter(items)
    fabric = (
        LocalHub(over) if isinstance(over, Path) else NatsHub(config.cluster, config.server.node, secrets.token_hex(8))
    )
    part = HubPart(fabric, time.time_ns(), [])
    server = Server(config, [AdapterSet(ADAPTER_SET, MetadataAdapter(), {DATA_ADAPTER: adapter})], hub=part)
    await server.start()

    async def obey(order: dict[str, Any]) -> dict[str, Any]:
        return await adapter.publish(order["rate"], order["seconds"])

    await _obey_all(obey)
    await server.stop()


# -- an edge -----------------------------------------------------------------------------------------------------------


class Numbers(Follower):
    """Follows an item: each event has the number after the one before."""

    def __init__(self, times: list[int]) -> None:
        self._times = times
        self.last = 0
        self.wrong = ""

    def follow(self, event: Event, whole: Event, snapshot: bool) -> None:
        number = int(event["number"] or 0)
        if number != self.last + 1:
            self.wrong = self.wrong or f"{number} after {self.last}"
        elif event["value"] != VALUE:
            self.wrong = self.wrong or f"the value {event['value']} of number {number}"
        self.last = number
        if not number % TIMED:
            self._times.append(time.monotonic_ns() - int(event["stamp"] or 0))

    def clear(self) -> None:
        self.wrong = self.wrong or "cleared"


class FollowingEdge:
    """Those items whose numbers are `start`, `start + step` and so on."""

    def __init__(self, server: EdgeServer, items: int, start: int, step: int) -> None:
        self._server = server
        self._items = items
        self._times: list[int] = []
        self._followers = {number: Numbers(self._times) for number in range(start, items, step)}

    async def follow(self) -> None:
        """Until the hub has answered for all of them."""
        feed = self._server.kernel.feed(ADAPTER_SET, DATA_ADAPTER)
        for number, follower in self._followers.items():
            item = feed.kept_item(item_name(number))
            item.join(Mode.RAW, follower)
            item.mode = Mode.MERGE
            feed.keep(item, Mode.MERGE)
        reader, end = self._server.link.reader, time.monotonic() + PATIENCE
        while reader.unanswered:
            if time.monotonic() > end:
                raise TimeoutError(f"the hub has not answered for {reader.unanswered} items")
            await asyncio.sleep(LOOK)

    async def report(self, order: dict[str, Any]) -> dict[str, Any]:
        """When all that the hub has published until now is here, or does not come."""
        total, items = order["total"], self._items
        wanted = {number: (total - number + items - 1) // items for number in self._followers}
        lacking, end = self._lacking(wanted), time.monotonic() + PATIENCE
        while lacking and time.monotonic() < end:
            await asyncio.sleep(LOOK)
            before, lacking = lacking, self._lacking(wanted)
            if lacking < before:
                end = time.monotonic() + PATIENCE
        wrong = [each.wrong for each in self._followers.values() if each.wrong]
        if self._server.link.reader.repairs:
            wrong.append(f"{self._server.link.reader.repairs} items had to be asked for again")
        times = sorted(self._times)
        self._times.clear()
        return {
            "lost": lacking,
            "wrong": wrong[:1],
            "p50": _percentile(times, 0.5),
            "p99": _percentile(times, 0.99),
        }

    def _lacking(self, wanted: dict[int, int]) -> int:
        return sum([max(0, count - self._followers[number].last) for number, count in wanted.items()])


def _percentile(times: list[int], share: float) -> float:
    """In milliseconds."""
    return times[min(len(times) - 1, int(len(times) * share))] / 1e6 if times else 0.0


async def be_edge(config: Config, over: Path | str, name: str, items: int, start: int, step: int) -> None:
    fabric = LocalEdge(over, name) if isinstance(over, Path) else NatsEdge(config.cluster, name, secrets.token_hex(8))
    server = EdgeServer(config, name, fabric)
    await server.start()
    edge = FollowingEdge(server, items, start, step)
    await edge.follow()
    await _obey_all(edge.report)
    await server.stop()


# -- orders ------------------------------------------------------------------------------------------------------------


async def _obey_all(obey: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
    """Until standard input ends; whoever asks waits for the answer, so a line comes alone and whole."""
    settle()
    print("ready", flush=True)
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), lambda: lines.put_nowait(os.read(sys.stdin.fileno(), 1000)))
    while line := await lines.get():
        print(json.dumps(await obey(json.loads(line))), flush=True)
    loop.remove_reader(sys.stdin.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rig.fabric")
    parser.add_argument("--edge", default="", help="the name of an edge; none is the hub")
    parser.add_argument("--directory", type=Path, required=True, help="of sockets, and of the hub's data")
    parser.add_argument("--nats", default="", help="the address of a server; none is the fabric of one machine")
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--start", type=int, default=0, help="the first item that an edge follows")
    parser.add_argument("--step", type=int, default=1, help="from one item that an edge follows to the next")
    options = parser.parse_args()
    configure("warning", "text")
    settings: dict[str, Any] = {
        "stream.port": 0,
        "api.port": 0,
        "server.data_dir": str(options.directory / "data"),
        "server.node": options.edge or "hub",
    }
    if options.nats:
        settings |= {"cluster.nats": [options.nats], "cluster.role": "edge" if options.edge else "hub"}
    config = load(None, settings).config
    over = options.nats or options.directory
    if options.edge:
        uvloop.run(be_edge(config, over, options.edge, options.items, options.start, options.step))
    else:
        uvloop.run(be_hub(config, over, options.items))


if __name__ == "__main__":
    main()
