from __future__ import annotations

from pathlib import Path

import pytest

from mutants.rooms import ROOT
from mutants.trial import Tree

SOURCE = Path("src/penstock/kernel/limits.py")
# Seconds: much longer than a test that passes takes to start.
LONG = 60.0


def tree(folder: Path, test: str) -> Tree:
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
    copy = tree(tmp_path, "import penstock.kernel.limits as found; assert found.FAULT == 1")
    for package in ("penstock", "penstock/kernel"):
        (tmp_path / "src" / package / "__init__.py").touch()
    before = (ROOT / SOURCE).read_bytes()
    assert not copy.run_faulty(SOURCE, "FAULT = 1\n", ["test_it.py"], LONG).caught
    assert copy.run_faulty(SOURCE, "FAULT = 2\n", ["test_it.py"], LONG).caught
    assert (tmp_path / SOURCE).read_bytes() == (ROOT / SOURCE).read_bytes() == before
