"""A directory in memory that keeps the promises of `penstock.journal.disk` and no more, for tests of crash safety.

`cut_power` drops what was not synced: any subset, torn at sectors. `PowerCut` is raised when a planned operation comes.
Bits can be flipped, files cut short, and any operation can be made to fail as a full or a broken disk does.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from penstock.journal.errors import DirectoryInUse

# What a disk writes whole or not at all.
SECTOR = 512


class PowerCut(Exception):
    """The machine stops here. No OSError: there is nobody left to handle it."""


@dataclass(slots=True)
class _Content:
    """The bytes of a file: as a running program sees them, and what of them is surely on the disk."""

    now: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    # Since the last sync: places that were written, and lengths the file was cut to, in order.
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Operation:
    """One call that changes something: its kind, the file's name and the bytes written."""

    kind: str
    name: str
    size: int = 0


class FakeDisk:
    """May be used by several threads. `operations` tells what was done so far.

    `power_cut_at` is the number of the operation at which PowerCut is raised: a write is then in part done, a sync is
    not. Afterwards every call raises it, until `cut_power` makes the disk that the next start finds.
    """

    def __init__(self, power_cut_at: int | None = None) -> None:
        self.operations: list[Operation] = []
        self.power_cut_at = power_cut_at
        # Bytes of all files together, beyond which the disk is full.
        self.capacity: int | None = None
        # Asked before each operation; the errno it returns is raised.
        self.fault: Callable[[Operation], int | None] | None = None
        self._files: dict[str, _Content] = {}
        self._durable_files: dict[str, _Content] = {}
        self._pending_names: list[Callable[[dict[str, _Content]], None]] = []
        self._off = False
        self._locked = False
        self._guard = threading.RLock()

    # -- the protocol ---------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        self._check_power()
        with self._guard:
            return list(self._files)

    def create(self, name: str) -> FakeFile:
        with self._guard:
            self._do(Operation("create", name))
            content = self._files.get(name)
            if content is None:
                content = self._files[name] = _Content()
                self._pending_names.append(_Link(name, content))
            else:
                content.now.clear()
                content.pending.append(0)
            self._after()
            return FakeFile(self, name, content)

    def open(self, name: str) -> FakeFile:
        return self.view(name)

    def view(self, name: str) -> FakeFile:
        self._check_power()
        with self._guard:
            if name not in self._files:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            return FakeFile(self, name, self._files[name])

    def rename(self, old: str, new: str) -> None:
        with self._guard:
            self._do(Operation("rename", new))
            if old not in self._files:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
            content = self._files.pop(old)
            self._files[new] = content
            self._pending_names.append(_Rename(old, new, content))
            self._after()

    def remove(self, name: str) -> None:
        with self._guard:
            self._do(Operation("remove", name))
            if name not in self._files:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            del self._files[name]
            self._pending_names.append(_Unlink(name))
            self._after()

    def sync_directory(self) -> None:
        with self._guard:
            self._do(Operation("sync directory", ""))
            self._before_sync()
            for change in self._pending_names:
                change(self._durable_files)
            self._pending_names.clear()

    def lock(self) -> _FakeLock:
        with self._guard:
            if self._locked:
                raise DirectoryInUse("the journal is being written by another process")
            self._locked = True
            return _FakeLock(self)

    # -- what a test does to it -----------------------------------------------------------------------------------

    def cut_power(self, random: Random) -> FakeDisk:
        """The disk after a power cut: everything synced, and of the rest what chance has kept."""
        with self._guard:
            after = FakeDisk()
            names = dict(self._durable_files)
            for change in self._pending_names:
                if random.random() < 0.5:
                    change(names)
            contents: dict[int, _Content] = {}
            for name, content in names.items():
                if id(content) not in contents:
                    kept = _kept(content, random)
                    contents[id(content)] = _Content(bytearray(kept), kept)
                after._files[name] = contents[id(content)]
            after._durable_files = dict(after._files)
            return after

    def kill(self) -> FakeDisk:
        """The disk after the process was killed: the operating system still has everything that was written."""
        with self._guard:
            after = FakeDisk()
            # All at once: the three share contents.
            state = self._files, self._durable_files, self._pending_names
            after._files, after._durable_files, after._pending_names = deepcopy(state)
            return after

    def size(self, name: str) -> int:
        return len(self._files[name].now)

    def content(self, name: str) -> bytes:
        return bytes(self._files[name].now)

    def flip(self, name: str, bit: int) -> None:
        """Change one bit of a file, as a failing disk does."""
        content = self._files[name]
        content.now[bit // 8] ^= 1 << bit % 8
        content.durable = bytes(content.now)
        content.pending.clear()

    def cut(self, name: str, size: int) -> None:
        """Take away the end of a file."""
        content = self._files[name]
        del content.now[size:]
        content.durable = bytes(content.now)
        content.pending.clear()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _check_power(self) -> None:
        if self._off:
            raise PowerCut

    def _do(self, operation: Operation) -> None:
        """Before an operation: note it, and fail if it is to fail."""
        self._check_power()
        if self.fault is not None:
            number = self.fault(operation)
            if number is not None:
                raise OSError(number, os.strerror(number), operation.name)
        self.operations.append(operation)

    def _after(self) -> None:
        """After a change that is not synced: the power may go now."""
        if self.power_cut_at is not None and len(self.operations) > self.power_cut_at:
            self._off = True
            raise PowerCut

    def _before_sync(self) -> None:
        self._after()


@dataclass(frozen=True, slots=True)
class _Link:
    name: str
    content: _Content

    def __call__(self, names: dict[str, _Content]) -> None:
        names[self.name] = self.content


@dataclass(frozen=True, slots=True)
class _Rename:
    old: str
    new: str
    content: _Content

    def __call__(self, names: dict[str, _Content]) -> None:
        if names.get(self.old) is self.content:
            del names[self.old]
        names[self.new] = self.content


@dataclass(frozen=True, slots=True)
class _Unlink:
    name: str

    def __call__(self, names: dict[str, _Content]) -> None:
        names.pop(self.name, None)


class _FakeLock:
    def __init__(self, disk: FakeDisk) -> None:
        self._disk = disk

    def release(self) -> None:
        self._disk._locked = False


class FakeFile:
    """Both kinds of open file."""

    def __init__(self, disk: FakeDisk, name: str, content: _Content) -> None:
        self._disk = disk
        self._name = name
        self._content = content

    def read(self, position: int, length: int) -> bytes:
        self._disk._check_power()
        with self._disk._guard:
            return bytes(self._content.now[position : position + length])

    def size(self) -> int:
        return len(self._content.now)

    def write(self, position: int, parts: Sequence[bytes | memoryview]) -> None:
        data = b"".join(parts)
        disk = self._disk
        with disk._guard:
            disk._do(Operation("write", self._name, len(data)))
            fits = len(data)
            if disk.capacity is not None:
                used = sum(len(content.now) for content in disk._files.values())
                growth = max(position + len(data) - len(self._content.now), 0)
                fits = len(data) - max(used + growth - disk.capacity, 0) if growth else len(data)
            # A full disk takes what fits and fails then.
            self._put(position, data[: max(fits, 0)])
            disk._after()
            if fits < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._name)

    def truncate(self, size: int) -> None:
        with self._disk._guard:
            self._disk._do(Operation("truncate", self._name, size))
            now = self._content.now
            del now[size:]
            now.extend(bytes(size - len(now)))
            self._content.pending.append(size)
            self._disk._after()

    def sync(self) -> None:
        with self._disk._guard:
            self._disk._do(Operation("sync", self._name))
            self._disk._before_sync()
            self._content.durable = bytes(self._content.now)
            self._content.pending.clear()

    def close(self) -> None:
        pass

    def _put(self, position: int, data: bytes) -> None:
        if not data:
            return
        now = self._content.now
        if len(now) < position:
            now.extend(bytes(position - len(now)))
        now[position : position + len(data)] = data
        self._content.pending.append((position, data))


def _kept(content: _Content, random: Random) -> bytes:
    """What is left of a file: each sector of each unsynced write is there or not, whatever became of the others.

    How likely a sector is kept is chosen anew for each file, so that all, nearly all, few and none occur.
    """
    kept = bytearray(content.durable)
    chance = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    for change in content.pending:
        if isinstance(change, int):
            if random.random() < chance:
                del kept[change:]
                kept.extend(bytes(change - len(kept)))
            continue
        position, data = change
        end = position + len(data)
        while position < end:
            stop = min(position - position % SECTOR + SECTOR, end)
            if random.random() < chance:
                start = len(data) - (end - position)
                if len(kept) < position:
                    # Space that was given to the file but never written holds what was there before.
                    kept.extend(random.choice((bytes, random.randbytes))(position - len(kept)))
                kept[position:stop] = data[start : start + stop - position]
            position = stop
    return bytes(kept)
