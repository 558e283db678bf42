"""Databases that the code of an earlier layout has made are brought up to date when they are opened.

The files were made by that code, with one of everything in them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from penstock.store import schema
from penstock.store.checking import check_database
from penstock.store.push import PushStore
from penstock.store.store import Store
from tests.store.devices import device, everything, subscription
from tests.store.postgres import Postgres

HERE = Path(__file__).parent

# The secret of the one token, by kind of database.
SECRETS = {
    "sqlite": "GORbKyC1UvFYZ4n5Bw-hL113x8v-GuGIM98IKXhgtIg",
    "postgresql": "LK1HteaE0OlQ7liejOnrEC_Fc02NqlEdHqpkkeFYWco",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of layout 1."""
    if request.param == "sqlite":
        path = tmp_path / "old.db"
        path.write_bytes(gzip.decompress((HERE / "layout_1.db.gz").read_bytes()))
        return f"sqlite:///{path}"
    running: Postgres = request.getfixturevalue("postgres")
    engine = create_engine(running.url)
    schema.metadata.drop_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql((HERE / "layout_1.sql").read_text("utf-8"))
    engine.dispose()
    return running.url


def version(url: str) -> int:
    engine = create_engine(url)
    with engine.connect() as connection:
        found: int = connection.execute(text("SELECT version FROM penstock_store")).scalar_one()
    engine.dispose()
    return found


def layout(url: str) -> dict[str, object]:
    """Every table as the database describes it."""
    engine = create_engine(url)
    looked = inspect(engine)
    found: dict[str, object] = {}
    for table in looked.get_table_names():
        columns = [(each["name"], str(each["type"]), each["nullable"]) for each in looked.get_columns(table)]
        found[table] = (
            columns,
            looked.get_pk_constraint(table)["constrained_columns"],
            by_text(looked.get_indexes(table)),
            by_text(looked.get_foreign_keys(table)),
            by_text(looked.get_unique_constraints(table)),
        )
    engine.dispose()
    return found


def by_text(values: Iterable[Any]) -> list[str]:
    return sorted([str(each) for each in values])


def test_the_files_are_of_layout_1(old: str) -> None:
    assert version(old) == 1
    engine = create_engine(old)
    assert not [each for each in inspect(engine).get_table_names() if each.startswith("push_")]
    engine.dispose()


def test_what_was_there_is_still_there(old: str) -> None:
    store = Store.open(old)
    found = store.find(SECRETS[store.engine.dialect.name])
    assert found is not None
    assert (found.domain, found.role, found.identifiers) == ("test", "TLC_ADMIN", frozenset({"NLZH0001"}))
    assert [each.name for each in store.accounts()] == ["City of Delft"]
    assert [each.identifier for each in store.tlcs()] == ["NLZH0001"]
    assert [each.id for each in store.session_logs(0, 2_000_000_000_000)] == ["s1"]
    store.close()
    assert version(old) == schema.VERSION
    Store.open(old).close()


def test_devices_can_be_kept_in_it(old: str) -> None:
    store = Store.open(old)
    push = PushStore.join(store, "one")
    push.write(everything(device("d1"), subscription("s1", "d1")))
    assert push.load().devices == (device("d1"),)
    store.close()


def test_it_has_the_layout_of_a_new_one(old: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    Store.open(old).close()
    migrated = layout(old)
    new = f"sqlite:///{tmp_path / 'new.db'}"
    if not old.startswith("sqlite"):
        new = old
        engine = create_engine(new)
        schema.metadata.drop_all(engine)
        engine.dispose()
    Store.open(new).close()
    assert migrated == layout(new)


def test_looking_whether_it_can_be_opened_changes_nothing(old: str) -> None:
    check_database(old, is_made=False)
    assert version(old) == 1
