"""What streaming is compared with: a server made with the `websockets` library that says what Ditto's door would say.

It sends as many messages as are asked for, each made of a template and its number: no history, no files, no
permissions. Not something to learn from.
"""

from __future__ import annotations

import asyncio

import msgspec
import uvloop
from websockets.asyncio.server import ServerConnection, serve

from bench.rig.ditto_history import PATH, THING

_TOPIC = f"{THING.replace(':', '/')}/things/twin"
_HEADERS = b'"headers":{"correlation-id":"bench","content-type":"application/json"}'


def _said(action: str, rest: bytes) -> bytes:
    return b"".join((f'{{"topic":"{_TOPIC}/streaming/{action}",'.encode(), _HEADERS, b',"path":"/","value":{', rest))


_NEXT = _said(
    "next",
    b'"subscriptionId":"0","item":{"topic":"%s/events/modified",%s,"path":"%s","value":%%d,"revision":%%d,'
    b'"timestamp":"2023-11-14T22:13:20.001Z"}}}' % (_TOPIC.encode(), _HEADERS, PATH.encode()),
)


async def handle(connection: ServerConnection) -> None:
    """One subscription at a time, by revision."""
    at = last = 0
    async for message in connection:
        said = msgspec.json.decode(message)
        value = said["value"]
        if "demand" not in value:
            at, last = value["fromHistoricalRevision"], value["toHistoricalRevision"]
            await connection.send(_said("created", b'"subscriptionId":"0"}}'), text=True)
            continue
        end = min(at + value["demand"], last + 1)
        for number in range(at, end):
            await connection.send(_NEXT % (number, number), text=True)
        at = end
        if at > last:
            await connection.send(_said("complete", b'"subscriptionId":"0"}}'), text=True)


async def main() -> None:
    async with serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        print(f"bare: ready  stream=http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    # A signal to stop just ends it: there is nothing to say goodbye to.
    uvloop.run(main())
