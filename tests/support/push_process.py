"""A server process that sends push notifications to stand-ins, with items that the test publishes."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

from tests.services.push.stage import PushClient
from tests.support.apple import PATIENCE
from tests.support.process import ServerProcess
from tests.support.raw import Exchange

INGEST_TOKEN = "0123456789abcdef"
SETTINGS: dict[str, object] = {
    "adapters.TEST.data.HAND.adapter": "ingest",
    "adapters.TEST.data.HAND.parameters.items": ["*"],
    "adapters.TEST.data.HAND.parameters.tokens": [INGEST_TOKEN],
    "push.enabled": True,
}


class PushProcess(ServerProcess):
    """Adapter set TEST with the data adapter HAND; a device gets what the field `x` of an item is."""

    def __init__(self, directory: Path, settings: dict[str, object]) -> None:
        super().__init__(directory, {**SETTINGS, **settings})

    def client(self) -> PushClient:
        return PushClient(Exchange(self.host, self.port))

    def publish(self, value: str) -> None:
        line = json.dumps({"item": "item1", "fields": {"x": value, "y": ""}}).encode()
        address = f"http://127.0.0.1:{self.api_port}/api/ingest/TEST/HAND"
        request = Request(address, line, {"Authorization": f"Bearer {INGEST_TOKEN}"})
        with urlopen(request, timeout=PATIENCE) as answer:
            assert json.load(answer)["accepted"] == 1


def follow(client: PushClient, **changed: str) -> str:
    """A subscription of the client's device that is told of each update, unless changed."""
    return client.activate(PN_notificationFormat='{"aps":{"alert":"${x}"}}', **changed)
