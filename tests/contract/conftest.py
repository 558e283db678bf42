"""One back end for all tests of a module: each leaves the adapters as it found them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.remote.support import Client
from tests.contract.backends import ALL, Backend


@pytest.fixture(scope="module", params=ALL)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with ALL[request.param]() as running:
        yield running


@pytest.fixture
def client(backend: Backend) -> Iterator[Client]:
    with backend.server.client() as connected:
        yield connected
        connected.control(op="destroy")
        connected.read("END")
