"""What every test can ask for: a server in a process of its own, a server on a thread with adapters the test drives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.background import BackgroundServer
from tests.support.process import ServerProcess

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("PENSTOCK_PROFILE", "ci"))


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[BackgroundServer]:
    """A server on a thread; `@pytest.mark.config({"session.session_timeout_millis": 200})` changes its settings."""
    marker = request.node.get_closest_marker("config")
    with BackgroundServer(marker.args[0] if marker else {}) as running:
        yield running


@pytest.fixture
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server process with the demo adapter sets, configured by the same mark."""
    marker = request.node.get_closest_marker("config")
    with ServerProcess(tmp_path, marker.args[0] if marker else {}) as running:
        yield running
