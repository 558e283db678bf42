"""`python -m bench all` goes on where it was interrupted, and says when others use the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.rig import machine
from bench.rig.progress import Progress, digest


def test_what_is_done_with_the_same_sources_stays_done(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "progress.json"
    first = Progress(path, "sources")
    assert first.done == {}
    first.finish("peers", 12.5)
    first.finish("rates", 3.0)
    assert Progress(path, "sources").done == {"peers": 12.5, "rates": 3.0}
    assert Progress(path, "other sources").done == {}


def test_all_are_due_again_when_that_is_asked_for(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "progress.json", "sources")
    progress.finish("peers", 12.5)
    progress.forget()
    assert Progress(tmp_path / "progress.json", "sources").done == {}


@pytest.mark.parametrize(
    "kept", ["", "{}", "[]", '{"sources": "sources"}', '{"sources": "sources", "done": {"a": "b"}}']
)
def test_a_file_that_makes_no_sense_means_that_nothing_is_done(tmp_path: Path, kept: str) -> None:
    (tmp_path / "progress.json").write_text(kept)
    assert Progress(tmp_path / "progress.json", "sources").done == {}


def test_any_change_of_a_source_makes_another_digest(tmp_path: Path) -> None:
    source = tmp_path / "src" / "penstock" / "kernel" / "item.py"
    source.parent.mkdir(parents=True)
    source.write_text("one")
    before = digest(tmp_path)
    (tmp_path / "notes.txt").write_text("not a source")
    assert digest(tmp_path) == before
    source.write_text("two")
    changed = digest(tmp_path)
    source.rename(source.with_name("other.py"))
    assert len({before, changed, digest(tmp_path)}) == 3


def test_a_machine_that_is_busy_with_something_else_is_told() -> None:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        said = machine.busyness()
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert said.startswith("; NOT QUIET: ")
    assert said.endswith("% of all cores are used by other work")
