"""The witness of the doors stands beside the servers that are attacked here, too; and both event loops."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from tests.doors.conftest import errors, witness
from tests.transport.loops import Run

__all__ = ["errors", "witness"]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = uvloop.run if request.param == "uvloop" else asyncio.run
    # The first loop of a process opens descriptors that stay.
    found(asyncio.sleep(0))
    return found
