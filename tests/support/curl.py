"""The real `curl` program, run with command lines as chapter 5 of the TLCP specification prints them."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from contextlib import ExitStack
from itertools import groupby
from types import TracebackType

# The address in the printed commands; here it stands for wherever the server under test is.
PRINTED_ADDRESS = "localhost:8080"

# Lines that may stand between any two others: they are about the connection and come by the clock.
TIMED = ("PROBE", "SYNC")


def program() -> str:
    """Where curl is."""
    found = shutil.which("curl")
    assert found is not None, "these tests run the curl program, and there is none on the path (apt-get install curl)"
    return found


class Curl:
    """Runs command lines against one server; ends the streams that are still open when the test is over."""

    def __init__(self, host: str, port: int) -> None:
        self._address = f"{host}:{port}"
        self._streams = ExitStack()

    def __enter__(self) -> Curl:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._streams.close()

    def run(self, command: str, session: str = "") -> list[str]:
        """Run a command to its end; the lines that it printed."""
        return _lines(self.output(command, session))

    def output(self, command: str, session: str = "") -> bytes:
        """Run a command to its end; what it printed."""
        done = subprocess.run(self._arguments(command, session), env=_environment(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def open(self, command: str, session: str = "") -> CurlStream:
        """Start a command that goes on printing."""
        return self._streams.enter_context(CurlStream(self._arguments(command, session)))

    def _arguments(self, command: str, session: str) -> list[str]:
        typed = command.replace(PRINTED_ADDRESS, self._address).replace("<session-ID>", session)
        name, *arguments = shlex.split(typed)
        assert name == "curl"
        return [program(), *arguments]


class CurlStream:
    """A curl that holds a stream connection; `lines` is everything it has printed so far."""

    def __init__(self, arguments: list[str]) -> None:
        self.lines: list[str] = []
        self._curl = subprocess.Popen(
            arguments, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )

    def __enter__(self) -> CurlStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._curl.poll() is None:
            self._curl.kill()
        self._curl.wait()
        assert self._curl.stdout is not None
        self._curl.stdout.close()

    def next_line(self) -> str:
        """The next line, of whatever sort; it must have come whole."""
        assert self._curl.stdout is not None
        line = self._curl.stdout.readline().decode()
        assert line, f"the stream has ended after {self.lines[-3:]}"
        assert line.endswith("\r\n"), f"half a line: {line!r}"
        self.lines.append(line[:-2])
        return line[:-2]

    def next(self) -> str:
        """The next line that is not there just because of the time."""
        while True:
            line = self.next_line()
            if tag(line) not in TIMED:
                return line

    def until(self, wanted: str) -> list[str]:
        """Lines up to and with the first that has this tag, without those that come by the clock."""
        found = [self.next()]
        while tag(found[-1]) != wanted:
            found.append(self.next())
        return found

    def wait_for(self, *tags: str) -> str:
        """The next line with one of these tags; all others are read over."""
        while True:
            line = self.next_line()
            if tag(line) in tags:
                return line

    def rest(self) -> list[str]:
        """All lines until the server, or the end of curl, ends the stream."""
        assert self._curl.stdout is not None
        # A killed curl may leave half a line in the pipe.
        text, _, _ = self._curl.stdout.read().decode().rpartition("\r\n")
        found = text.split("\r\n") if text else []
        self.lines += found
        return found

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._curl.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self._curl.kill()

    def exit_code(self) -> int:
        return self._curl.wait()


def tag(line: str) -> str:
    return line.partition(",")[0]


def shape(lines: list[str]) -> list[str]:
    """The tags in order, each run of equal ones once: the chapter's `[...]`."""
    return [name for name, _ in groupby(map(tag, lines))]


def _lines(output: bytes) -> list[str]:
    text = output.decode()
    assert not text or text.endswith("\r\n"), f"half a line at the end of {text!r}"
    return text.split("\r\n")[:-1]


def _environment() -> dict[str, str]:
    # A proxy that the environment names is none of the server's business.
    return {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}
