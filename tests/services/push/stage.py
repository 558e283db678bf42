"""A whole server with push notifications, a client by raw TLCP, and a provider that the test looks into."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from penstock.adapters.api import AdapterSet
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Notification, Platform
from penstock.server import Server
from penstock.services.push.engine import PushEngine
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, Stream

APPLICATION = "com.mydomain.myapp"
TRIGGERS = r"Double\.parseDouble\(\$\[\d+\]\) [<>] [+-]?(\d*\.)?\d+"
FORMAT = '{"aps":{"alert":"${x} and ${y}"}}'

CONFIGURATION = f"""
[push]
enabled = true
journal = true
[push.apple."{APPLICATION}"]
min_send_delay_millis = 0
triggers = ['{TRIGGERS}']
"""


class HandProvider:
    """Answers as the test says, and keeps what it was sent."""

    platform = Platform.APPLE
    application = APPLICATION
    max_payload = 4_096
    public_key: str | None = None

    def __init__(self) -> None:
        self.sent: list[tuple[str, Notification]] = []
        self.answer: Callable[[Notification], Handover] = lambda notification: Handover(Verdict.ACCEPTED)
        self._changed = threading.Condition()

    def check_token(self, token: str) -> None: ...

    def check_format(self, structure: dict[str, Any]) -> dict[str, Any]:
        return structure

    async def send(self, token: str, notification: Notification, now: float) -> Handover:
        with self._changed:
            self.sent.append((token, notification))
            self._changed.notify_all()
        return self.answer(notification)

    def wait(self, count: int) -> list[Notification]:
        """Until so many have been sent in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.sent) >= count, 20), self.sent
            return [notification for _, notification in self.sent]

    def reload(self) -> None: ...

    async def close(self) -> None: ...


class PushServer(BackgroundServer):
    """Adapter set TEST, with push notifications for one application of Apple's."""

    def __init__(
        self, directory: Path, overrides: Mapping[str, object] | None = None, text: str = CONFIGURATION
    ) -> None:
        file = directory / "penstock.toml"
        file.write_text(text, "utf-8")
        super().__init__(overrides or {}, file)
        self._data_dir = directory / "data"
        self._data_dir.mkdir(exist_ok=True)
        self.provider = HandProvider()

    def make(self) -> Server:
        sets = [AdapterSet("TEST", self.metadata, self.adapters())]
        return Server(self.config, sets, data_dir=self._data_dir)

    def __enter__(self) -> Self:
        super().__enter__()
        self.call(self._take_provider)
        return self

    def _take_provider(self) -> None:
        self.engine.flights.providers = {(Platform.APPLE, APPLICATION): self.provider}

    @property
    def engine(self) -> PushEngine:
        engine = self.server.push.engine
        assert engine is not None
        return engine

    @property
    def tlcp(self) -> Exchange:
        return Exchange(self.host, self.port)

    def client(self) -> PushClient:
        return PushClient(self.tlcp)

    def wait(self, holds: Callable[[], bool]) -> None:
        """Until something holds on the server's thread."""
        deadline = time.monotonic() + 20
        while not self.call(holds):
            assert time.monotonic() < deadline, "it has not come to hold"
            time.sleep(0.01)


class PushClient:
    """A session over HTTP, with requests about devices."""

    def __init__(self, tlcp: Exchange, adapter_set: str = "TEST") -> None:
        self._tlcp = tlcp
        self.stream: Stream = tlcp.stream(adapter_set, send_sync=False)
        self.session = self.stream.session
        self._requests = 0
        self._numbers = 0
        self.device = ""
        self._seen: list[str] = []

    def __enter__(self) -> PushClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.http.close()

    def ask(self, op: str, **parameters: str) -> str:
        """One control request with parameters by their names; the line of the answer."""
        self._requests += 1
        named = "".join(f"&{name}={quote(value)}" for name, value in parameters.items())
        body = f"LS_session={self.session}&LS_reqId={self._requests}&LS_op={op}{named}"
        (line,) = self._tlcp.request("control", body)
        return line

    def done(self, op: str, tag: str, **parameters: str) -> list[str]:
        """A request that succeeds, and the arguments of its notification."""
        answer = self.ask(op, **parameters)
        assert answer == f"REQOK,{self._requests}", answer
        return self.told(tag)

    def told(self, tag: str) -> list[str]:
        """The arguments of the next notification with this tag; others before it are kept for later."""
        for place, line in enumerate(self._seen):
            if line.split(",")[0] == tag:
                return self._seen.pop(place).split(",")[1:]
        *before, found = self.stream.read_until(tag)
        self._seen += before
        return found.split(",")[1:]

    def register(self, token: str = "123456", **changed: str) -> str:
        parameters = {"PN_type": "Apple", "PN_appId": APPLICATION, "PN_deviceToken": token} | changed
        device, adapter = self.done("register", "MPNREG", **parameters)
        assert adapter == "MPN_INTERNAL_DATA_ADAPTER"
        self.device = device
        return device

    def parameters(self, **changed: str) -> dict[str, str]:
        """Those of an activation."""
        self._numbers += 1
        return {
            "LS_subId": str(self._numbers),
            "LS_data_adapter": "HAND",
            "LS_group": "item1",
            "LS_schema": "x y",
            "LS_mode": "MERGE",
            "PN_deviceId": self.device,
            "PN_notificationFormat": FORMAT,
        } | changed

    def activate(self, **changed: str) -> str:
        parameters = self.parameters(**changed)
        number, subscription = self.done("activate", "MPNOK", **parameters)
        assert number == parameters["LS_subId"]
        return subscription

    def subscribe(self, item: str, schema: str, mode: str = "MERGE", **parameters: str) -> str:
        self._numbers += 1
        return self.ask(
            "add",
            LS_subId=str(self._numbers),
            LS_data_adapter="MPN_INTERNAL_DATA_ADAPTER",
            LS_group=item,
            LS_schema=schema,
            LS_mode=mode,
            LS_snapshot="true",
            **parameters,
        )
