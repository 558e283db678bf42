"""tests/ mirrors src/penstock, and README.md says what each folder proves: a stranger finds the tests of any source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "penstock"

# Modules beside the rooms whose tests are elsewhere, because only a whole process shows what they do.
ELSEWHERE = {
    "certificates": "e2e/test_certificates.py",  # Renewed by a signal, while clients are connected.
    "launch": "e2e/test_workers.py",  # Starts other processes.
    "member": "e2e/test_cluster.py",  # A process of a cluster.
    "process": "e2e/test_process.py",  # Signals, lines on standard output, exit codes.
    "loop": "e2e/test_other_systems.py",  # Another loop where uvloop is missing.
    "rehearsal": "e2e/test_config_check.py",  # Compared with what `serve` says.
    "terminal": "client/test_watch_mistakes.py",  # Exit codes and the line that goes with them.
    "worker": "e2e/test_workers.py",  # One of these processes.
}

# Folders below those of rooms that mirror none, and why.
BESIDE = {
    "pipeline/kafka": "a broker of its own in front of Spark and behind it",
    "pipeline/s3a": "an object store of its own for checkpoints, and the connector for it",
}


# Rooms whose tests are those of the room around them, and why.
WITHIN = {
    "config/schema": "its sections are data, and tests/config tries every key of all of them alike",
}


def modules(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("__"))


def folders(place: Path, pattern: str) -> set[str]:
    """Below `place`, those with such a file directly in them."""
    return {path.parent.relative_to(place).as_posix() for path in place.rglob(pattern)} - {"."}


ROOMS = {room for room in folders(SOURCE, "*.py") if modules(SOURCE / room)}


def named_below(heading: str) -> set[str]:
    """The folders that a table of the README names."""
    section = (HERE / "README.md").read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_every_room_has_a_folder_with_tests() -> None:
    assert len(ROOMS) > 20
    assert ROOMS - folders(HERE, "test_*.py") == WITHIN.keys()


@pytest.mark.parametrize("module", modules(SOURCE))
def test_every_module_beside_the_rooms_has_tests_beside_the_folders_or_a_reason(module: str) -> None:
    has_tests = bool(list(HERE.glob(f"test_{module}*.py")))
    assert has_tests != (module in ELSEWHERE)
    assert has_tests or (HERE / ELSEWHERE[module]).exists()


def test_no_reason_is_for_something_that_is_gone() -> None:
    assert ELSEWHERE.keys() - set(modules(SOURCE)) == set()
    assert BESIDE.keys() - folders(HERE, "test_*.py") == set()


def test_every_folder_with_tests_mirrors_a_room_or_is_said_to_prove_something_else() -> None:
    others = named_below("Tools") | named_below("The whole product")
    found = {folder for folder in folders(HERE, "test_*.py") if folder.partition("/")[0] not in others}
    assert found - ROOMS - BESIDE.keys() == set()


def test_the_readme_says_what_each_folder_proves_and_names_no_other() -> None:
    top = {folder.partition("/")[0] for folder in folders(HERE, "test_*.py")}
    rooms = {room.partition("/")[0] for room in ROOMS}
    assert named_below("Rooms") == rooms
    assert named_below("Tools") | named_below("The whole product") == top - rooms
