"""A terminal with a command on it, and what a person would see there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

from tests.support.command import PENSTOCK


class Terminal:
    """A command on a terminal; `text` is all that it has shown, without what moves the cursor."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._shown = b""
        self._terminal, inside = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
        self.process = subprocess.Popen(
            [str(PENSTOCK), *arguments], cwd=directory, env=environment, stdout=inside, stderr=inside
        )
        os.close(inside)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        """Killed if the test has not waited for its end."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._shown.decode("utf-8", "replace"))

    def _read(self) -> bool:
        # Linux ends what comes from a terminal that nobody has open any more with an error.
        try:
            found = os.read(self._terminal, 4096)
        except OSError:
            return False
        self._shown += found
        return bool(found)

    def read_until(self, pattern: str) -> None:
        while re.search(pattern, self.text) is None:
            assert self._read(), f"no {pattern} in {self.text}"

    def finish(self) -> int:
        while self._read():
            pass
        return self.process.wait(15)
