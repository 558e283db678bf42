"""A store in each kind of database: SQLite in a file of its own, and PostgreSQL, whose tables are dropped first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine

from penstock.store.store import Store
from tests.store.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    running: Postgres = request.getfixturevalue("postgres")
    engine = create_engine(running.url)
    # Those of the search index and of connections as well, whoever has left them.
    found = MetaData()
    found.reflect(engine)
    found.drop_all(engine)
    engine.dispose()
    return running.url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store.open(url)
    yield store
    store.close()
