"""A traffic-light controller: it sends what its signals show, and prints what brokers ask of it.

PENSTOCK_TLEX_TOKEN=… python controller.py [http://localhost:8081]
"""

import asyncio
import contextlib
import json
import os
import sys

from penstock.client.tlex import TlexApi, TlexError, connect
from penstock.wire.tlex.vocabulary import SessionType

CONTROLLER = "NLZH0023"
JSON_PAYLOAD = 0x02
PHASES = [("green", 4), ("amber", 2), ("red", 4)]


async def show(stream):
    while not (stream.closed or stream.is_to_reconnect):
        for signal, seconds in PHASES:
            stream.send(json.dumps({"signal": signal, "seconds": seconds}).encode(), JSON_PAYLOAD)
            await asyncio.sleep(seconds / 4)


async def main(url):
    api = TlexApi(url, os.environ["PENSTOCK_TLEX_TOKEN"])
    while True:
        try:
            session = await api.create("test", SessionType.TLC, [CONTROLLER], singleplex=True)
            async with await connect(session) as stream:
                showing = asyncio.create_task(show(stream))
                async for payload in stream:
                    print("asked:", payload.data.decode(), flush=True)
                showing.cancel()
        except TlexError as error:
            print(f"no session: {error}; trying again", file=sys.stderr)
        await asyncio.sleep(1)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(*(sys.argv[1:] or ["http://localhost:8081"])))
