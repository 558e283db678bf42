"""A store in a file of its own; or in the database of the URL PENSTOCK_TEST_STORE, whose tables are dropped first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from penstock.store.schema import metadata
from penstock.store.store import Store


@pytest.fixture
def url(tmp_path: Path) -> str:
    given = os.environ.get("PENSTOCK_TEST_STORE")
    if given is None:
        return f"sqlite:///{tmp_path / 'store.db'}"
    engine = create_engine(given)
    metadata.drop_all(engine)
    engine.dispose()
    return given


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store.open(url)
    yield store
    store.close()
