from __future__ import annotations

from pathlib import Path

import pytest

from mutants.rooms import ROOT
from mutants.trial import Tree

SOURCE = Path("src/penstock/kernel/limits.py")
# Seconds: much longer than a test that passes takes to start.
LONG = 60.0


def tree(folder: Path, test: str) -> Tree:
    folder.mkdir(exist_ok=True)
    (folder / "test_it.py").write_text(f"def test_it():\n    {test}\n")
    return Tree(folder, [str(SOURCE)])


@pytest.mark.parametrize(("test", "caught"), [("pass", False), ("assert not 'seen'", True), ("import nothing", True)])
def test_a_fault_is_caught_when_a_test_fails(tmp_path: Path, test: str, caught: bool) -> None:
    outcome = tree(tmp_path, test).run(["test_it.py"], LONG)
    assert outcome.caught is caught
    assert outcome.how.startswith("FAILED test_it.py::test_it") is caught


def test_a_run_that_hangs_is_ended_and_counts_as_caught(tmp_path: Path) -> None:
    outcome = tree(tmp_path, "while True: pass").run(["test_it.py"], 3.0)
    assert outcome.caught
    assert outcome.how == "hangs"


def test_each_fault_is_seen_by_the_tests_and_taken_back(tmp_path: Path) -> None:
    copy = planted(tmp_path, "import penstock.kernel.limits as found\n\ndef test_it():\n    assert found.FAULT == 1\n")
    before = (ROOT / SOURCE).read_bytes()
    assert not copy.run_faulty(SOURCE, "FAULT = 1\n", [["test_it.py"]], LONG).caught
    outcome = copy.run_faulty(SOURCE, "FAULT = 2\n", [["test_it.py"]], LONG)
    assert outcome.how.startswith("FAILED")
    assert (tmp_path / SOURCE).read_bytes() == (ROOT / SOURCE).read_bytes() == before


# Finds the fault, or what `kept` says, which is the same with and without it.
UNSTEADY = """
import pathlib
import penstock.kernel.limits as found

def test_it():
    kept = pathlib.Path(__file__).with_name("kept")
    assert not kept.exists() and not hasattr(found, "FAULT"), kept.write_text("the machine is busy")
"""


@pytest.mark.parametrize(
    ("test", "caught"),
    [
        ("def test_it():\n    import penstock.kernel.limits as found; assert not hasattr(found, 'FAULT')", True),
        (UNSTEADY, False),
    ],
)
def test_a_fault_is_caught_only_by_a_test_that_passes_without_it(tmp_path: Path, test: str, caught: bool) -> None:
    copy = planted(tmp_path, test)
    outcome = copy.run_faulty(SOURCE, "FAULT = 1\n", [["test_it.py"]], LONG)
    assert (outcome.caught, outcome.unsure) == (caught, not caught)
    assert outcome.verdict == ("caught" if caught else "UNSURE")
    assert outcome.how.count("FAILED test_it.py::test_it") == (1 if caught else 2)


# Hangs with the fault, and takes its time without it.
SLOW = """
import time
import penstock.kernel.limits as found

def test_it():
    time.sleep(3600 if hasattr(found, "FAULT") else {seconds})
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seconds", "caught"), [(0, True), (3600, False)])
def test_a_run_that_hangs_counts_only_if_it_is_far_quicker_without_the_fault(
    tmp_path: Path, seconds: int, caught: bool
) -> None:
    copy = planted(tmp_path, SLOW.format(seconds=seconds))
    # What a start takes, because half of a limit must be enough for one.
    start = tree(tmp_path / "start", "pass").run(["test_it.py"], None).seconds
    outcome = copy.run_faulty(SOURCE, "FAULT = 1\n", [["test_it.py"]], 8 * start if caught else start)
    assert (outcome.caught, outcome.unsure) == (caught, not caught)
    assert outcome.how == ("hangs" if caught else "hangs; without the fault: hangs")


def planted(folder: Path, test: str) -> Tree:
    """A tree with one test and as much of the package as it takes to import the source."""
    copy = tree(folder, "pass")
    (folder / "test_it.py").write_text(test)
    for package in ("penstock", "penstock/kernel"):
        (folder / "src" / package / "__init__.py").touch()
    return copy
