"""A terminal with a command on it, and what a person would see there."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

from tests.support.command import PENSTOCK

# Seconds that anything is waited for. Far more than it should take: only a failure is slow.
PATIENCE = 45.0


class Terminal:
    """A command on a terminal; `text` is all that it has shown, without what moves the cursor.

    `settings` are how the terminal takes what is typed: a command that changes them has to change them back.
    """

    def __init__(self, directory: Path, *arguments: str, lines: int = 50, columns: int = 200) -> None:
        self._shown = b""
        self._terminal, self._inside = pty.openpty()
        termios.tcsetwinsize(self._inside, (lines, columns))
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [str(PENSTOCK), *arguments],
            cwd=directory,
            env={**environment, "TERM": "xterm"},
            stdin=self._inside,
            stdout=self._inside,
            stderr=self._inside,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        """Killed if the test has not waited for its end."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)
        os.close(self._inside)

    @property
    def settings(self) -> list[Any]:
        return termios.tcgetattr(self._inside)

    def resize(self, lines: int, columns: int) -> None:
        termios.tcsetwinsize(self._inside, (lines, columns))
        # The system tells it only to those who have the terminal as theirs.
        self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def clear(self) -> None:
        """Forget what was shown."""
        self._shown = b""

    @property
    def raw(self) -> bytes:
        """What it has shown, with all that moves the cursor."""
        return self._shown

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._shown.decode("utf-8", "replace"))

    def _read(self) -> bool:
        """Whether there was something more before its end."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            # In this order: what it wrote last is read after its end.
            has_ended = self.process.poll() is not None
            if select.select([self._terminal], [], [], 0.05)[0]:
                self._shown += os.read(self._terminal, 4096)
                return True
            if has_ended:
                return False
        raise AssertionError(f"nothing new after {self.text}")

    def read_until(self, pattern: str) -> None:
        while re.search(pattern, self.text) is None:
            assert self._read(), f"no {pattern} in {self.text}"

    def finish(self) -> int:
        while self._read():
            pass
        return self.process.wait(15)
