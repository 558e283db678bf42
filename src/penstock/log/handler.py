"""What writes the log: each line made once, then written to standard error, to a file, or to both.

Not here: how a line looks (lines), the file and its rotation (files).
Read next: `penstock.log.configure`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TextIO

from penstock.log.files import LogFile, SteadyFile
from penstock.log.repeats import LimitedHandler, Repeats


class Writer(LimitedHandler):
    """Also a class of its own, so that `configure` replaces what it installed and nothing else."""

    def __init__(
        self,
        formatter: logging.Formatter,
        stream: TextIO | None,
        file: LogFile | None,
        repeats: Repeats,
        complaints: TextIO | None = None,
    ) -> None:
        """Trouble with the file is told in `complaints`, by default on standard error: there is no other place left."""
        super().__init__(repeats)
        self.setFormatter(formatter)
        self._stream = stream
        self._complaints = complaints or sys.stderr
        self._file = SteadyFile(file, self._made, self._complain) if file is not None else None

    def hand_on(self, record: logging.LogRecord) -> None:
        line = self.format(record) + "\n"
        try:
            if self._stream is not None:
                _print(self._stream, line)
        finally:
            if self._file is not None:
                self._file.write(line)

    def write(self, records: list[logging.LogRecord]) -> None:
        """Lines that have been through the limit of repeats elsewhere."""
        with self.locked():
            for record in records:
                self._hand_on(record)

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

    def _made(self, event: str, fields: dict[str, object]) -> str:
        record = logging.LogRecord(__name__, logging.ERROR, __file__, 0, event, None, None)
        record.fields = fields
        return self.format(record) + "\n"

    def _complain(self, line: str) -> None:
        # Nobody may be there to read it.
        with contextlib.suppress(OSError, ValueError):
            _print(self._complaints, line)


def _print(stream: TextIO, line: str) -> None:
    stream.write(line)
    stream.flush()
