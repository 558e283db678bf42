"""The log's file: appended to, moved away when it is full, opened again when somebody else has moved it.

Nothing here raises while the server runs: a line that cannot be written is one that is lost, and the server goes on.
Not here: what is in a line, and who is told of trouble (handler). Read next: docs/configuration.md, "Logs".
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

# Lines say who was there and from where: they are for their owner only.
_MODE = 0o600

# What file systems without locks answer, such as those of other machines.
_NO_LOCKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOLCK, errno.ENOSYS)


class LogFile:
    """A file and the older ones beside it, `NAME.1` the latest. One thread at a time may call."""

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        """0 bytes: it is never moved away here. Raises OSError if it cannot be opened or if another process has it."""
        self.path = path.absolute()
        self._max_bytes = max_bytes
        self._keep = keep
        self.descriptor = _opened(self.path)
        # A part of a line is at its end, and could not be taken back.
        self._torn = False

    def append(self, line: str) -> None:
        """Write a line; raises OSError, and then nothing of it is there."""
        data = line.encode("utf-8", "backslashreplace")
        if self._torn:
            data = b"\n" + data
        size = os.fstat(self.descriptor).st_size
        left = memoryview(data)
        try:
            while left:
                # A disk that gets full may take the first part of it.
                left = left[os.write(self.descriptor, left) :]
        except OSError:
            if len(left) < len(data):
                self._torn = True
                with contextlib.suppress(OSError):
                    os.ftruncate(self.descriptor, size)
                    self._torn = False
            raise
        self._torn = False

    def is_full(self, line: str) -> bool:
        """Whether it is to be moved away before the line is written."""
        if not self._max_bytes:
            return False
        size = os.fstat(self.descriptor).st_size
        return size > 0 and size + len(line) > self._max_bytes

    def rotate(self) -> None:
        """Move it away and begin a new one; raises OSError, and then everything goes on in the old one."""
        if not self._keep:
            os.ftruncate(self.descriptor, 0)
            return
        # Up to the first number that is free: an attempt that has failed half-way leaves one, and drops no file.
        last = next((number for number in range(1, self._keep) if not self._older(number).exists()), self._keep)
        for number in range(last, 1, -1):
            self._older(number - 1).replace(self._older(number))
        self.path.replace(self._older(1))
        try:
            self._go_on_in(_opened(self.path))
        except OSError:
            with contextlib.suppress(OSError):
                self._older(1).replace(self.path)
            raise

    def reopen(self) -> bool:
        """Go on in a new file if the old one was moved or removed; whether it was. Raises OSError, and then everything
        goes on in the old one.
        """
        mine = os.fstat(self.descriptor)
        with contextlib.suppress(FileNotFoundError):
            found = self.path.stat()
            if (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino):
                return False
        self._go_on_in(_opened(self.path))
        return True

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _go_on_in(self, descriptor: int) -> None:
        os.close(self.descriptor)
        self.descriptor = descriptor
        self._torn = False


class SteadyFile:
    """A log file that never raises: its owner is told of trouble once when it begins, and once when it is over."""

    def __init__(
        self, file: LogFile, make: Callable[[str, dict[str, object]], str], say: Callable[[str], None]
    ) -> None:
        """`make` makes a line of an event with its fields, `say` shows a line to people elsewhere."""
        self._file = file
        self._make = make
        self._say = say
        self._lost = 0
        self._stuck = False

    def write(self, line: str) -> None:
        try:
            self._rotate_before(line)
            if self._lost:
                # What is missing is told where it is missing.
                again = self._made("log file is written again", lost_lines=self._lost)
                self._file.append(again)
                self._say(again)
                self._lost = 0
            self._file.append(line)
        except OSError as error:
            if not self._lost:
                self._say(self._made("log file cannot be written, lines are lost", reason=error.strerror))
            self._lost += 1

    def reopen(self) -> None:
        try:
            self._file.reopen()
        except OSError as error:
            self._say(
                self._made("log file cannot be opened again, the old one is still written", reason=error.strerror)
            )

    def close(self) -> None:
        self._file.close()

    def _rotate_before(self, line: str) -> None:
        if not self._file.is_full(line):
            return
        try:
            self._file.rotate()
            self._stuck = False
        except OSError as error:
            if not self._stuck:
                self._say(self._made("log file cannot be renamed, it keeps growing", reason=error.strerror))
            self._stuck = True

    def _made(self, event: str, **fields: object) -> str:
        return self._make(event, {"file": str(self._file.path), **fields})


def _opened(path: Path) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
    try:
        # Two that move it away from one another would lose lines.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OSError(errno.EBUSY, "another process is writing it", str(path)) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            os.close(descriptor)
            raise
    return descriptor
