"""A whole server with users, tokens, rules and a journal, on a thread of the test process: what Ditto's doors stand on.

Users alice, bob and carol; set SITE has ingest adapter SENSORS, all of whose items alice may see, and bob those that
begin with `public`. `owner` makes a client of one of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx
import jwt
import uvloop

from penstock.adapters.loading import Loader
from penstock.config import load
from penstock.server import Server
from tests.adapters.access.world import AUDIENCE, password_of, write_users

T = TypeVar("T")

SECRET = "a secret of more than thirty-two characters"
FEED = "the token of the feed"

CONFIGURATION = """
[ditto]
adapter_set = "SITE"
issuer = "idp"
[adapters.SITE.metadata]
adapter = "access"
[adapters.SITE.metadata.parameters]
users = "users"
tokens = { secret_file = "secret", audience = "penstock" }
[[adapters.SITE.metadata.parameters.rules]]
users = ["alice"]
items = ["*"]
[[adapters.SITE.metadata.parameters.rules]]
users = ["bob"]
items = ["public*"]
[adapters.SITE.data.SENSORS]
adapter = "ingest"
parameters = { items = { "*" = "MERGE", "table*" = "COMMAND" }, tokens = ["the token of the feed"] }
[adapters.SITE.data.SENSORS.journal]
items = ["*"]
policy = "ack"
"""


class Site:
    """Used as a context manager; the same directory again gives the same things again."""

    def __init__(self, directory: Path, overrides: Mapping[str, object] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._overrides = overrides or {}
        self.server: Server
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._clients: list[httpx.Client] = []

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as failure:
            self._failure = failure
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        write_users(self.directory / "users", {"alice": [], "bob": [], "carol": []})
        (self.directory / "secret").write_text(SECRET)
        (self.directory / "penstock.toml").write_text(CONFIGURATION)
        settings = {"stream.port": 0, "api.port": 0, "log.level": "error", **self._overrides}
        loaded = load(self.directory / "penstock.toml", settings)
        loader = Loader(loaded.directory, loaded.place)
        self.server = Server(loaded.config, [], loader, self.directory / "data")
        await self.server.start()
        self._started.set()
        await self._stop.wait()
        await self.server.stop()

    def __enter__(self) -> Site:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait(20)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(20)
        if self._failure is not None:
            raise self._failure

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function on the server's loop."""

        async def run() -> T:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(20)

    # -- clients ---------------------------------------------------------------------------------------------------

    def client(self, auth: tuple[str, str] | None = None, **headers: str) -> httpx.Client:
        base = f"http://127.0.0.1:{self.server.api_port}/api/2"
        client = httpx.Client(base_url=base, auth=auth, headers=headers, timeout=20)
        self._clients.append(client)
        return client

    def of(self, user: str) -> httpx.Client:
        """The HTTP API as a user sees it."""
        return self.client((user, password_of(user)))

    def bearer(self, claims: Mapping[str, Any], secret: str = SECRET) -> httpx.Client:
        token = jwt.encode({"aud": AUDIENCE, **claims}, secret, "HS256")
        return self.client(authorization=f"Bearer {token}")

    def feed(self, lines: str) -> None:
        """Publish JSON lines at SENSORS; they are on the disk when this returns."""
        answer = httpx.post(
            f"http://127.0.0.1:{self.server.api_port}/api/ingest/SITE/SENSORS",
            content=lines,
            headers={"authorization": f"Bearer {FEED}"},
        )
        assert answer.status_code == 200, answer.text


MERGE = {"content-type": "application/merge-patch+json"}
EVENTS = {"accept": "text/event-stream"}


def entry(user: str, **resources: Any) -> dict[str, Any]:
    """An entry of a policy; `thing` and `policy` are lists of granted permissions, others are places in the thing."""
    effects: dict[str, Any] = {}
    for name, grant in resources.items():
        effects[f"{name}:/"] = {"grant": grant, "revoke": []}
    return {"subjects": {f"nginx:{user}": {"type": "test"}}, "resources": effects}


def policy(**entries: dict[str, Any]) -> dict[str, Any]:
    owner = entry("alice", thing=["READ", "WRITE"], policy=["READ", "WRITE"])
    return {"entries": {"OWNER": owner, **entries}}
