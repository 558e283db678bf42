"""`penstock journal verify`: every damage of a journal is found and named; a whole one is told to be whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.journal.damage import Damage
from penstock.journal.disk import DirectoryDisk
from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.segment import DATA_START, FRAME_HEADER, FrameHeader, decode_payload
from penstock.journal.verification import Verification, verify
from tests.journal.world import columns
from tests.support.command import run
from tests.support.process import ServerProcess


def write(directory: Path, appends: int = 40) -> None:
    """A journal of several sealed segments, closed in order."""
    journal = Journal(directory, JournalSettings(segment_bytes=20_000))
    for number in range(appends):
        receipt = journal.append(columns(20, entity=f"item{number % 3}"), Policy.ACK)
        assert receipt.done is not None
        receipt.done.result(20)
    journal.close()


def look(directory: Path) -> Verification:
    return verify(DirectoryDisk(directory))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def files(directory: Path, suffix: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix == suffix)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    write(tmp_path / "journal")
    return tmp_path / "journal"


def test_a_whole_journal_is_good_and_all_of_it_was_read(whole: Path) -> None:
    found = look(whole)
    assert found.damages == []
    assert (found.records, found.first, found.last, found.frames) == (800, 1, 800, 40)
    assert found.segments == len(files(whole, ".segment")) > 2
    assert found.size == sum(path.stat().st_size for path in files(whole, ".segment"))


def test_nothing_is_changed_by_looking(whole: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in whole.iterdir()}
    look(whole)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in whole.iterdir()} == before


def test_a_flipped_bit_is_told_with_file_offset_and_sequences(whole: Path) -> None:
    segment = files(whole, ".segment")[1]
    base = int(segment.stem)
    flip(segment, DATA_START + FRAME_HEADER + 50)
    (damage,) = look(whole).damages
    assert (damage.file, damage.position, damage.first, damage.last) == (segment.name, DATA_START, base, base + 19)


@pytest.mark.parametrize("seed", range(25))
def test_no_flipped_bit_anywhere_goes_unseen(whole: Path, seed: int) -> None:
    chance = Random(seed)
    path = chance.choice([found for found in whole.iterdir() if found.name != "lock" and found.stat().st_size])
    flip(path, chance.randrange(path.stat().st_size))
    damages = look(whole).damages
    assert [damage.file for damage in damages] == [path.name] * len(damages)
    assert damages


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_segment_that_was_cut_short_is_told(whole: Path, which: int) -> None:
    segments = [path for path in files(whole, ".segment") if path.stat().st_size > DATA_START]
    segment = segments[which]
    os.truncate(segment, segment.stat().st_size - 200)
    damages = look(whole).damages
    assert damages
    assert damages[0].file == segment.name
    assert damages[0].first is not None
    assert damages[0].last is not None
    assert damages[0].last - damages[0].first == 19


def test_a_segment_that_is_missing_in_the_middle_is_told_with_its_sequences(whole: Path) -> None:
    segments = files(whole, ".segment")
    gone = segments[1]
    gone.unlink()
    damages = look(whole).damages
    assert (damages[0].first, damages[0].last) == (int(gone.stem), int(segments[2].stem) - 1)


def test_the_segment_that_is_being_written_is_told_when_it_is_missing(whole: Path) -> None:
    last = files(whole, ".segment")[-1]
    last.unlink()
    (damage, *_) = look(whole).damages
    assert damage == Damage(last.name, 0, 0, int(last.stem), 800, "the segment is missing")


def test_records_that_are_not_numbered_as_their_frame_says_are_told(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No disk does that, a faulty writer might: the checksums are right."""

    def shifted(payload: bytes, header: FrameHeader, schema: Any) -> Any:
        batch = decode_payload(payload, header, schema)
        if header.first != 21:
            return batch
        numbers = pa.array([number + 1 for number in batch.column("sequence").to_pylist()], pa.int64())
        return batch.set_column(batch.schema.get_field_index("sequence"), "sequence", numbers)

    monkeypatch.setattr("penstock.journal.verification.decode_payload", shifted)
    (damage,) = look(whole).damages
    assert (damage.first, damage.last) == (21, 40)
    assert damage.what == "the records are not numbered as the frame says"


def test_the_oldest_segments_may_be_gone(whole: Path) -> None:
    files(whole, ".segment")[0].unlink()
    assert look(whole).damages == []


