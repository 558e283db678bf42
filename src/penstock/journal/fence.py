"""The fence of a journal that more than one machine can reach: who owns it, and that nobody else writes into it.

The lease behind it is somebody else's matter: here it is a number that grows with every owner, and a question. Without
a fence the lock of the directory says who writes. Read next: docs/cluster.md, "The journal of a standby".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from penstock import log
from penstock.journal.disk import Disk, Lock, ReadableFile, WritableFile
from penstock.journal.errors import DirectoryInUse, Fenced
from penstock.journal.segment import TEMPORARY_SUFFIX
from penstock.journal.sidecar import replace_file

_log = log.get(__name__)

OWNER_NAME = "owner"

# Sequences that a new owner leaves out after one that has not closed the journal: that one has given numbers to what it
# could not write any more, and files are named by numbers. More than fit into a queue of the default size.
SKIPPED = 1 << 20

_OPEN, _CLOSED = "open", "closed"


@dataclass(frozen=True, slots=True)
class Fence:
    """`holds` says, from any thread, whether this owner still is the owner; once it says no, it never says yes."""

    epoch: int
    holds: Callable[[], bool]

    def around(self, disk: Disk) -> Disk:
        return FencedDisk(disk, self)

    def enter(self, disk: Disk) -> bool:
        """Write down that this is the owner now; whether the one before has left in good order. Raises Fenced."""
        epoch, state = _read(disk)
        if epoch > self.epoch or not self.holds():
            raise Fenced(f"the journal belongs to epoch {max(epoch, self.epoch)}, and this is {self.epoch}")
        self._write(disk, _OPEN)
        return state == _CLOSED

    def leave(self, disk: Disk) -> None:
        """After all is written."""
        self._write(disk, _CLOSED)

    def check(self) -> None:
        if not self.holds():
            raise Fenced("another process may own the journal now; it is not known whether the last records are in it")

    def _write(self, disk: Disk, state: str) -> None:
        replace_file(disk, OWNER_NAME, [f"{self.epoch} {state}\n".encode()])
        disk.sync_directory()


class FencedDisk:
    """A directory as its owner may change it: a `Disk`.

    A file appears by being renamed. Before that the fence is asked, when the file is there already under a name that
    no other owner uses. If another takes over after that question, its recovery removes the file, and the renaming
    fails: so nothing of an old owner replaces what a new one has made, however long that one was frozen in between.
    """

    def __init__(self, disk: Disk, fence: Fence) -> None:
        self._disk = disk
        self._fence = fence

    def names(self) -> list[str]:
        return self._disk.names()

    def create(self, name: str) -> WritableFile:
        return self._disk.create(self._own(name))

    def open(self, name: str) -> WritableFile:
        return self._disk.open(name)

    def view(self, name: str) -> ReadableFile:
        return self._disk.view(name)

    def rename(self, old: str, new: str) -> None:
        self._fence.check()
        self._disk.rename(self._own(old), new)

    def remove(self, name: str) -> None:
        self._fence.check()
        self._disk.remove(name)

    def sync_directory(self) -> None:
        self._disk.sync_directory()

    def lock(self) -> Lock:
        """That of an owner before, which may be frozen, does not count; that of a process without a fence does."""
        try:
            return self._disk.lock()
        except DirectoryInUse:
            if OWNER_NAME not in self._disk.names():
                raise
            _log.warning("a process that is no longer the owner still has the journal open", epoch=self._fence.epoch)
            return _NoLock()

    def _own(self, name: str) -> str:
        stem = name.removesuffix(TEMPORARY_SUFFIX)
        return name if stem == name else f"{stem}.{self._fence.epoch}{TEMPORARY_SUFFIX}"


def leave_to_lock(disk: Disk) -> bool:
    """For a process that has the lock, and no fence: from now on the lock counts. Returns that all is in order."""
    with suppress(FileNotFoundError):
        disk.remove(OWNER_NAME)
    return True


class _NoLock:
    def release(self) -> None:
        """Nothing to give back."""


def _read(disk: Disk) -> tuple[int, str]:
    """Of the last owner. A journal without one was closed by its lock; one that cannot be read was not."""
    try:
        file = disk.view(OWNER_NAME)
    except FileNotFoundError:
        return 0, _CLOSED
    try:
        epoch, _, state = file.read(0, file.size()).decode("ascii", "replace").strip().partition(" ")
    finally:
        file.close()
    return (int(epoch), state) if epoch.isdecimal() else (0, _OPEN)
