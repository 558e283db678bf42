"""A heater with a digital twin: it reports its temperature, and heats towards the set point of its twin.

python device.py [ws://localhost:8081/ws/2]
"""

import asyncio
import base64
import contextlib
import itertools
import json
import sys

from websockets.asyncio.client import connect

THING = "org.example/heater/things"
LOGIN = {"Authorization": "Basic " + base64.b64encode(b"ditto:ditto").decode()}
NEW = {"features": {"heater": {"properties": {"temperature": 18.0, "setPoint": 21.0}}}}


async def main(url):
    numbers = itertools.count(1)

    async def command(action, path, value):
        headers = {"correlation-id": str(next(numbers))}
        topic = f"{THING}/twin/commands/{action}"
        await socket.send(json.dumps({"topic": topic, "headers": headers, "path": path, "value": value}))

    async with connect(url, additional_headers=LOGIN) as socket:
        # Refused with 409 if the thing is there already, from an earlier run.
        await command("create", "/", NEW)
        await socket.send("START-SEND-EVENTS?filter=eq(thingId,'org.example:heater')")
        temperature, wanted = 18.0, 21.0
        while True:
            try:
                message = await asyncio.wait_for(socket.recv(), 1)
            except TimeoutError:
                temperature += 0.2 * (wanted - temperature)
                await command("modify", "/features/heater/properties/temperature", round(temperature, 2))
                continue
            if not message.startswith("{"):
                print(message, flush=True)
                continue
            event = json.loads(message)
            if event["path"].endswith("/setPoint") and "/twin/events/" in event["topic"]:
                wanted = event["value"]
                print(f"new set point: {wanted}", flush=True)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(*(sys.argv[1:] or ["ws://localhost:8081/ws/2"])))
