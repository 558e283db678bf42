"""Documents of connections in their store: encrypted, and lost without the key."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from penstock.store.connections import FILE, KEY_FILE, ConnectionStore
from penstock.store.errors import CannotOpen

SECRET = b'{"uri":"tcp://user:hush@host"}'


def test_a_document_is_there_after_a_restart_and_no_file_shows_it(tmp_path: Path) -> None:
    store = ConnectionStore.open("", tmp_path)
    store.put("one", b"{}")
    store.put("one", SECRET)
    store.put("two", b"{}")
    store.remove("two")
    store.close()
    assert not any(b"hush" in path.read_bytes() for path in tmp_path.iterdir())
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    again = ConnectionStore.open("", tmp_path)
    assert again.all() == {"one": SECRET}
    again.close()


@pytest.mark.parametrize(("key", "words"), [(None, "encrypted with another key"), (b"short", "is damaged")])
def test_without_the_key_it_says_so(tmp_path: Path, key: bytes | None, words: str) -> None:
    store = ConnectionStore.open("", tmp_path)
    store.put("one", SECRET)
    store.close()
    (tmp_path / KEY_FILE).unlink()
    if key is not None:
        (tmp_path / KEY_FILE).write_bytes(key)
    with pytest.raises(CannotOpen, match=words):
        opened(tmp_path)


def opened(directory: Path) -> None:
    store = ConnectionStore.open("", directory)
    try:
        store.all()
    finally:
        store.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"x" * 8_192)
    with pytest.raises(CannotOpen, match="the database of connections cannot be opened"):
        ConnectionStore.open("", tmp_path)


def test_the_key_can_be_elsewhere(tmp_path: Path) -> None:
    key = tmp_path / "elsewhere.key"
    store = ConnectionStore.open("", tmp_path, str(key))
    store.close()
    assert key.exists()
    assert not (tmp_path / KEY_FILE).exists()
