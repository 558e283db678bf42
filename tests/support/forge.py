"""`penstock` in processes of their own that need not import it first: they are forked from one that has.

Reading the modules is nine tenths of a start, and a run of the tests has hundreds. Arguments, files, signals and the
way down are those of any process. As users start it: tests/support/command.py, tests/e2e/test_process.py.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

# What `penstock serve` imports sooner or later.
MODULES = (
    "penstock.process",
    "penstock.services.admin.routes",
    "penstock.adapters.remote",
    "penstock.adapters.replay",
    "penstock.adapters.things",
    "penstock.doors.ditto.door",
    "penstock.doors.tlex.door",
    "penstock.doors.tlex.payload_recorder",
    "penstock.history.reader",
    "penstock.journal.recorder",
    "penstock.adapters.access.commands",
    "penstock.client.tlex",
    "penstock.client.watching",
    "penstock.client.views",
    "penstock.client.connection",
    "penstock.store.store",
    "penstock.cli",
)

# An order: arguments, folder and environment. Far more than these ever are.
LARGEST = 1 << 20

# Two of them about each process: its number, then its exit code.
WORD = struct.Struct("i")


class Forked:
    """A running `penstock`, with as much of `subprocess.Popen` as tests use; text in and out.

    All three files are pipes, unless there is one for the errors.
    """

    def __init__(
        self,
        arguments: Sequence[str | bytes],
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stderr: IO[str] | None = None,
    ) -> None:
        self._reports, report = os.pipe()
        given, input_ = os.pipe()
        self.stdin: IO[str] = os.fdopen(input_, "w", encoding="utf-8")
        output_, output = os.pipe()
        self.stdout: IO[str] = os.fdopen(output_, encoding="utf-8")
        self.stderr: IO[str] | None = None
        if stderr is None:
            complaint_, complaint = os.pipe()
            self.stderr = os.fdopen(complaint_, encoding="utf-8")
        else:
            complaint = os.dup(stderr.fileno())
        self.arguments = [os.fsdecode(argument) for argument in arguments]
        self.returncode: int | None = None
        order = {
            "arguments": self.arguments,
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
        }
        theirs = [given, output, complaint, report]
        try:
            socket.send_fds(_forge().orders, [json.dumps(order).encode()], theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self.pid = self._word()

    def _word(self) -> int:
        word = os.read(self._reports, WORD.size)
        assert word, "the process from which others are forked has ended; see its errors"
        (number,) = WORD.unpack(word)
        assert isinstance(number, int)
        return number

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        return code

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            # Not `select`, which has no eyes for descriptors above a thousand.
            reports = select.poll()
            reports.register(self._reports, select.POLLIN)
            if reports.poll(None if timeout is None else timeout * 1_000):
                self.returncode = self._word()
                os.close(self._reports)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # It may have ended since.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Its input and no more, what is left of output and errors, and the end of the process."""
        deadline = None if timeout is None else time.monotonic() + timeout
        texts = {"stdout": "", "stderr": ""}

        def read(name: str, file: IO[str]) -> None:
            texts[name] = file.read()

        files = {"stdout": self.stdout, "stderr": self.stderr}
        readers = [
            threading.Thread(target=read, args=(name, file), daemon=True)
            for name, file in files.items()
            if file is not None and not file.closed
        ]
        for reader in readers:
            reader.start()
        # Nobody may be there to read it.
        with contextlib.suppress(BrokenPipeError):
            if given:
                self.stdin.write(given)
            self.stdin.close()
        for reader in readers:
            reader.join(_left(deadline))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        self.wait(_left(deadline))
        self.close()
        return texts["stdout"], texts["stderr"]

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()
        if self.stderr is not None:
            self.stderr.close()


def run(
    arguments: Sequence[str | bytes],
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    given: str | None = None,
    timeout: float = 30.0,
) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    process = Forked(arguments, cwd, environment)
    try:
        output, errors = process.communicate(given, timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.arguments, process.wait(), output, errors)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


class Forge:
    """The process from which others are forked; it ends when nobody can give it orders any more."""

    def __init__(self) -> None:
        self.orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # One thread only, as far as that can be had: numpy would start some to calculate with.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forge", str(theirs.fileno())],
                cwd=Path(__file__).parents[2],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def close(self) -> None:
        self.orders.close()
        self._process.wait()


@functools.cache
def _forge() -> Forge:
    """One for each process of pytest, and only where it is asked for."""
    return Forge()


# -- in the process from which others are forked -----------------------------------------------------------------------


def main(descriptor: int) -> None:
    """Take orders; returns when there are no more, or in a process that is to become a command."""
    for name in MODULES:
        importlib.import_module(name)
    _make_what_servers_share()
    assert threading.active_count() == 1, threading.enumerate()
    # What is never looked through for garbage stays shared, and a command's end need not look through it either.
    gc.freeze()
    # Python warns of threads. There is one of jemalloc, which knows how to be forked.
    warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)
    # Whoever waits for a command has nobody who waits for it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as orders:
        while True:
            order, given, _, _ = socket.recv_fds(orders, LARGEST, 4)
            if not order:
                return
            if os.fork() == 0:
                orders.close()
                _start(order, *given)
                return
            for each in given:
                os.close(each)


def _make_what_servers_share() -> None:
    """What the first server of a process makes, and all others of it use."""
    from penstock.adapters.ingest.batch_routes import batch_routes
    from penstock.adapters.ingest.event_routes import event_routes
    from penstock.doors.stream.pages import Pages

    batch_routes()
    event_routes()
    Pages()


def _start(order: bytes, given: int, output: int, complaint: int, report: int) -> None:
    """Wait for the command in one process, be the command in another: only there does this return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        os.close(given)
        os.close(output)
        os.close(complaint)
        # Signals for the whole group are the command's business.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.write(report, WORD.pack(pid))
        _, status = os.waitpid(pid, 0)
        os.write(report, WORD.pack(os.waitstatus_to_exitcode(status)))
        os._exit(0)
    for descriptor, place in enumerate((given, output, complaint)):
        os.dup2(place, descriptor)
    for each in (given, output, complaint, report):
        os.close(each)
    wanted = json.loads(order)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    warnings.resetwarnings()
    _command(wanted["arguments"])


def _command(arguments: list[str]) -> None:
    from penstock import cli

    sys.argv = ["penstock", *arguments]
    cli.main()


if __name__ == "__main__":
    main(int(sys.argv[1]))
