"""A store that has vanished or is damaged stops the start with a line that says what to do."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from penstock.store.errors import DamagedStore
from penstock.store.store import Store
from penstock.wire.tlex.vocabulary import TlcType
from tests.support.command import PORTS, run
from tests.support.forge import Forked

TLEX = "demo.enabled = false\ntlex.enabled = true\ntlex.port = 0\n"


def fill(path: Path) -> None:
    """A database of some pages."""
    store = Store.open(f"sqlite:///{path}")
    account = store.add_account("somebody")
    for number in range(300):
        store.add_tlc("example.com", f"tlc{number:05}", next(iter(TlcType)), account.uuid)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def damage_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = bytes(4096)
    path.write_bytes(data)


class Started:
    """`penstock serve` with TLEX in a data directory, told to stop as soon as it is ready."""

    def __init__(self, directory: Path) -> None:
        configuration = directory / "penstock.toml"
        configuration.write_text(TLEX)
        arguments = ["serve", "--config", str(configuration), *PORTS, "--data-dir", str(directory / "data")]
        process = Forked(arguments, directory)
        self.is_ready = "ready" in process.stdout.readline()
        if self.is_ready:
            process.terminate()
        _, self.log = process.communicate(timeout=30)
        self.code = process.wait()


def test_a_store_that_has_vanished_stops_the_start_until_the_note_is_deleted(tmp_path: Path) -> None:
    first = Started(tmp_path)
    assert first.is_ready
    assert "the store is new" not in first.log
    (tmp_path / "data" / "store.db").unlink()
    again = Started(tmp_path)
    assert (again.is_ready, again.code) == (False, 1)
    assert re.search(r"cannot start reason=.*store\.db is missing, although it was created here; restore it", again.log)
    assert not (tmp_path / "data" / "store.db").exists()
    done = run(tmp_path, "tlex", "account", "list", "--data-dir", "data")
    assert done.returncode == 1
    assert "store.db is missing" in done.stderr
    (tmp_path / "data" / "store.made").unlink()
    last = Started(tmp_path)
    assert last.is_ready
    # There is a journal: whoever has lost the note as well is at least told.
    assert last.log.count("the store is new although there is a journal") == 1


def test_a_store_that_is_damaged_in_the_middle_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "store.db"
    fill(path)
    damage_the_middle(path)
    before = path.read_bytes()
    found = Started(tmp_path)
    assert (found.is_ready, found.code) == (False, 1)
    assert re.search(r"cannot start reason=.*store\.db is damaged .*restore it from a backup", found.log)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(DamagedStore, match="file is not a database"):
        Store.open(f"sqlite:///{tmp_path / 'store.db'}")
