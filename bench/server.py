"""The server under test for fan-out: the whole of Penstock, with an adapter that publishes on order."""

from __future__ import annotations

import asyncio
import signal

import uvloop

from bench.workload import ADAPTER_SET, DATA_ADAPTER, NOTE, Publisher, item_name, value
from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.config import load
from penstock.log import configure
from penstock.server import Server


class RoundRobinAdapter(DataAdapter):
    """Gives the kernel whatever it is told to publish."""

    def has_snapshot(self, item: str) -> bool:
        return False

    def publish(self, item: int, sequence: int) -> None:
        self.update(item_name(item), {"sequence": str(sequence), "value": value(item, sequence), "note": NOTE})


async def main() -> None:
    config = load(None, {"stream.port": 0, "api.port": 0}).config
    configure("warning", "text")
    adapter = RoundRobinAdapter()
    server = Server(config, [AdapterSet(ADAPTER_SET, MetadataAdapter(), {DATA_ADAPTER: adapter})])
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await server.start()
    orders = asyncio.create_task(Publisher(adapter.publish).take_orders())
    print(server.ready_line(), flush=True)
    await stopped.wait()
    orders.cancel()
    await server.stop()


if __name__ == "__main__":
    uvloop.run(main())
