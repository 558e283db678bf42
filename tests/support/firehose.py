"""A server process with a feed of ten megabytes a second: `python -m tests.support.firehose`.

Each value begins with the time it was published at, on the clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import signal
import time

import uvloop

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.config import load
from penstock.log import configure
from penstock.server import Server

ITEMS = [f"hose{number}" for number in range(50)]
SIZE = 1_000
PER_SECOND = 10_000_000
# How often a batch is published.
PAUSE = 0.005
FILLING = "x" * SIZE


class Firehose(DataAdapter):
    """Publishes all its items in turn, as fast as it is told to, whether somebody is subscribed or not."""

    def has_snapshot(self, item: str) -> bool:
        return False

    async def run(self) -> None:
        began = time.monotonic()
        published = 0
        while True:
            await asyncio.sleep(PAUSE)
            due = int((time.monotonic() - began) * PER_SECOND / SIZE)
            for number in range(published, due):
                self.update(ITEMS[number % len(ITEMS)], {"x": f"{time.monotonic():.6f} {FILLING}"})
            published = due


async def main() -> None:
    config = load(None, {"stream.port": 0, "api.port": 0}).config
    configure("warning", "text")
    hose = Firehose()
    server = Server(config, [AdapterSet("HOSE", MetadataAdapter(), {"DEFAULT": hose})])
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await server.start()
    feed = asyncio.create_task(hose.run())
    print(server.ready_line(), flush=True)
    await stopped.wait()
    feed.cancel()
    await server.stop()


if __name__ == "__main__":
    uvloop.run(main())
