"""`python -m bench all` goes on where it was interrupted, and says when others use the machine."""

from __future__ import annotations

import os
import re
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
    """Asked in a process of its own, which has not started the others."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        asked = "from bench.rig import machine; print(machine.busyness())"
        said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert re.fullmatch(r"; NOT QUIET: of all cores other work used \d+% before", said)


def test_what_a_benchmark_uses_itself_is_not_the_work_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    times, own = iter([(100.0, 400.0), (120.0, 424.0)]), iter([50.0, 69.4])
    monkeypatch.setattr(machine, "_times", lambda: next(times))
    monkeypatch.setattr("bench.rig.meter.tree_seconds", lambda process: next(own))
    assert machine.Others().share() == pytest.approx(0.6 / 24)


def test_what_was_used_by_a_process_whose_parent_has_ended_counts_too() -> None:
    code = """
import os, subprocess, sys
from bench.rig import machine, meter
machine.adopt_orphans()
burn = "import time\\nwhile time.process_time() < 0.5: pass\\nprint('burnt', flush=True)"
middle = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
before = meter.tree_seconds(os.getpid())
parent = subprocess.Popen([sys.executable, "-c", middle, burn], stdout=subprocess.PIPE)
parent.wait()
assert parent.stdout.readline() == b"burnt\\n"
print(meter.tree_seconds(os.getpid()) - before)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    # Linux counts in hundredths of a second.
    assert float(said) >= 0.48


def test_a_machine_that_others_have_used_in_the_middle_is_not_called_quiet() -> None:
    assert machine.not_quiet({"before": 0.01, "during the run": 0.02}) == ""
    said = machine.not_quiet({"before": 0.01, "during the run": 0.3})
    assert said == "; NOT QUIET: of all cores other work used 1% before, 30% during the run"
