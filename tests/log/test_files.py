"""The log's file is moved away when it is full, and opened again when it was moved; a full disk stops nobody."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import log
from penstock.log.files import LogFile
from penstock.log.handler import Writer
from penstock.log.lines import JsonFormatter
from penstock.log.repeats import Repeats


class Logged:
    """A log in a file, and what is said on standard error beside it."""

    def __init__(self, path: Path, max_bytes: int = 0, keep: int = 5) -> None:
        self.path = path
        self.errors = io.StringIO()
        self.file = LogFile(path, max_bytes, keep)
        self.writer = Writer(JsonFormatter(), None, self.file, Repeats(0), self.errors)

    def write(self, event: str) -> None:
        self.writer.handle(logging.LogRecord("penstock.test", logging.INFO, "", 0, event, None, None))

    def told(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.errors.getvalue().splitlines()]


def events(path: Path) -> list[object]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def older(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir() if found != path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "penstock.log"


def test_a_file_is_appended_to_and_is_for_its_owner_only(path: Path) -> None:
    for event in ("first", "second"):
        logged = Logged(path)
        logged.write(event)
        logged.writer.close()
    assert events(path) == ["first", "second"]
    assert path.stat().st_mode & 0o777 == 0o600


@given(
    lengths=st.lists(st.integers(1, 400), max_size=60),
    max_bytes=st.integers(1, 1_000),
    keep=st.integers(0, 4),
)
def test_lines_are_whole_in_their_order_and_no_more_files_are_kept_than_asked_for(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], max_bytes: int, keep: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "penstock.log"
    file = LogFile(path, max_bytes, keep)
    written = [f"{number:04} {'x' * length}\n" for number, length in enumerate(lengths)]
    # The naive model: a list of files, the newest last.
    expected: list[list[str]] = [[]]
    for line in written:
        if expected[-1] and sum(map(len, expected[-1])) + len(line) > max_bytes:
            expected.append([])
        expected[-1].append(line)
        if file.is_full(line):
            file.rotate()
        file.append(line)
    file.close()
    names = [path, *(path.with_name(f"penstock.log.{number}") for number in range(1, keep + 2))]
    found = [name.read_text() for name in names if name.exists()]
    assert found == ["".join(lines) for lines in reversed(expected[-keep - 1 :])]


def test_a_second_process_does_not_write_the_same_file(path: Path) -> None:
    held = LogFile(path, 0, 5)
    with pytest.raises(OSError, match="another process is writing it"):
        LogFile(path, 0, 5)
    held.close()
    LogFile(path, 0, 5).close()


def test_a_file_that_was_moved_is_begun_again_and_one_that_was_not_goes_on(path: Path) -> None:
    logged = Logged(path)
    logged.write("first")
    logged.writer.reopen()
    logged.write("second")
    path.rename(path.with_name("moved"))
    logged.write("third, still there")
    logged.writer.reopen()
    logged.write("fourth")
    assert events(path.with_name("moved")) == ["first", "second", "third, still there"]
    assert events(path) == ["fourth"]
    assert logged.told() == []
    logged.writer.close()


def test_a_file_that_was_emptied_goes_on_at_its_beginning(path: Path) -> None:
    """As `copytruncate` of logrotate does it."""
    logged = Logged(path, max_bytes=400)
    for _ in range(3):
        logged.write("before")
    os.truncate(path, 0)
    logged.write("after")
    assert events(path) == ["after"]
    assert older(path) == []
    logged.writer.close()


def test_a_folder_that_is_gone_is_told_once_and_lines_go_on_when_it_is_back(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    logged = Logged(folder / "penstock.log", max_bytes=200)
    logged.write("first")
    folder.rename(tmp_path / "moved")
    for number in range(10):
        logged.write(f"line {number} of those in the old file")
    assert [told["event"] for told in logged.told()] == ["log file cannot be renamed, it keeps growing"]
    assert logged.told()[0]["reason"] == "No such file or directory"
    assert len(events(tmp_path / "moved" / "penstock.log")) == 11
    logged.writer.reopen()
    assert logged.told()[-1]["event"] == "log file cannot be opened again, the old one is still written"
    folder.mkdir()
    logged.writer.reopen()
    logged.write("in the new folder")
    assert events(folder / "penstock.log") == ["in the new folder"]
    assert len(logged.told()) == 2
    logged.writer.close()


def test_a_rotation_that_fails_half_way_drops_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged = Logged(path, max_bytes=1, keep=3)
    for number in range(4):
        logged.write(str(number))
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if self == path:
            raise OSError(errno.EACCES, "Permission denied")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    for number in range(4, 8):
        logged.write(str(number))
    monkeypatch.undo()
    logged.write("8")
    # Of four that are kept, the oldest has gone: one new file was begun since.
    assert [events(found) for found in (path, *(path.with_name(f"penstock.log.{n}") for n in (1, 2, 3)))] == [
        ["8"],
        ["3", "4", "5", "6", "7"],
        ["2"],
        ["1"],
    ]
    assert [told["event"] for told in logged.told()] == ["log file cannot be renamed, it keeps growing"]
    logged.writer.close()


def test_a_new_file_that_cannot_be_opened_leaves_the_old_one_where_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = Logged(path, max_bytes=1)
    logged.write("first")

    def refuse(*arguments: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    logged.write("second")
    monkeypatch.undo()
    assert events(path) == ["first", "second"]
    assert older(path) == []
    logged.write("third")
    assert (events(path), events(path.with_name("penstock.log.1"))) == (["third"], ["first", "second"])
    logged.writer.close()


def test_lines_that_a_full_disk_does_not_take_are_counted_and_told_when_it_does(path: Path) -> None:
    logged = Logged(path)
    logged.write("first")
    # A device that is always full stands in for the disk.
    full = os.open("/dev/full", os.O_WRONLY)
    mine = os.dup(logged.file.descriptor)
    os.dup2(full, logged.file.descriptor)
    for _ in range(7):
        logged.write("lost")
    os.dup2(mine, logged.file.descriptor)
    logged.write("last")
    os.close(full)
    os.close(mine)
    assert events(path) == ["first", "log file is written again", "last"]
    assert json.loads(path.read_text().splitlines()[1])["lost_lines"] == 7
    assert [(told["event"], told.get("reason"), told.get("lost_lines")) for told in logged.told()] == [
        ("log file cannot be written, lines are lost", "No space left on device", None),
        ("log file is written again", None, 7),
    ]
    logged.writer.close()


# A limit on the size of files is what takes the first part of a line, as a disk does that gets full.
TORN = """
import json, logging, resource, sys
from pathlib import Path
from penstock import log

