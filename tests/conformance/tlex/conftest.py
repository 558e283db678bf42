"""Two servers for all tests of the TLEX hub: one with the usual limits and TLS, one whose limits are soon reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.tlex.site import Site
from tests.doors.tlex.tls import certified

STRICT = {
    "tlex.token_millis": 400,
    "tlex.handshake_millis": 400,
    "tlex.timestamps_millis": 300,
    "tlex.reconnect_millis": 300,
    "tlex.tlc.keep_alive_millis": 1_000,
    "tlex.tlc.payloads_per_second": 10,
    "tlex.tlc.payloads_seconds": 3,
    "tlex.tlc.kilobytes_per_second": 1,
    "tlex.tlc.kilobytes_seconds": 3,
    "tlex.broker.keep_alive_millis": 60_000,
    "tlex.broker.clock_difference_millis": 1_000,
}


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the hub's certificate."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("tlex"), certified(certificates)) as running:
        yield running


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("strict"), STRICT) as running:
        yield running


@pytest.fixture(autouse=True)
def hang_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """Connections do not outlive their test."""
    yield
    for name in {"site", "strict"}.intersection(request.fixturenames):
        running: Site = request.getfixturevalue(name)
        running.hang_up()
