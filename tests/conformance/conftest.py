"""What the conformance tests share: one server for all that need no settings of their own, a clock they can move."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import inf

import pytest

from penstock.doors.stream import turns
from penstock.testing.clock import Clock
from tests.support.background import BackgroundServer, HandAdapter
from tests.support.raw import Exchange


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance(row): the row of docs/conformance.md that this test shows")


@pytest.fixture(autouse=True)
def no_strain(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent is not to depend on how busy the machine is.

    On one that cannot keep up updates are conflated, those of each session at times of their own. The tests of that are
    in tests/doors/stream/test_turns.py.
    """
    monkeypatch.setattr(turns, "TOLERABLE_AGE", inf)


@pytest.fixture(scope="session")
def shared_server() -> Iterator[BackgroundServer]:
    with BackgroundServer({}) as running:
        yield running


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[BackgroundServer]:
    """The shared server, left empty after each test; one of its own for a test with `@pytest.mark.config`."""
    marker = request.node.get_closest_marker("config")
    if marker is None:
        shared: BackgroundServer = request.getfixturevalue("shared_server")
        yield shared
        shared.call(_clear, shared)
        return
    with BackgroundServer(marker.args[0]) as running:
        yield running


def _clear(server: BackgroundServer) -> None:
    for session in list(server.server.kernel.sessions.values()):
        session.close(32, "The test is over")
    for adapter in (server.adapter, server.plain):
        _clear_adapter(adapter)
    server.metadata.messages.clear()
    server.metadata.clients.clear()
    _expire_all(server)


def _expire_all(server: BackgroundServer) -> None:
    """Let all deadlines come: the beat of an earlier test's frequency would be joined by the next one's lanes."""
    kernel = server.server.kernel
    clock = kernel.clock
    try:
        while (deadline := kernel.next_deadline()) is not None:
            kernel.clock = Clock(max(deadline, clock()))
            kernel.turn()
    finally:
        kernel.clock = clock


def _clear_adapter(adapter: HandAdapter) -> None:
    adapter.state.clear()
    adapter.history.clear()


@pytest.fixture
def exchange(server: BackgroundServer) -> Exchange:
    return Exchange(server.host, server.port)


class MovableClock:
    """The kernel's time, which stands still until the test moves it."""

    def __init__(self, server: BackgroundServer) -> None:
        self._server = server
        self._clock = Clock(time.monotonic())

    def __call__(self) -> float:
        return self._clock()

    def advance(self, seconds: float) -> None:
        """Move on, and let everything that is due happen."""
        self._server.call(self._move, seconds)

    def _move(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self._server.server.turns.run()


@pytest.fixture
def clock(server: BackgroundServer, monkeypatch: pytest.MonkeyPatch) -> MovableClock:
    moved = MovableClock(server)
    monkeypatch.setattr(server.server.kernel, "clock", moved)
    return moved
