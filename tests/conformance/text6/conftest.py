"""What the tests of the text protocol share besides: a device that speaks it, a server with stricter metadata."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.adapters import ClientFacts
from tests.conformance.text6.phrases import Device
from tests.support.background import BackgroundServer, HandMetadata
from tests.support.raw import Exchange


@pytest.fixture
def device(exchange: Exchange) -> Device:
    return Device(exchange)


class StrictMetadata(HandMetadata):
    """Remembers what users say of themselves; those whose name begins with `limited` have 40.5 kbit/s at most."""

    def __init__(self) -> None:
        super().__init__()
        self.credentials: list[tuple[str | None, str | None]] = []

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> None:
        self.credentials.append((user, password))
        await super().authenticate(user, password, client)

    def max_bandwidth(self, user: str | None) -> float | None:
        return 40.5 if user is not None and user.startswith("limited") else None

    def manages_bandwidth(self, user: str | None) -> bool:
        return user not in ("unmanaged", "limited and unmanaged")


@pytest.fixture
def strict() -> Iterator[tuple[Device, StrictMetadata]]:
    """A device, and the metadata adapter of the server it talks to."""
    server = BackgroundServer({})
    metadata = StrictMetadata()
    server.metadata = metadata
    with server:
        yield Device(Exchange(server.host, server.port)), metadata
