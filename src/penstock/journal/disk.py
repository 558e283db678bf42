"""The few operations that the journal needs from a directory, as protocols, and the real ones.

What each guarantees after a power failure is documented at the method; `penstock.testing.disk` has an implementation
that gives exactly these guarantees. Names are file names inside the one directory of a journal.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from penstock.durable import OWNER_FILE, make_directory, sync_directory, sync_file
from penstock.journal.errors import DirectoryInUse

LOCK_NAME = "lock"


class ReadableFile(Protocol):
    """An open file; it can still be read after its name is gone."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def size(self) -> int: ...
    def close(self) -> None: ...


class WritableFile(Protocol):
    """Raises OSError. Until `sync` returns, any part of what was written may be missing after a power cut."""

    def write(self, position: int, parts: Sequence[bytes | memoryview]) -> None: ...
    def truncate(self, size: int) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    """One directory. What happens to names survives a power cut only after `sync_directory`."""

    def names(self) -> list[str]: ...
    def create(self, name: str) -> WritableFile:
        """Open for writing; an earlier file of that name is emptied."""

    def open(self, name: str) -> WritableFile:
        """Open an existing file for writing. Raises FileNotFoundError."""

    def view(self, name: str) -> ReadableFile:
        """Open an existing file for reading. Raises FileNotFoundError."""

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces what was there."""

    def remove(self, name: str) -> None: ...
    def sync_directory(self) -> None: ...
    def lock(self) -> Lock:
        """Taken by the one writer; raises DirectoryInUse. The lock of a dead process is free."""


class _OpenFile:
    def __init__(self, path: Path, flags: int) -> None:
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, OWNER_FILE)

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) in (0, length):
            return data
        parts = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + length - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        # One call for all parts, but on systems that do not have it.
        written = os.pwritev(self._descriptor, parts, position) if hasattr(os, "pwritev") else 0
        if written == sum(map(len, parts)):
            return
        # A short write: the disk is nearly full, or the parts exceed what one call takes.
        rest = memoryview(b"".join(parts))[written:]
        position += written
        while rest:
            written = os.pwrite(self._descriptor, rest, position)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[written:]
            position += written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        sync_file(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _HeldLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DirectoryDisk:
    """A real directory; with `make` it is made where missing."""

    def __init__(self, directory: Path, *, make: bool = False) -> None:
        self.directory = directory
        if make and not directory.is_dir():
            make_directory(directory)
            sync_directory(directory.parent)

    def names(self) -> list[str]:
        return os.listdir(self.directory)

    def create(self, name: str) -> WritableFile:
        return _OpenFile(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def open(self, name: str) -> WritableFile:
        return _OpenFile(self.directory / name, os.O_RDWR)

    def view(self, name: str) -> ReadableFile:
        return _OpenFile(self.directory / name, os.O_RDONLY)

    def rename(self, old: str, new: str) -> None:
        os.rename(self.directory / old, self.directory / new)

    def remove(self, name: str) -> None:
        os.unlink(self.directory / name)

    def sync_directory(self) -> None:
        sync_directory(self.directory)

    def lock(self) -> Lock:
        descriptor = os.open(self.directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DirectoryInUse(f"the journal in {self.directory} is being written by another process") from None
        return _HeldLock(descriptor)
