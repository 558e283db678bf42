"""The `websockets` library on uvloop, from this environment: one broadcast for each update. The server is here too."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from bench.peers import Peer
from bench.rig.child import Child, Program, free_port

LARGEST = 16 * 1024 * 1024
BACKLOG = 4096


def install() -> str:
    return f"websockets {version('websockets')}, uvloop {version('uvloop')}"


def start(directory: Path, core: int | None) -> Program:
    return Child(directory, core, "bench.peers.websockets", str(free_port()))


PEER = Peer("websockets", "plain", "the library's broadcast, on uvloop", install, start)


async def main(port: int) -> None:
    """`s` and names subscribes, `p` and lines of `item|payload` publishes."""
    from websockets.asyncio.server import ServerConnection, broadcast, serve

    rooms: defaultdict[str, set[ServerConnection]] = defaultdict(set)

    async def handle(connection: ServerConnection) -> None:
        async for message in connection:
            text = str(message)
            if text.startswith("s"):
                for name in text.split()[1:]:
                    rooms[name].add(connection)
                await connection.send("ok")
                continue
            for line in text[1:].splitlines():
                item, _, payload = line.partition("|")
                broadcast(rooms[item], payload)

    # In favour of the library: no compression, no pings with their task for each connection.
    server = serve(handle, "127.0.0.1", port, compression=None, ping_interval=None, max_size=LARGEST, backlog=BACKLOG)
    async with server:
        print(f"websockets: ready  stream=http://127.0.0.1:{port}", flush=True)
        await asyncio.Future()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(int(sys.argv[1])))
