"""The demo's things: a lamp that people switch, and a greenhouse and a turbine that report figures.

Changed over HTTP with the demo's user, as any device would. What things are is in `penstock.twins`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import Mapping
from random import Random

from penstock.client.api_port import ApiPort
from penstock.client.errors import ClientError
from penstock.log import get

log = get(__name__)

BASE = "/api/2"
# Seconds that the server has for an answer.
PATIENCE = 10.0

# The demo's user; its password is public, and only good for clients on the same machine.
LOGIN = {"Authorization": "Basic " + base64.b64encode(b"ditto:ditto").decode()}

NAMESPACE = "penstock.demo"

# Seconds between two reports of each thing.
REPORT = 2.0

UNAUTHORIZED = 401

Document = Mapping[str, object]

THINGS: Mapping[str, Document] = {
    f"{NAMESPACE}:lamp": {
        "attributes": {"place": "Turbine House, door", "maker": "Brightwell"},
        "features": {"light": {"properties": {"on": False, "brightness": 80}}},
    },
    f"{NAMESPACE}:greenhouse": {
        "attributes": {"place": "Weir Lane 4", "crop": "tomatoes"},
        "features": {
            "climate": {"properties": {"temperature": 21.0, "humidity": 64}},
            "window": {"properties": {"open": False}},
        },
    },
    f"{NAMESPACE}:turbine": {
        "attributes": {"place": "Turbine House", "serial": "T-1897"},
        "features": {"rotor": {"properties": {"rpm": 312, "kilowatts": 41.5}}, "gate": {"properties": {"percent": 55}}},
    },
}


class NotAllowed(ClientError):
    """The server does not let the demo's user in: it is not for this machine alone."""


class ThingsClient:
    """The HTTP API for things, as far as these devices need it. Requests wait, so they are for threads."""

    def __init__(self, api: str) -> None:
        self._port = ApiPort(api, BASE, PATIENCE, ClientError)

    def put(self, path: str, value: object, only_new: bool = False) -> None:
        """Raises ClientError. With `only_new` what is there already stays as it is."""
        headers = {**LOGIN, **({"If-None-Match": "*"} if only_new else {})}
        status, content = self._port.exchange("PUT", f"/things/{path}", json.dumps(value).encode(), headers)
        if status == UNAUTHORIZED:
            raise NotAllowed("the demo's user is not accepted")
        if status >= 400 and not (only_new and status == 412):
            raise ClientError(f"PUT /things/{path}: {status} {content[:200].decode(errors='replace')}")


def reports(random: Random, now: float) -> dict[str, object]:
    """What the sensors say at this time, by path."""
    wave = math.sin(now / 40)
    gate = round(55 + 20 * math.sin(now / 90))
    return {
        f"{NAMESPACE}:greenhouse/features/climate/properties": {
            "temperature": round(21 + 3 * wave + random.uniform(-0.2, 0.2), 1),
            "humidity": round(64 - 8 * wave + random.uniform(-1, 1)),
        },
        f"{NAMESPACE}:turbine/features/rotor/properties": {
            "rpm": round(5.6 * gate + random.uniform(-3, 3)),
            "kilowatts": round(0.75 * gate + random.uniform(-0.4, 0.4), 1),
        },
        f"{NAMESPACE}:turbine/features/gate/properties/percent": gate,
    }


async def report(client: ThingsClient, pause: float = REPORT) -> None:
    """Make the things that are not there yet, and report until cancelled; returns if the user is not accepted."""
    random = Random()
    made = False
    while True:
        try:
            if not made:
                for thing, document in THINGS.items():
                    await asyncio.to_thread(client.put, thing, document, True)
                made = True
            for path, value in reports(random, time.time()).items():
                await asyncio.to_thread(client.put, path, value)
        except NotAllowed:
            log.info("the demo has no things, because the server is not for this machine alone")
            return
        except ClientError as error:
            # The server may be restarting, or somebody has deleted one of them.
            log.debug("demo things cannot report", reason=str(error))
            made = False
        await asyncio.sleep(pause)
