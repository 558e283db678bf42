from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.postgres import Postgres


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """One of its own for each test, because tests stop it."""
    with Postgres() as running:
        yield running
