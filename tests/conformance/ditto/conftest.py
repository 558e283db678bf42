"""A service with a journal on the disk, to which tests connect without sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.ditto.conftest import alice, site
from tests.doors.ditto.world import World, running

__all__ = ["alice", "site"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with running(tmp_path) as found:
        yield found
