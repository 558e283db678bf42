"""A server whose journal is read over the network: with a data directory, readers with tokens, and nothing else."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from penstock.config import load
from penstock.journal.journal import Journal
from penstock.server import Server
from penstock.services.readers.routes import JournalReading
from penstock.services.readers.service import ReadersService
from tests.pipeline.world import Event, append
from tests.support.background import ServerThread

TOKEN = "a-token-that-may-read-all-of-it"
NARROW_TOKEN = "a-token-for-two-entities-only"

READERS = f"""
[journal.readers.all]
token = "{TOKEN}"
entities = ["*"]

[journal.readers.narrow]
token = "{NARROW_TOKEN}"
entities = ["item-1", "item-3*"]
"""


class JournalServer(ServerThread):
    """Serves `directory`/data, where a journal may be already."""

    def __init__(
        self,
        directory: Path,
        readers: str = READERS,
        overrides: Mapping[str, object] = MappingProxyType({}),
        port: int = 0,
    ) -> None:
        super().__init__()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "penstock.toml"
        path.write_text(readers)
        self.data = directory / "data"
        settings = {"stream.port": 0, "api.port": port, "log.level": "error", "demo.enabled": False, **overrides}
        self.config = load(path, settings).config

    def make(self) -> Server:
        return Server(self.config, [], None, self.data)

    @property
    def journal_path(self) -> Path:
        return self.data / "journal"

    @property
    def api(self) -> str:
        return f"{'https' if self.config.api.tls.enabled else 'http'}://{self.host}:{self.api_port}"

    @property
    def journal(self) -> Journal:
        assert self.server.gatherer is not None
        return self.server.gatherer.journal

    @property
    def reading(self) -> JournalReading:
        (service,) = [each for each in self.server.services if isinstance(each, ReadersService)]
        assert service.reading is not None
        return service.reading

    def append(self, events: Iterable[Event], *, frame: int = 1_000) -> int:
        """Append and wait until all of it can be read; the last sequence."""
        return append(self.journal, events, frame=frame)

    def get(self, path: str, *parameters: tuple[str, object], token: str | None = TOKEN) -> tuple[int, bytes]:
        """Status and body."""
        connection = http.client.HTTPConnection(self.host, self.api_port, timeout=30)
        try:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            connection.request("GET", f"/api/journal{path}?{urlencode(parameters)}", headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ask(self, path: str, *parameters: tuple[str, object], token: str | None = TOKEN) -> tuple[int, Any]:
        """Status and JSON."""
        status, body = self.get(path, *parameters, token=token)
        return status, json.loads(body)
