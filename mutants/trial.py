"""Copies of the project in which faults are planted, and the tests that are run against them.

A test that fails must pass without the fault, right after it: else a busy machine, or a test that is not steady, would
count as having caught something. The working tree is only read. Which faults and which tests is decided by `__main__`
and `rooms`.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from mutants.rooms import ROOT

# Bytes of memory that a run may ask for: a fault can make a loop endless, and what it gathers as well.
MEMORY = 8 << 30

# Seconds that one test may take, and all tests of a run: with a fault, either may never end. Without one they are far
# quicker, even on a busy machine.
TEST_LIMIT = 60
RUN_LIMIT = 1200.0

# How the report of a test begins that has taken too long; see TEST_LIMIT.
HANGS = "hangs"
TOO_LATE = "Failed: Timeout"


class Outcome(NamedTuple):
    caught: bool
    # The first test that failed, or what else has ended the run.
    how: str
    seconds: float
    # A test has failed, and not because of the fault.
    unsure: bool = False

    @property
    def verdict(self) -> str:
        return "caught" if self.caught else "UNSURE" if self.unsure else "SURVIVED"


class Trees:
    """As many copies as runs may go on at the same time."""

    def __init__(self, folder: Path, count: int) -> None:
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        names = [name for name in listed if name and (ROOT / name).is_file()]
        self._all = [Tree(folder / str(number), names) for number in range(count)]
        self._free: SimpleQueue[Tree] = SimpleQueue()
        for tree in self._all:
            self._free.put(tree)

    def run_faulty(self, path: Path, source: str, tests: list[list[str]]) -> Outcome:
        tree = self._free.get()
        try:
            return tree.run_faulty(path, source, tests, RUN_LIMIT)
        finally:
            self._free.put(tree)

    def stop(self) -> None:
        """End what is running, and begin nothing else; from any thread."""
        for tree in self._all:
            tree.closed = True
            tree.stop()


class Tree:
    """One copy; one run at a time."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._faults = 0
        self.closed = False
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)

    def run_faulty(self, path: Path, source: str, tests: list[list[str]], limit: float) -> Outcome:
        """With another source in place of a file, which is put back afterwards; one list of tests after the other.

        Caught is what makes a test fail that passes without it. One that has taken too long must pass in half of that
        time: a loop without an end is a fault, a machine that is busy is not.
        """
        file = self._folder / path
        file.write_text(source)
        # A time of its own, by which Python tells that what it has compiled is of another source.
        self._faults += 1
        os.utime(file, (self._faults, self._faults))
        seconds = 0.0
        try:
            for listed in tests:
                outcome = self.run(listed, limit)
                seconds += outcome.seconds
                if outcome.caught:
                    break
        finally:
            shutil.copy2(ROOT / path, file)
        if not outcome.caught:
            return outcome._replace(seconds=seconds)
        late = outcome.how == HANGS or TOO_LATE in outcome.how
        again = self.run(_failed(outcome.how) or listed, outcome.seconds / 2 if late else limit)
        if again.caught:
            return Outcome(False, f"{outcome.how}; without the fault: {again.how}", seconds, unsure=True)
        return outcome._replace(seconds=seconds)

    def run(self, tests: list[str], limit: float | None) -> Outcome:
        if self.closed:
            raise RuntimeError("stopped")
        begin = time.monotonic()
        options = ["-n", "0", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--timeout", str(TEST_LIMIT)]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        environment = {
            **os.environ,
            "PENSTOCK_BUILD": "interpreted",
            # That a test fails is all that counts, and not the smallest example with which it does.
            "PENSTOCK_PROFILE": "unshrunk",
            # The copy comes before the working tree, to which the installed package points.
            "PYTHONPATH": str(self._folder / "src"),
            # Empty: what is compiled may be kept, whatever this machine is used to.
            "PYTHONDONTWRITEBYTECODE": "",
            # Reports are cut off at the width of the terminal.
            "COLUMNS": "1000",
        }
        # A file, because a process that a test has left behind would keep a pipe open.
        output = self._folder / "output"
        with output.open("w") as file:
            process = self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            process.wait(limit)
            how = _how(output.read_text(errors="replace"))
        except subprocess.TimeoutExpired:
            how = HANGS
        finally:
            self.stop()
            process.wait()
        return Outcome(process.returncode != 0, how, time.monotonic() - begin)

    def stop(self) -> None:
        """The run ends, with all processes that its tests have started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _how(output: str) -> str:
    lines = output.strip().split("\n")
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1])


def _failed(how: str) -> list[str]:
    """The test of a report, with all of its parameters; the file, if it could not even be read."""
    if not how.startswith(("FAILED", "ERROR")):
        return []
    return [how.partition(" ")[2].partition(" - ")[0].partition("[")[0]]
