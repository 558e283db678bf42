"""A server with administrators, and with data adapters that the test drives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.adapters import AdapterSet
from penstock.adapters.demo import demo_sets
from penstock.server import Server
from tests.support.administration import Answer, ask, basic, write_users
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange


class AdminSite(BackgroundServer):
    """`ask` as root, unless another Authorization is given."""

    def __init__(
        self, directory: Path, overrides: Mapping[str, object] | None = None, file: Path | None = None
    ) -> None:
        """`file` is a configuration file, as for any server of tests."""
        self.users = directory / "users"
        write_users(self.users)
        super().__init__({"admin.users": str(self.users), **(overrides or {})}, file)
        self.data_dir = directory / "data"

    def make(self) -> Server:
        hand = AdapterSet("TEST", self.metadata, {"HAND": self.adapter, "PLAIN": self.plain, "DEFAULT": self.adapter})
        return Server(self.config, [hand, *demo_sets(seed=7)], None, self.data_dir)

    @property
    def exchange(self) -> Exchange:
        return Exchange(self.host, self.port)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        authorization: str | None = basic("root"),
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return ask(self.api_port, method, path, body, authorization, headers)
