"""A database is looked at without leaving a trace: no file, no table."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, update
from sqlalchemy.exc import OperationalError

from penstock.store.checking import check_database
from penstock.store.errors import WrongSchema
from penstock.store.schema import state
from penstock.store.store import Store


def tables(url: str) -> list[str]:
    engine = create_engine(url)
    try:
        return inspect(engine).get_table_names()
    finally:
        engine.dispose()


def test_a_new_database_is_fine_and_stays_empty(url: str, tmp_path: Path) -> None:
    check_database(url, is_made=False)
    assert list(tmp_path.iterdir()) == []
    assert tables(url) == []


def test_a_database_in_use_is_fine(url: str) -> None:
    store = Store.open(url)
    try:
        store.add_account("ann")
        check_database(url, is_made=False)
    finally:
        store.close()


def test_a_database_of_a_newer_version_is_refused(url: str) -> None:
    Store.open(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(update(state).values(version=1_000))
    engine.dispose()
    with pytest.raises(WrongSchema, match="layout 1000"):
        check_database(url, is_made=False)


def test_a_database_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperationalError):
        check_database(f"postgresql+psycopg://penstock@/postgres?host={tmp_path}", is_made=False)
