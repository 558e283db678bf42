"""Changing a file of users: atomically, one change after another, without touching comments.

Not here: the commands (commands), what a line means (users).
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.adapters.access.settings import AccessError
from penstock.adapters.access.users import User, is_comment, parse, read_text
from penstock.durable import sync_file

# A file of hashes is for its owner alone.
NEW_FILE_MODE = 0o600


def add(path: Path, name: str, change: Callable[[User | None], User]) -> None:
    """Write a user: `change` gets the one of that name, if there is one, and returns the one to write."""
    with _changing(path):
        text = read_text(str(path)) if path.exists() else ""
        before = _find(text, path, name)
        user = change(before)
        if before is None:
            lines = text.split("\n")
            # After what is there, and before the end of the last line.
            lines.insert(len(lines) - (lines[-1] == ""), user.line())
            _write(path, "\n".join(lines).removesuffix("\n") + "\n")
        else:
            _write(path, "\n".join([user.line() if _is_of(line, name) else line for line in text.split("\n")]))


def remove(path: Path, name: str) -> None:
    """Raises AccessError if there is no such user."""
    with _changing(path):
        text = read_text(str(path))
        if _find(text, path, name) is None:
            raise AccessError(f"{path}: no user {name}")
        _write(path, "\n".join([line for line in text.split("\n") if not _is_of(line, name)]))


def _find(text: str, path: Path, name: str) -> User | None:
    return next((user for user in parse(text, str(path)) if user.name == name), None)


def _is_of(line: str, name: str) -> bool:
    return not is_comment(line) and line.strip().partition(":")[0] == name


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Others that change files of this directory wait; the file itself is replaced, so it cannot hold the lock."""
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise AccessError(f"{path.parent}: expected a directory ({error.strerror})") from None
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise AccessError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        os.close(directory)


def _write(path: Path, text: str) -> None:
    """Atomically: a concurrent reader gets the old file or the new one."""
    parse(text, str(path))
    target = path.resolve()
    before = target.stat() if target.exists() else None
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            sync_file(file.fileno())
        if before is not None:
            # An administrator's change must not take the file away from the server.
            os.chown(name, before.st_uid, before.st_gid)
        os.chmod(name, NEW_FILE_MODE if before is None else stat.S_IMODE(before.st_mode))
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