path = Path(sys.argv[1])
log.configure("info", "json", file=str(path), stderr=False)
log.get("penstock.test").info("first")
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
for _ in range(3):
    log.get("penstock.test").info("lost")
    assert path.stat().st_size == size, "a part of a line was left behind"
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.get("penstock.test").info("last")
"""


def test_a_part_of_a_line_is_taken_back(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", TORN, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert events(path) == ["first", "log file is written again", "last"]
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == [
        "log file cannot be written, lines are lost",
        "log file is written again",
    ]


def test_a_log_goes_to_both_or_to_the_file_alone(
    path: Path, root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log.configure("info", "json", file=str(path))
    log.get("penstock.one").info("to both")
    log.configure("info", "json", file=str(path), stderr=False)
    log.get("penstock.one").info("to the file")
    log.configure("info", "json")
    log.get("penstock.one").info("to standard error")
    assert events(path) == ["to both", "to the file"]
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == [
        "to both",
        "to standard error",
    ]


@pytest.mark.parametrize(
    "spoil", [lambda path: path.mkdir(), lambda path: path.parent.rmdir(), lambda path: path.symlink_to(path)]
)
def test_a_file_that_cannot_be_opened_leaves_the_log_on_standard_error(
    tmp_path: Path, root_logger: logging.Logger, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None]
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log.configure("info", "json")
    spoil(folder / "penstock.log")
    with pytest.raises(OSError, match=r"directory|symbolic"):
        log.configure("info", "json", file=str(folder / "penstock.log"))
    log.get("penstock.one").info("still there")
    assert json.loads(capsys.readouterr().err)["event"] == "still there"


def test_hostile_text_is_as_harmless_in_the_file(path: Path) -> None:
    logged = Logged(path)
    logged.write("x\n{}\r\x00\ud800")
    assert events(path) == ["x\n{}\r\x00\ud800"]
    logged.writer.close()
