"""All benchmarks, one after the other: each a process of its own, with a deadline, so that none can end the run.

What has failed is told at the end and is due again in the next run. Ctrl-C ends the one that runs and keeps those that
are done. Which there are is said by `bench.__main__`, which of them are done by `progress`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bench.rig import meter
from bench.rig.machine import adopt_orphans
from bench.rig.progress import Progress

# A benchmark that is told to stop ends its servers and removes its files; if that takes longer, it is killed.
GRACE = 20.0

# How a line begins that says what was wrong, and how many of them are told again at the end.
WRONG = ("FAILED", "bench: ")
MOST_REASONS = 3

# Seconds of a benchmark that has no other deadline of its own: several times what it takes on a quiet machine.
USUAL_DEADLINE = 480.0


@dataclass(frozen=True, slots=True)
class Step:
    """A benchmark, how it is started, the seconds that it may take, and where its results go."""

    name: str
    command: Sequence[str]
    deadline: float = USUAL_DEADLINE
    results: Sequence[Path] = ()


@dataclass(slots=True)
class Outcome:
    """Of one run: what has failed and why, how long it took, whether Ctrl-C ended it."""

    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False


def run_steps(steps: Sequence[Step], progress: Progress) -> Outcome:
    """Those that are due, one after the other."""
    adopt_orphans()
    begun = time.monotonic()
    outcome = Outcome()
    for step in steps:
        if step.name in progress.done:
            print(f"{step.name}: done before, in {progress.done[step.name]:.0f} s", flush=True)
            continue
        print(f"{step.name}: begins", flush=True)
        for path in step.results:
            # Figures of another run must not look like those of this one, if it fails.
            path.unlink(missing_ok=True)
        start = time.monotonic()
        try:
            reason = _run(step)
        except KeyboardInterrupt:
            outcome.interrupted = True
            break
        seconds = time.monotonic() - start
        if reason:
            outcome.failures[step.name] = reason
            print(f"{step.name}: FAILED, {reason}", flush=True)
        else:
            progress.finish(step.name, seconds)
            print(f"{step.name}: done, in {seconds:.0f} s", flush=True)
    outcome.seconds = time.monotonic() - begun
    return outcome


def tell(outcome: Outcome, steps: Sequence[Step], progress: Progress) -> int:
    """The last lines of the run; returns 0 if all are done, else 1."""
    took = {step.name: progress.done[step.name] for step in steps if step.name in progress.done}
    print("\nseconds: " + ", ".join([f"{name} {each:.0f}" for name, each in took.items()]))
    print(
        f"{len(took)} of {len(steps)} benchmarks are done, in {sum(took.values()) / 60:.1f} minutes; "
        f"this run took {outcome.seconds / 60:.1f}"
    )
    for name, reason in outcome.failures.items():
        print(f"FAILED: {name}: {reason}")
    if outcome.interrupted:
        print("interrupted; what is done is kept")
    if len(took) == len(steps):
        return 0
    print("the same command repeats only those that are not done", flush=True)
    return 1


class Output:
    """What a benchmark prints: passed on as it comes; the lines that say what was wrong are kept, and the last one."""

    def __init__(self, stream: IO[str]) -> None:
        self._wrong: list[str] = []
        self._last = ""
        self._thread = threading.Thread(target=self._pass_on, args=(stream,), daemon=True)
        self._thread.start()

    def _pass_on(self, stream: IO[str]) -> None:
        for line in stream:
            print(line, end="", flush=True)
            if line.lstrip().startswith(WRONG):
                self._wrong.append(line.strip())
            self._last = line.strip() or self._last

    @property
    def reasons(self) -> list[str]:
        """Of one that has failed; the last line is the error, if it did not expect it."""
        return self._wrong[:MOST_REASONS] or [self._last]

    def end(self) -> None:
        """All of its processes have ended, so there is an end."""
        self._thread.join(GRACE)


def _run(step: Step) -> str:
    """Empty, or why it has failed. Nothing that it has started is left."""
    # A session of its own, so that Ctrl-C comes here and not to all of its processes at once.
    process = subprocess.Popen(
        step.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = Output(process.stdout)
    reason = ""
    try:
        if code := process.wait(step.deadline):
            reason = f"exit code {code}"
    except subprocess.TimeoutExpired:
        reason = f"not done after {step.deadline:.0f} s, its deadline"
    finally:
        _stop(process)
        output.end()
    return "; ".join(filter(None, [reason, *output.reasons])) if reason else ""


def _stop(process: subprocess.Popen[str]) -> None:
    """Politely at first; then whatever is left of it and of what it has started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            for each in meter.descendants(process.pid):
                _kill(each)
            process.kill()
            process.wait()
    # Processes that have outlived it are children of this one now. Who is killed may leave children of its own.
    while left := meter.descendants(os.getpid()):
        for each in left:
            _kill(each)
        _reap()


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _reap() -> None:
    with suppress(ChildProcessError):
        os.waitpid(-1, 0)


def stop_politely() -> None:
    """Have SIGTERM end this process as Ctrl-C does: servers are ended, temporary files removed."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def command_of(*words: str) -> list[str]:
    """Unbuffered, so that what it prints is seen when it is printed."""
    return [sys.executable, "-u", "-m", "bench", *words]
