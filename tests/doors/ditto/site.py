"""A whole server with users, tokens, rules and a journal, on a thread of the test process: what Ditto's doors stand on.

Users alice, bob and carol; set SITE has ingest adapter SENSORS, all of whose items alice may see, and bob those that
begin with `public`. `of` makes a client of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import jwt

from penstock.adapters.loading import Loader
from penstock.config import load
from penstock.server import Server
from tests.adapters.access.world import AUDIENCE, password_of, write_users
from tests.support.background import ServerThread

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


class Site(ServerThread):
    """The same directory again gives the same things again."""

    def __init__(
        self, directory: Path, overrides: Mapping[str, object] | None = None, configuration: str = CONFIGURATION
    ) -> None:
        super().__init__()
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._overrides = overrides or {}
        self._configuration = configuration
        self._clients: list[httpx.Client] = []

    def make(self) -> Server:
        write_users(self.directory / "users", {"alice": [], "bob": [], "carol": []})
        (self.directory / "secret").write_text(SECRET)
        (self.directory / "penstock.toml").write_text(self._configuration)
        settings = {"stream.port": 0, "api.port": 0, "log.level": "error", **self._overrides}
        loaded = load(self.directory / "penstock.toml", settings)
        return Server(loaded.config, [], Loader(loaded.directory, loaded.place), self.directory / "data")

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        super().stop()

    # -- clients ---------------------------------------------------------------------------------------------------

    def client(self, auth: tuple[str, str] | None = None, **headers: str) -> httpx.Client:
        base = f"http://{self.host}:{self.api_port}/api/2"
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
            f"http://{self.host}:{self.api_port}/api/ingest/SITE/SENSORS",
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
