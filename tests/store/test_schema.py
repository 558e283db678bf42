from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, create_engine, inspect, text

from penstock.store import schema
from penstock.store.digest import DIGEST_SIZE, digest
from penstock.store.errors import WrongSchema
from penstock.store.store import Store


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def test_a_new_database_gets_all_tables_and_its_key(connection: Connection) -> None:
    assert schema.prepare(connection, b"k" * 32) == b"k" * 32
    assert set(inspect(connection).get_table_names()) == set(schema.metadata.tables)


def test_a_database_keeps_its_key(connection: Connection) -> None:
    schema.prepare(connection, b"1" * 32)
    assert schema.prepare(connection, b"2" * 32) == b"1" * 32


def test_a_database_of_a_newer_version_is_left_alone(store: Store, connection: Connection, url: str) -> None:
    connection.execute(text(f"UPDATE penstock_store SET version = {schema.VERSION + 1}"))
    connection.commit()
    with pytest.raises(
        WrongSchema, match=f"has layout {schema.VERSION + 1}; this version of Penstock knows layouts up to"
    ):
        Store.open(url)


def test_an_old_database_is_brought_up_to_date_step_by_step(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.prepare(connection, b"k" * 32)
    last = schema.VERSION
    steps = {
        last: lambda given: given.execute(text("ALTER TABLE accounts ADD COLUMN city VARCHAR(20)")),
        last + 1: lambda given: given.execute(text("UPDATE accounts SET city = 'Delft'")),
    }
    monkeypatch.setattr(schema, "STEPS", steps)
    monkeypatch.setattr(schema, "VERSION", last + 2)
    connection.execute(text("INSERT INTO accounts (uuid, name) VALUES ('1', 'one')"))
    assert schema.prepare(connection, b"2" * 32) == b"k" * 32
    assert connection.execute(text("SELECT city FROM accounts")).scalar() == "Delft"
    assert connection.execute(text("SELECT version FROM penstock_store")).scalar() == last + 2
    schema.prepare(connection, b"2" * 32)


def test_several_servers_may_create_the_same_database_at_once(url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(Store.open, [url] * 4))
    assert len({store._key for store in stores}) == 1
    for store in stores:
        store.close()


def test_every_step_up_to_the_version_is_there() -> None:
    assert set(schema.STEPS) == set(range(1, schema.VERSION))


def test_the_same_token_has_another_hash_under_another_key() -> None:
    assert digest(b"1" * 32, "token") == digest(b"1" * 32, "token")
    assert digest(b"1" * 32, "token") != digest(b"2" * 32, "token")
    assert len(digest(b"1" * 32, "token")) == DIGEST_SIZE
