"""The server under test: the whole of Penstock, with an adapter that is fed over a socket.

The feed is lines of `item|value|value…`, so that Penstock takes in what is published as its peers do: on one
connection, written by the load. Read next: bench/load.py.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import uvloop

from penstock.adapters import AdapterSet, Customizer, DataAdapter, MetadataAdapter
from penstock.collector import settle
from penstock.config import load
from penstock.kernel.item import Mode
from penstock.kernel.ports import SessionFacts
from penstock.log import configure
from penstock.monitor.histogram import Histogram
from penstock.server import Server
from penstock.services.sampling import SamplingService

ADAPTER_SET = "BENCH"
DATA_ADAPTER = "FEED"


class FeedAdapter(DataAdapter):
    """Gives the kernel whatever comes in."""

    def __init__(self, fields: Sequence[str], differences: str) -> None:
        self._fields = fields
        self._differences = differences

    def has_snapshot(self, item: str) -> bool:
        return False

    async def subscribe(self, item: str) -> None:
        if self._differences:
            self.declare_differences(item, {"document": self._differences})

    def take(self, lines: str) -> None:
        """Many of them at once, as adapters should whenever they have them."""
        self.update_rows(self._fields, [line.split("|") for line in lines.split("\n")])


class CustomizingMetadata(MetadataAdapter):
    """Has every event of every subscription pass through a function that changes nothing."""

    quick = True

    def customizer(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> Customizer:
        return dict


class FeedConnection(asyncio.Protocol):
    """The publisher: whole lines go on, the rest waits for more."""

    def __init__(self, adapter: FeedAdapter) -> None:
        self._adapter = adapter
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        lines, end, self._rest = (self._rest + data).rpartition(b"\n")
        if end:
            self._adapter.take(lines.decode())


class Uncounted(Histogram):
    """In place of one that counts."""

    def add(self, seconds: float) -> None:
        pass


class Switch:
    """Takes the orders `on` and `off` from standard input: whether the server is sampled; says when it is done."""

    def __init__(self, server: Server) -> None:
        self._turns = server.turns
        self._ages = server.turns.ages
        [self._sampling] = [one for one in server.services if isinstance(one, SamplingService)]
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop.add_reader(sys.stdin.fileno(), self._hear)

    def _hear(self) -> None:
        """Whoever asks waits for the answer, so a line comes alone and whole."""
        order = os.read(sys.stdin.fileno(), 100).decode().strip()
        if not order:
            self._loop.remove_reader(sys.stdin.fileno())
            return
        task = self._loop.create_task(self._obey(order))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _obey(self, order: str) -> None:
        if order == "on":
            self._turns.ages = self._ages
            await self._sampling.open()
        else:
            await self._sampling.close()
            self._turns.ages = Uncounted()
        print(order, flush=True)


async def main(fields: Sequence[str], differences: str, customized: bool, settings: dict[str, Any]) -> None:
    # Nobody else is there to leave descriptors to.
    own = {"stream.port": 0, "api.port": 0, "stream.backlog": 4096, "stream.max_connections": 1_000_000}
    config = load(None, {**own, **settings}).config
    configure("warning", "text")
    adapter = FeedAdapter(fields, differences)
    metadata = CustomizingMetadata() if customized else MetadataAdapter()
    server = Server(config, [AdapterSet(ADAPTER_SET, metadata, {DATA_ADAPTER: adapter})])
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    await server.start()
    feed = await loop.create_server(lambda: FeedConnection(adapter), "127.0.0.1", 0)
    settle()
    print(f"{server.ready_line()}  feed={feed.sockets[0].getsockname()[1]}", flush=True)
    Switch(server)
    await stopped.wait()
    feed.close()
    await server.stop()


def settings_of(words: Sequence[str]) -> dict[str, Any]:
    """`key=value` of the configuration; whole numbers become numbers."""
    pairs = [word.split("=", 1) for word in words]
    return {key: int(value) if value.isdecimal() else value for key, value in pairs}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.rig.server")
    parser.add_argument("--fields", default="sequence,value,note0", help="names of the values of a line")
    parser.add_argument(
        "--differences", default="", help="how the field `document` is sent: P as JSON Patch, T as TLCP-diff"
    )
    parser.add_argument(
        "--customized", action="store_true", help="events pass through a function for each subscription"
    )
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of the configuration")
    options = parser.parse_args()
    uvloop.run(main(options.fields.split(","), options.differences, options.customized, settings_of(options.settings)))
