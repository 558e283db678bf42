"""How persistent files are made: readable by their owner only, and safely on the disk.

Data may be personal and tokens are secret, so neither depends on the umask that a service happens to be started with.
Not here: what is in the files. Read next: docs/journal.md, "Commit, policies, limits"; docs/configuration.md, "Files".
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

OWNER_DIRECTORY = 0o700
OWNER_FILE = 0o600
_ALL_BUT_OWNER = 0o077

# macOS has this instead of fdatasync, and its fsync leaves data in the cache of the drive.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
# Errors of file systems that lack it, such as network file systems.
_NOT_HERE = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY)


def keep_to_owner() -> None:
    """Let nobody else read files that this process, its libraries and its child processes make from now on."""
    os.umask(_ALL_BUT_OWNER)


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents; an existing one stays as it is. Raises OSError."""
    if path.is_dir():
        return
    if not path.parent.exists():
        make_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(OWNER_DIRECTORY)
        return
    if not path.is_dir():
        path.mkdir()


def is_open_to_others(path: Path) -> bool:
    """Whether the group or others may read it or list it. Raises OSError."""
    return bool(path.stat().st_mode & _ALL_BUT_OWNER)


def sync_file(descriptor: int) -> None:
    """Make sure that what was written can be read after a power failure. Raises OSError."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
            os.fsync(descriptor)
            return
    # Without the file's timestamps, which nobody needs.
    getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_directory(path: Path) -> None:
    """Make sure that what was made, renamed or removed in it survives a power failure. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
