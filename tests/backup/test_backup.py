"""Backups of a server that is being written to, put back and compared; and every mistake in one sentence."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from penstock.backup import backup
from penstock.backup.backup import LEFT_OUT, MANIFEST, BackupError, make, restore
from penstock.journal.erasure_note import NAME
from penstock.journal.reader import JournalReader
from penstock.store.connections import ConnectionStore
from tests.support import forge
from tests.support.process import ServerProcess

TOKEN = "0123456789abcdef"
ENTITY = "FARM/DEFAULT/barn"
SETTINGS: dict[str, object] = {
    "adapters.FARM.data.DEFAULT.adapter": "ingest",
    "adapters.FARM.data.DEFAULT.parameters.items": ["barn"],
    "adapters.FARM.data.DEFAULT.parameters.tokens": [TOKEN],
    "adapters.FARM.data.DEFAULT.journal.items": ["*"],
    "adapters.FARM.data.DEFAULT.journal.policy": "ack",
    # The least there is, so that a backup meets many segments.
    "journal.segment_bytes": 1_048_576,
    "tlex.enabled": True,
    "tlex.port": 0,
}
# Makes a segment of some hundred events.
PADDING = "x" * 4_000


class Sender:
    """Publishes 1, 2, 3, … and knows which of them the server has acknowledged as on disk."""

    def __init__(self, server: ServerProcess) -> None:
        self.acknowledged = 0
        self.failure: BaseException | None = None
        self._url = f"http://127.0.0.1:{server.api_port}/api/ingest/FARM/DEFAULT"
        self._enough = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stopped:
                numbers = range(self.acknowledged + 1, self.acknowledged + 11)
                lines = [json.dumps({"item": "barn", "fields": {"n": n, "padding": PADDING}}) for n in numbers]
                request = Request(self._url, "\n".join(lines).encode(), {"Authorization": f"Bearer {TOKEN}"})
                with urlopen(request, timeout=60) as answer:
                    assert json.load(answer)["accepted"] == len(lines)
                with self._enough:
                    self.acknowledged = numbers[-1]
                    self._enough.notify_all()
        except BaseException as error:
            self.failure = error
            with self._enough:
                self._enough.notify_all()

    def wait_for(self, number: int) -> None:
        with self._enough:
            assert self._enough.wait_for(lambda: self.acknowledged >= number or self.failure is not None, 90)
        assert self.failure is None

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped = True
            self._thread.join()
        assert self.failure is None


def numbers_in(journal: Path) -> list[int]:
    """What the journal has of the item, in order."""
    reader = JournalReader(journal)
    last = reader.poll()
    found = []
    for batch in reader.read(reader.earliest(), last + 1):
        for row in batch.to_pylist():
            if row["entity"] == ENTITY:
                found.append(int(json.loads(row["value"])["n"]))
    return found


def test_a_backup_under_load_has_all_that_was_acknowledged_before_and_a_server_goes_on_from_it(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with ServerProcess(tmp_path / "server", SETTINGS) as server:
        sender = Sender(server)
        with sender.running():
            for count in (1, 2, 3):
                sender.wait_for(count * 300)
                before = sender.acknowledged
                make(tmp_path / "server" / "data", tmp_path / f"backup{count}")
                after = sender.acknowledged
                sender.wait_for(after + 10)
                # Read where a server has recovered it below; the copy's end may be torn.
                (tmp_path / f"bounds{count}").write_text(f"{before}")
    all_numbers = numbers_in(tmp_path / "server" / "data" / "journal")
    assert all_numbers == list(range(1, len(all_numbers) + 1))
    for count in (1, 2, 3):
        place = tmp_path / f"restored{count}"
        place.mkdir()
        restore(tmp_path / f"backup{count}", place / "data")
        with ServerProcess(place, SETTINGS) as restored:
            shown = forge.run(
                ["watch", "FARM", "barn", "--fields", "n", "--count", "1", "--json", "--url", restored.url]
            )
        found = numbers_in(place / "data" / "journal")
        # Everything acknowledged before the backup began, nothing twice, no gap, and what the original has.
        assert len(found) >= int((tmp_path / f"bounds{count}").read_text())
        assert found == all_numbers[: len(found)]
        assert json.loads(shown.stdout)["fields"]["n"] == str(found[-1])
        verified = forge.run(["journal", "verify", "--data-dir", str(place / "data")])
        assert verified.returncode == 0, verified.stdout
        with closing(sqlite3.connect(place / "data" / "store.db")) as database:
            assert database.execute("pragma integrity_check").fetchone() == ("ok",)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """As a server leaves it, more or less."""
    place = tmp_path / "data"
    for name in ("journal/00000000000000000001.segment", "ingest/FARM", "pipeline/token", "lock", "journal/lock"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    with closing(sqlite3.connect(place / "store.db")) as database:
        database.execute("create table t (x)")
    return place


def test_what_is_put_back_is_what_was_there_for_its_owner_only(data: Path, tmp_path: Path) -> None:
    make(data, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "again")
    found = {path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*") if path.is_file()}
    expected = {path.relative_to(data) for path in data.rglob("*") if path.is_file() and path.name not in LEFT_OUT}
    assert found == expected
    for path in found - {Path("store.db")}:
        assert (tmp_path / "again" / path).read_bytes() == (data / path).read_bytes()
    assert all((tmp_path / "again" / path).stat().st_mode & 0o077 == 0 for path in found)
    assert (tmp_path / "again").stat().st_mode & 0o077 == 0


def test_a_journal_that_drops_files_meanwhile_is_copied_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = backup._copy_database
    dropped: list[bool] = []

    def drop_once(source: Path, target: Path) -> None:
        copy(source, target)
        if not dropped:
            dropped.append(True)
            first = data / "journal" / "00000000000000000001.segment"
            first.rename(first.with_name("00000000000000000009.segment"))
            (data / "ingest" / "FARM").write_text("newer")

    monkeypatch.setattr(backup, "_copy_database", drop_once)
    make(data, tmp_path / "copy")
    assert (tmp_path / "copy" / "ingest" / "FARM").read_text() == "newer"
    assert [path.name for path in (tmp_path / "copy" / "journal").iterdir()] == ["00000000000000000009.segment"]


def test_connections_are_copied_as_of_one_moment_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    store = ConnectionStore.open("", data)
    copy = backup._copy_file

    def write_behind(source: Path, target: Path, *, may_vanish: bool = False) -> None:
        copy(source, target, may_vanish=may_vanish)
        # What was in the log of the database moves into its file, behind what was just copied.
        store.put("later", b"{}")
        with closing(sqlite3.connect(data / "connections.db")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    monkeypatch.setattr(backup, "_copy_file", write_behind)
    try:
        store.put("plant", b'{"uri":"tcp://localhost:1883"}')
        make(data, tmp_path / "copy")
    finally:
        store.close()
    monkeypatch.undo()
    restore(tmp_path / "copy", tmp_path / "again")
    assert not list((tmp_path / "again").glob("*-wal"))
    restored = ConnectionStore.open("", tmp_path / "again")
    try:
        assert restored.all()["plant"] == b'{"uri":"tcp://localhost:1883"}'
    finally:
        restored.close()


def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left on device"):
        make(data, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_target_that_is_wrong_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for source, target, words in (
        (data, tmp_path / "there", "already exists; expected the name of a new directory"),
        (data, tmp_path / "no" / "copy", "there is no directory"),
        (data, data / "copy", "is inside the data directory"),
        (tmp_path / "none", tmp_path / "copy", "there is no data directory"),
    ):
        with pytest.raises(BackupError, match=words):
            make(source, target)
    (data / "journal" / NAME).touch()
    with pytest.raises(BackupError, match="has not finished"):
        make(data, tmp_path / "copy")


def test_what_is_no_backup_is_not_put_back_and_nothing_is_overwritten(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="is not a complete backup"):
        restore(data, tmp_path / "again")
    make(data, tmp_path / "copy")
    with pytest.raises(BackupError, match="is not empty; expected a new data directory"):
        restore(tmp_path / "copy", data)
    assert (tmp_path / "copy" / MANIFEST).is_file()


def test_the_commands_say_what_they_did_and_what_is_wrong_in_one_line(data: Path, tmp_path: Path) -> None:
    done = forge.run(["backup", str(tmp_path / "copy"), "--data-dir", str(data)])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"penstock: {tmp_path / 'copy'}: 4 files, ")
    again = forge.run(["backup", str(tmp_path / "copy"), "--data-dir", str(data)])
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (1, "", 1)
    done = forge.run(["restore", str(tmp_path / "copy"), "--data-dir", str(tmp_path / "again")])
    assert (done.returncode, done.stderr) == (0, "")
