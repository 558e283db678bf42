"""A real server in a process of its own with an ingest adapter SET/OUT that journals, and what was published there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from penstock.journal.reader import JournalReader
from penstock.journal.selection import EventSelection
from tests.pipeline.sink_server import TOKEN
from tests.support.process import ServerProcess

SETTINGS: dict[str, object] = {
    "adapters.SET.data.OUT.adapter": "ingest",
    "adapters.SET.data.OUT.parameters.tokens": [TOKEN],
    'adapters.SET.data.OUT.parameters.items."m.*"': "MERGE",
    'adapters.SET.data.OUT.parameters.items."d.*"': "DISTINCT",
    'adapters.SET.data.OUT.parameters.items."c.*"': "COMMAND",
    "adapters.SET.data.OUT.journal.items": ["*"],
    "adapters.SET.data.OUT.journal.policy": "ack",
    "demo.enabled": False,
}


class RealServer(ServerProcess):
    """Used as a context manager, like the one it is."""

    def __init__(self, directory: Path, overrides: Mapping[str, object] = MappingProxyType({})) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, {**SETTINGS, **overrides})

    def __enter__(self) -> RealServer:
        super().__enter__()
        return self

    @property
    def api(self) -> str:
        return f"{'https' if 'api.tls.certificate' in self._settings else 'http'}://{self.host}:{self.api_port}"

    def published(self) -> list[tuple[str, dict[str, Any]]]:
        """Item and fields of every event, in order; subscribers get those of their items."""
        found = []
        for batch in JournalReader(self.directory / "data" / "journal").read(
            selection=EventSelection(kinds=("update",))
        ):
            for entity, value in zip(
                batch.column("entity").to_pylist(), batch.column("value").to_pylist(), strict=True
            ):
                found.append((entity.removeprefix("SET/OUT/"), json.loads(value)))
        return found
