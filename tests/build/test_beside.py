"""Compiling beside a server; the tools are played, because the real ones take a minute."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.build import beside
from penstock.build.beside import Compilation
from penstock.build.choice import PACKAGE, digest
from tests.support.waiting import wait_until

# Notes that it runs and, when it is told to stop, that it has ended in order; so do the processes that it has started.
TOOLS = """
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
child = os.fork()
name = "child" if child == 0 else "parent"
try:
    (place / f"{name}-runs").touch()
    time.sleep(60)
except KeyboardInterrupt:
    (place / f"{name}-ended").touch()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shelf, on which nothing is yet."""
    monkeypatch.setattr(beside, "shelf", lambda: tmp_path)
    return tmp_path


def compilation(place: Path) -> Compilation:
    return Compilation((sys.executable, "-c", TOOLS, str(place)))


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def test_all_of_it_ends_with_the_server(place: Path) -> None:
    compiling = compilation(place)
    compiling.start("")
    wait_until(lambda: names(place) == {"parent-runs", "child-runs"}, "the tools")
    compiling.stop()
    wait_until(lambda: {"parent-ended", "child-ended"} <= names(place), "the end of both")
    compiling.stop()


def test_a_build_that_is_there_is_not_made_again(place: Path) -> None:
    (place / digest(PACKAGE)).mkdir()
    compiling = compilation(place)
    compiling.start("")
    compiling.stop()
    assert names(place) == {digest(PACKAGE)}


def test_one_that_is_done_is_not_stopped(place: Path) -> None:
    compiling = Compilation((sys.executable, "-c", ""))
    compiling.start("")
    assert compiling._process is not None
    assert compiling._process.wait(30) == 0
    compiling.stop()
