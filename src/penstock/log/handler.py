"""What writes the log: each line made once, then written to standard error, to a file, or to both.

Not here: how a line looks (lines), the file and its rotation (files).
Read next: `penstock.log.configure`.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from penstock.log.files import LogFile, SteadyFile
from penstock.log.repeats import LimitedHandler, Repeats


class Writer(LimitedHandler):
    """Also a class of its own, so that `configure` replaces what it installed and nothing else."""

    def __init__(
        self, formatter: logging.Formatter, stream: TextIO | None, file: LogFile | None, repeats: Repeats
    ) -> None:
        super().__init__(repeats)
        self.setFormatter(formatter)
        self._stream = stream
        self._file = SteadyFile(file, self._tell_trouble) if file is not None else None

    def hand_on(self, record: logging.LogRecord) -> None:
        line = self.format(record) + "\n"
        try:
            if self._stream is not None:
                _print(self._stream, line)
        finally:
            if self._file is not None:
                self._file.write(line)

    def reopen(self) -> None:
        """Go on in a new file if the old one was moved away."""
        if self._file is not None:
            with self.locked():
                self._file.reopen()

    def close(self) -> None:
        super().close()
        if self._file is not None:
            with self.locked():
                self._file.close()
                self._file = None

    def _tell_trouble(self, event: str, fields: dict[str, object]) -> str:
        """On standard error, whether or not the log goes there: there is no other place left."""
        record = logging.LogRecord(__name__, logging.ERROR, __file__, 0, event, None, None)
        record.fields = fields
        line = self.format(record) + "\n"
        _print(self._stream or sys.stderr, line)
        return line


def _print(stream: TextIO, line: str) -> None:
    stream.write(line)
    stream.flush()
