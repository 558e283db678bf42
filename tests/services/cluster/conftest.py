"""A hub with two edges for every test of this folder that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.services import sampling
from tests.services.cluster.site import ClusterSite


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSite]:
    """It takes samples when the test says so."""
    monkeypatch.setattr(sampling, "SAMPLE_PAUSE", 3_600.0)
    with ClusterSite(tmp_path) as running:
        yield running
