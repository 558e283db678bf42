"""What the interop tests share: driver processes, a server process, and connections that are closed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.published import CERTIFICATE, PRIVATE_KEY, Drivers, PublishedClient
from tests.support.process import ServerProcess


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    running = Drivers(tmp_path_factory.mktemp("drivers"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server process with the demo sets, plain and over TLS, for all tests that leave it as they found it."""
    settings = {
        "demo.pace": 3.0,
        "stream.tls.certificate": str(CERTIFICATE),
        "stream.tls.private_key": str(PRIVATE_KEY),
        "stream.tls.port": 0,
    }
    with ServerProcess(tmp_path_factory.mktemp("demo"), settings) as running:
        yield running


@pytest.fixture
def open_client(drivers: Drivers) -> Iterator[Callable[[str], PublishedClient]]:
    """Makes a published client, not yet connected; disconnects all of them after the test."""
    opened: list[PublishedClient] = []

    def open_one(name: str) -> PublishedClient:
        opened.append(drivers.get(name).new_client())
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()
