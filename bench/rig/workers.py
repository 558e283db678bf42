"""The server under test as several processes: the hub is this one, with the adapter that is fed; edges are children.

As `penstock serve --workers` has them, without the supervisor, which does nothing while all of them live.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from bench.rig.server import ADAPTER_SET, DATA_ADAPTER, FeedAdapter, FeedConnection, settings_of
from penstock.adapters import AdapterSet, MetadataAdapter
from penstock.cluster.local import LocalEdge, LocalHub
from penstock.collector import settle
from penstock.config import Config, load
from penstock.log import configure
from penstock.server import Server
from penstock.services.cluster.edge import EdgeServer
from penstock.services.cluster.hub import HubPart
from penstock.services.listening import planned
from penstock.transport.entrance import stream_entrances
from penstock.transport.reservation import Reservation

FIELDS = ("sequence", "value", "note0")
OWN: dict[str, Any] = {"api.port": 0, "stream.backlog": 4096, "stream.max_connections": 1_000_000}


def configured(settings: dict[str, Any], port: int) -> Config:
    return load(None, {**OWN, "stream.port": port, **settings}).config


async def be_hub(workers: int, words: list[str]) -> None:
    configure("warning", "text")
    reservation = Reservation(stream_entrances(configured(settings_of(words), 0)))
    port = reservation.ports["stream"]
    config = configured(settings_of(words), port)
    adapter = FeedAdapter(FIELDS, "")
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        part = HubPart(LocalHub(Path(directory)), time.time_ns(), planned(stream_entrances(config)))
        server = Server(config, [AdapterSet(ADAPTER_SET, MetadataAdapter(), {DATA_ADAPTER: adapter})], hub=part)
        await server.start()
        feed = await loop.create_server(lambda: FeedConnection(adapter), "127.0.0.1", 0)
        edges = [await _started(f"w{number + 1}", directory, port, words) for number in range(workers)]
        settle()
        address = f"stream=http://127.0.0.1:{port}"
        print(f"penstock: ready  {address}  feed={feed.sockets[0].getsockname()[1]}", flush=True)
        await stopped.wait()
        feed.close()
        for edge in edges:
            edge.terminate()
            await edge.wait()
        await server.stop()
        reservation.release()


async def _started(name: str, directory: str, port: int, words: list[str]) -> asyncio.subprocess.Process:
    arguments = ["--edge", name, "--directory", directory, "--port", str(port), *words]
    edge = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.rig.workers",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert edge.stdout is not None
    await edge.stdout.readline()
    return edge


async def be_edge(name: str, directory: Path, port: int, words: list[str]) -> None:
    configure("warning", "text")
    config = configured(settings_of(words), port)
    server = EdgeServer(config, f"bench-{name}", LocalEdge(directory, f"bench-{name}"), directory)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    # Nothing is ever said there: it ends with the hub, also with one that was killed.
    loop.add_reader(sys.stdin.fileno(), stopped.set)
    await server.start()
    settle()
    print("ready", flush=True)
    await stopped.wait()
    loop.remove_reader(sys.stdin.fileno())
    await server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.rig.workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--edge", default="", help="the name of an edge, which is started by the hub")
    parser.add_argument("--directory", type=Path, default=Path())
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="of the configuration")
    options = parser.parse_args()
    if options.edge:
        uvloop.run(be_edge(options.edge, options.directory, options.port, options.settings))
    else:
        uvloop.run(be_hub(options.workers, options.settings))
