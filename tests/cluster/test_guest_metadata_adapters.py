"""What `tests.contract.test_metadata_adapters` says, with guests: adapters in the hub's process, and of an SDK."""

from collections.abc import Iterator

import pytest

from tests.cluster.weaving import bad_fabric  # noqa: F401
from tests.contract.backends import ALL, Backend
from tests.contract.conftest import client  # noqa: F401
from tests.contract.test_metadata_adapters import *  # noqa: F403


@pytest.fixture(scope="module", params=["in-process", "python-sdk-1.3.1"])
def backend(request: pytest.FixtureRequest, bad_fabric: None) -> Iterator[Backend]:  # noqa: F811
    with ALL[request.param]() as running:
        yield running