def test_an_index_of_another_segment_is_told(whole: Path) -> None:
    first, second, *_ = files(whole, ".index")
    first.write_bytes(second.read_bytes())
    (damage,) = look(whole).damages
    assert (damage.file, damage.position, damage.length, damage.first, damage.last) == (first.name, 0, 0, 0, -1)
    assert "does not agree with its segment" in damage.what


def test_a_missing_index_costs_time_and_is_no_damage(whole: Path) -> None:
    files(whole, ".index")[0].unlink()
    assert look(whole).damages == []


def test_revisions_that_are_behind_are_told(whole: Path) -> None:
    older, newer = files(whole, ".revisions")
    newer.write_bytes(older.read_bytes())
    (damage,) = look(whole).damages
    assert (damage.file, damage.position, damage.length, damage.first, damage.last) == (newer.name, 0, 0, 0, -1)
    assert "behind" in damage.what


def test_sidecars_that_cannot_be_read_are_told_and_no_record_is_missing(whole: Path) -> None:
    index, revisions = files(whole, ".index")[0], files(whole, ".revisions")[0]
    for path in (index, revisions):
        flip(path, path.stat().st_size // 2)
    assert sorted(look(whole).damages, key=lambda damage: damage.file) == [
        Damage(index.name, 0, 0, 0, -1, "the index cannot be read"),
        Damage(revisions.name, 0, 0, 0, -1, "saved revisions cannot be read"),
    ]


def test_a_missing_mark_is_told(whole: Path) -> None:
    (whole / "mark").unlink()
    (damage,) = look(whole).damages
    assert damage == Damage("mark", 0, 0, 0, -1, "there are segments, but no mark")
    assert str(damage) == "mark at byte 0, 0 bytes: there are segments, but no mark; no record missing"


def test_a_journal_is_good_while_it_is_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, JournalSettings(segment_bytes=20_000))
    for number in range(30):
        receipt = journal.append(columns(20, entity=f"item{number}"), Policy.ACK)
        assert receipt.done is not None
        receipt.done.result(20)
        found = look(tmp_path)
        assert found.damages == []
        assert found.last == (number + 1) * 20
    # A frame that is only half written.
    last = files(tmp_path, ".segment")[-1]
    with last.open("ab") as file:
        file.write(b"\xf7PJF and then the power went")
    found = look(tmp_path)
    assert found.damages == []
    assert found.uncommitted_bytes == 28
    journal.close()


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_command_says_ok_with_exit_code_0(whole: Path) -> None:
    done = run(whole.parent, "journal", "verify", "--data-dir", ".")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("penstock: journal: ")
    assert done.stdout.endswith(": ok\n")
    found = json.loads(run(whole.parent, "journal", "verify", "--data-dir", ".", "--json").stdout)
    assert (found["ok"], found["records"], found["last"], found["damages"]) == (True, 800, 800, [])


def test_the_command_names_the_damage_with_exit_code_1(whole: Path) -> None:
    segment = files(whole, ".segment")[0]
    flip(segment, DATA_START + FRAME_HEADER + 7)
    done = run(whole.parent, "journal", "verify", "--data-dir", ".")
    assert done.returncode == 1
    first, last = done.stdout.splitlines()
    assert first.startswith(f"penstock: damaged: {segment.name} at byte {DATA_START}, ")
    assert first.endswith("; records 1 to 20 missing")
    assert last.endswith(": 1 damaged places")
    done = run(whole.parent, "journal", "verify", "--data-dir", ".", "--json")
    assert done.returncode == 1
    (damage,) = json.loads(done.stdout)["damages"]
    assert (damage["file"], damage["position"], damage["first"], damage["last"]) == (segment.name, DATA_START, 1, 20)


def test_the_command_says_where_there_is_no_journal(tmp_path: Path) -> None:
    done = run(tmp_path, "journal", "verify", "--data-dir", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "penstock: there is no journal in nowhere/journal\n"
    assert not (tmp_path / "nowhere").exists()


def test_the_command_may_be_run_beside_a_server(process: ServerProcess) -> None:
    for _ in range(3):
        done = run(process.directory, "journal", "verify", "--data-dir", "data", "--json")
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert json.loads(done.stdout)["records"] > 0
