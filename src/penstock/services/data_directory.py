"""The data directory: made and held by the server that writes there, or only looked at.

What is in it is known to those who write it. Read next: docs/configuration.md, `server.data_dir`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from penstock.durable import OWNER_FILE, is_open_to_others, make_directory
from penstock.log import get
from penstock.services.errors import StartError

log = get(__name__)

# What a start writes, with room for a while: with less it would fail halfway, and in one place or another.
ROOM = 16 * 1024 * 1024


@contextlib.contextmanager
def data_directory(path: Path, *, is_leased: bool = False) -> Iterator[None]:
    """Make the data directory and hold it: a second process on the same one does not start.

    With a lease, that of the active hub of a cluster, one that still holds it is not the owner any more: it may be
    frozen, and is kept out of the journal by other means.
    """
    try:
        make_directory(path)
        _check_room(path)
        lock = os.fdopen(os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE), "r+")
        if is_open_to_others(path):
            log.warning("other users can read the data directory; to prevent it: chmod 700", data_dir=str(path))
    except OSError as error:
        raise StartError(f"the data directory {path} cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not is_leased:
                raise StartError(f"the data directory {path} is in use by another penstock process") from None
            log.warning("the data directory is still held by another process", data_dir=str(path))
        yield


def _check_room(path: Path) -> None:
    free = shutil.disk_usage(path).free
    if free < ROOM:
        needed = f"a start needs {ROOM // 1024:,} KiB"
        raise StartError(f"the disk of the data directory {path} is full: {free // 1024:,} KiB are left, and {needed}")


def check_data_directory(path: Path) -> None:
    """Raise StartError if it could not be made or written. That another process holds it is not an error."""
    found = path
    while not found.exists() and found != found.parent:
        found = found.parent
    problem = None
    if not found.is_dir():
        problem = errno.EEXIST if found == path else errno.ENOTDIR
    elif not os.access(found, os.W_OK | os.X_OK):
        problem = errno.EACCES
    if problem is not None:
        raise StartError(f"the data directory {path} cannot be used: {os.strerror(problem)}")
