"""All benchmarks in a row: one that fails or hangs does not end the run, and is due again; the others are not.

Each run is a process, because it ends all that is left of its benchmarks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SERIES = """
import json, signal, sys
from pathlib import Path
from bench.rig import series
from bench.rig.progress import Progress

signal.signal(signal.SIGINT, signal.default_int_handler)
series.GRACE = 0.5
folder = Path(sys.argv[1])
steps = [
    series.Step(name, [sys.executable, "-u", "-c", code], deadline, [folder / f"{name}.md"])
    for name, code, deadline in json.loads(sys.argv[2])
]
progress = Progress(folder / "progress.json", "sources")
sys.exit(series.tell(series.run_steps(steps, progress), steps, progress))
"""

LONG = 50.0
GOOD = "print('good figures')"
WRONG = "import sys; print('  FAILED at penstock: 3 wrong'); print('bench: no more', file=sys.stderr); sys.exit(1)"
HANGS = """
import subprocess, sys, time
other = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("started", other.pid)
time.sleep(1000)
"""
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN){HANGS}"

Steps = list[tuple[str, str, float]]


def command(folder: Path, steps: Steps) -> list[str]:
    return [sys.executable, "-u", "-c", SERIES, str(folder), json.dumps(steps)]


def series(folder: Path, steps: Steps) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, steps), capture_output=True, text=True, check=False)


def test_one_that_fails_does_not_end_the_run_and_is_told_at_the_end(tmp_path: Path) -> None:
    done = series(tmp_path, [("wrong", WRONG, LONG), ("good", GOOD, LONG)])
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "good figures" in lines
    assert "FAILED: wrong: exit code 1; FAILED at penstock: 3 wrong; bench: no more" in lines
    assert lines.index("good figures") < lines.index(
        "FAILED: wrong: exit code 1; FAILED at penstock: 3 wrong; bench: no more"
    )
    assert any(line.startswith("1 of 2 benchmarks are done, in 0.") for line in lines)


def test_an_error_that_was_not_expected_is_told_at_the_end(tmp_path: Path) -> None:
    done = series(tmp_path, [("broken", "raise ValueError('no such thing')", LONG)])
    assert "FAILED: broken: exit code 1; ValueError: no such thing" in done.stdout.splitlines()


def test_the_next_run_repeats_only_what_has_failed(tmp_path: Path) -> None:
    assert series(tmp_path, [("wrong", WRONG, LONG), ("good", GOOD, LONG)]).returncode == 1
    again = series(tmp_path, [("wrong", "print('now right')", LONG), ("good", "print('not this one')", LONG)])
    assert again.returncode == 0
    assert "now right" in again.stdout
    assert "not this one" not in again.stdout
    assert "good: done before" in again.stdout
    assert "2 of 2 benchmarks are done" in again.stdout


@pytest.mark.parametrize("code", [HANGS, STUBBORN], ids=["hangs", "does not hear the signal"])
def test_one_that_hangs_ends_at_its_deadline_with_all_that_it_has_started(tmp_path: Path, code: str) -> None:
    done = series(tmp_path, [("hangs", code, 2.0), ("good", GOOD, LONG)])
    assert done.returncode == 1
    assert "FAILED: hangs: not done after 2 s, its deadline; started " in done.stdout
    assert "good figures" in done.stdout
    [started] = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("started ")]
    assert not Path(f"/proc/{started}").exists()


def test_figures_of_an_earlier_run_are_gone_if_a_benchmark_fails(tmp_path: Path) -> None:
    for name in ("wrong", "good"):
        (tmp_path / f"{name}.md").write_text("old")
    (tmp_path / "progress.json").write_text(json.dumps({"sources": "sources", "done": {"good": 1.0}}))
    series(tmp_path, [("wrong", WRONG, LONG), ("good", GOOD, LONG)])
    assert not (tmp_path / "wrong.md").exists()
    assert (tmp_path / "good.md").read_text() == "old"


def test_ctrl_c_ends_the_one_that_runs_and_keeps_what_is_done(tmp_path: Path) -> None:
    steps = [("good", GOOD, LONG), ("hangs", HANGS, LONG), ("later", GOOD, LONG)]
    with subprocess.Popen(command(tmp_path, steps), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = next(line.split()[1] for line in process.stdout if line.startswith("started "))
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 1
    assert "interrupted; what is done is kept" in rest
    assert "later: begins" not in rest
    assert list(json.loads((tmp_path / "progress.json").read_text())["done"]) == ["good"]
    assert not Path(f"/proc/{started}").exists()


def test_a_benchmark_that_is_told_to_stop_cleans_up_as_with_ctrl_c(tmp_path: Path) -> None:
    code = """
import asyncio, sys, tempfile, uvloop
from bench.rig.series import stop_politely
async def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1]):
        print("here", flush=True)
        await asyncio.sleep(1000)
stop_politely()
uvloop.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert os.listdir(tmp_path)
        process.terminate()
        process.wait()
    assert not os.listdir(tmp_path)
