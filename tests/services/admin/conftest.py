"""A server with administrators for every test of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.admin.site import AdminSite


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AdminSite]:
    """Configured by `@pytest.mark.config`."""
    marker = request.node.get_closest_marker("config")
    with AdminSite(tmp_path, marker.args[0] if marker else {}) as running:
        yield running
