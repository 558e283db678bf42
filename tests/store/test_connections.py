"""Documents of connections in their store, in each kind of database: encrypted, and lost without the key."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from penstock.store.connections import FILE, KEY_FILE, ConnectionStore
from penstock.store.errors import CannotOpen

SECRET = b'{"uri":"tcp://user:hush@host"}'


def stored(url: str) -> list[bytes]:
    """As it is in the database."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = [bytes(row[0]) for row in connection.execute(text("SELECT document FROM penstock_connections"))]
    engine.dispose()
    return found


def test_a_document_is_there_after_a_restart_and_the_database_does_not_show_it(url: str, tmp_path: Path) -> None:
    store = ConnectionStore.open(url, tmp_path)
    store.put("one", b"{}")
    store.put("one", SECRET)
    store.put("two", b"{}")
    store.remove("two")
    store.remove("never")
    store.close()
    (document,) = stored(url)
    assert b"hush" not in document
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    again = ConnectionStore.open(url, tmp_path)
    assert again.all() == {"one": SECRET}
    again.close()


def test_a_document_may_be_as_large_as_is_allowed_and_have_any_bytes(url: str, tmp_path: Path) -> None:
    store = ConnectionStore.open(url, tmp_path)
    large = bytes(range(256)) * 1_024
    store.put("x" * 128, large)
    assert store.all() == {"x" * 128: large}
    store.close()


def test_no_file_of_the_data_directory_shows_a_document(tmp_path: Path) -> None:
    store = ConnectionStore.open("", tmp_path)
    store.put("one", SECRET)
    store.close()
    assert (tmp_path / FILE).exists()
    assert not any(b"hush" in path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize(("key", "words"), [(None, "encrypted with another key"), (b"short", "is damaged")])
def test_without_the_key_it_says_so(url: str, tmp_path: Path, key: bytes | None, words: str) -> None:
    store = ConnectionStore.open(url, tmp_path)
    store.put("one", SECRET)
    store.close()
    (tmp_path / KEY_FILE).unlink()
    if key is not None:
        (tmp_path / KEY_FILE).write_bytes(key)
    with pytest.raises(CannotOpen, match=words):
        opened(url, tmp_path)


def opened(url: str, directory: Path) -> None:
    store = ConnectionStore.open(url, directory)
    try:
        store.all()
    finally:
        store.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"x" * 8_192)
    with pytest.raises(CannotOpen, match="the database of connections cannot be opened"):
        ConnectionStore.open("", tmp_path)


def test_a_database_that_is_not_there_is_told_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match=r"the database of connections cannot be opened: .*refused") as raised:
        ConnectionStore.open("postgresql+psycopg://ada:hush@127.0.0.1:9/none", tmp_path)
    assert "hush" not in str(raised.value)


def test_the_key_can_be_elsewhere(url: str, tmp_path: Path) -> None:
    key = tmp_path / "elsewhere.key"
    store = ConnectionStore.open(url, tmp_path, str(key))
    store.close()
    assert key.exists()
    assert not (tmp_path / KEY_FILE).exists()
