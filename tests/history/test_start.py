"""A range far into a long history is found without reading all before it, and without libraries that load slowly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from penstock.history.reader import History
from penstock.journal.errors import Expired
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.journal.selection import EventSelection

EVENTS = 600


def written(directory: Path) -> Path:
    """A journal of several segments: one entity has most of it, one has little, and one only the end."""
    random = Random(7)
    journal = Journal(directory / "journal", JournalSettings(segment_bytes=20_000))
    for number in range(EVENTS):
        columns = Columns()
        columns.add("S/D/often", number, "update", "", f'{{"n":"{number}"}}')
        if random.random() < 0.05:
            columns.add("S/D/seldom", number, "update", "", "{}")
        if number > EVENTS - 20:
            columns.add("S/D/late", number, "update", "", "{}")
        journal.append(columns, Policy.OFF)
        if number % 10 == 0:
            # What is written at once is read at once.
            journal.flush().result()
    journal.close()
    return directory


def revisions(history: History, entity: str, first: int) -> list[int]:
    return [event.revision for event in history.events(entity, first)]


@pytest.mark.parametrize("block", [1, 1_000, 10_000])
def test_every_range_begins_where_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", block)
    directory = written(tmp_path)
    history = History(directory / "journal", directory / "lake")
    for entity in ("S/D/often", "S/D/seldom", "S/D/late"):
        last = revisions(history, entity, 1)[-1]
        assert revisions(history, entity, 1) == list(range(1, last + 1))
        for first in {2, 3, last // 3, last // 2, last - 1, last, last + 1}:
            assert revisions(history, entity, first) == list(range(max(first, 1), last + 1))
    assert revisions(history, "S/D/never", 5) == []


def test_little_is_read_before_the_first_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.journal.index.BLOCK_BYTES", 1_000)
    directory = written(tmp_path)
    decoded = 0
    decode = JournalReader._decode

    def counting(self: JournalReader, *arguments: object) -> object:
        nonlocal decoded
        batch = decode(self, *arguments)  # type: ignore[arg-type]
        decoded += batch.num_rows
        return batch

    monkeypatch.setattr(JournalReader, "_decode", counting)
    found = next(History(directory / "journal", directory / "lake").events("S/D/often", EVENTS - 5))
    assert found.revision == EVENTS - 5
    assert 0 < decoded < EVENTS // 4


def test_a_range_of_which_something_was_dropped_is_not_taken_for_one_that_begins_later(tmp_path: Path) -> None:
    reader = JournalReader(written(tmp_path) / "journal")
    (segment, *_) = sorted((tmp_path / "journal").glob("*.segment"))
    segment.unlink()
    earliest = reader.earliest()
    (batch,) = reader.read(earliest, earliest + 1, EventSelection(entities=("S/D/often",)))
    revision = batch.column("revision")[0].as_py()
    for wanted in (2, revision):
        with pytest.raises(Expired):
            list(reader.read(reader.seek(1, "S/D/often", wanted)))
    assert reader.seek(1, "S/D/often", revision + 200) > earliest
    (tmp_path / "empty").mkdir()
    assert JournalReader(tmp_path / "empty").seek(7, "S/D/often", 9) == 7


def test_the_first_read_does_not_load_pandas(tmp_path: Path) -> None:
    directory = written(tmp_path)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from penstock.history.reader import History\n"
        f"history = History(Path({str(directory / 'journal')!r}), Path({str(directory / 'lake')!r}))\n"
        "assert list(history.events('S/D/often', 2, 9)) and list(history.events_between('S/D/often', 1, 9))\n"
        "print('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
