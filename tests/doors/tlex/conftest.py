"""A whole server with the TLEX door for the tests with sockets; those without make a `World`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.tlex.site import Site


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """`@pytest.mark.config({"tlex.max_strangers": 2})` changes its settings."""
    marker = request.node.get_closest_marker("config")
    with Site(tmp_path, marker.args[0] if marker else {}) as running:
        yield running
