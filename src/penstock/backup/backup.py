"""A copy of a data directory that a server can start with, taken while another one writes to the original.

The order makes it consistent. Each part may only refer to what is in parts that are copied after it: checkpoints of the
pipeline refer to batches that the server knows, states of adapters and the lake to records of the journal. So a part is
never ahead of those it refers to, and what a part lacks is read from the journal when the server starts, as after a
crash. The journal, which is only appended to, comes last; an end that is torn is cut off by the journal's recovery.
If the journal has dropped files meanwhile there may be a gap before it, and everything is copied again.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from penstock import __version__
from penstock.durable import make_directory, sync_directory, sync_file
from penstock.extras import lack_of

MANIFEST = "backup.json"
"""Written last, so that a directory without it is not a backup."""

JOURNAL, LAKE, STORE = "journal", "lake", "store.db"
DATABASES = (STORE, "connections.db")
"""Files of SQLite that cannot be made again from other parts; the index of searches can."""

SEGMENTS = "*.segment"
MARK = "mark"
LOG = "_delta_log"
ERASING = "erasing"

# Names that are of the running process, or of files that are being written.
LEFT_OUT = ("lock", *(f"{name}-{part}" for name in DATABASES for part in ("wal", "shm", "journal")))

ATTEMPTS = 5
"""How often everything is copied, if files are dropped or removed meanwhile each time."""


class BackupError(Exception):
    """The text is for people."""


class Moved(Exception):
    """The original has lost files that the copy needs."""


class Summary(NamedTuple):
    files: int
    bytes: int


def make(data_dir: Path, target: Path) -> Summary:
    """Copy a data directory to `target`, which is there when it is complete. Raises BackupError, OSError."""
    check_source(data_dir, target)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        for _ in range(ATTEMPTS):
            try:
                _copy(data_dir, partial)
                break
            except Moved:
                shutil.rmtree(partial)
        else:
            raise BackupError(f"{data_dir} dropped files during each of {ATTEMPTS} attempts; try again later")
        found = _summary(partial)
        _write(partial / MANIFEST, json.dumps(_manifest(data_dir, found), indent=2).encode() + b"\n")
        sync_directory(partial)
        partial.rename(target)
        sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return found


def check_source(data_dir: Path, target: Path) -> None:
    if not data_dir.is_dir():
        raise BackupError(f"there is no data directory {data_dir}")
    if target.exists():
        raise BackupError(f"{target} already exists; expected the name of a new directory")
    if not target.parent.is_dir():
        raise BackupError(f"there is no directory {target.parent} to make the backup in")
    if target.resolve().is_relative_to(data_dir.resolve()):
        raise BackupError(f"{target} is inside the data directory; expected a place outside of it")
    if (data_dir / JOURNAL / ERASING).exists():
        raise BackupError(f"an erasure in {data_dir} has not finished; finish it with `penstock history erase`")


def restore(source: Path, data_dir: Path) -> Summary:
    """Copy a backup to a data directory that is new or empty. Raises BackupError, OSError."""
    try:
        json.loads((source / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        raise BackupError(f"{source} is not a complete backup: it has no valid {MANIFEST}") from None
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise BackupError(f"{data_dir} is not empty; expected a new data directory, so that nothing is overwritten")
    partial = data_dir.with_name(f".{data_dir.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        make_directory(partial)
        for file in _files(source):
            if file != Path(MANIFEST):
                _copy_file(source / file, partial / file)
        found = _summary(partial)
        if data_dir.exists():
            data_dir.rmdir()
        partial.rename(data_dir)
        sync_directory(data_dir.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return found


def _copy(data_dir: Path, target: Path) -> None:
    """Raises Moved."""
    make_directory(target)
    oldest = _oldest(data_dir)
    for file in _files(data_dir):
        if file.parts[0] not in (JOURNAL, LAKE, *DATABASES):
            _copy_file(data_dir / file, target / file, may_vanish=True)
    for name in DATABASES:
        if (data_dir / name).is_file():
            _copy_database(data_dir / name, target / name)
    if (data_dir / LAKE).is_dir():
        _copy_lake(data_dir / LAKE, target / LAKE)
    if (data_dir / JOURNAL).is_dir():
        _copy_journal(data_dir / JOURNAL, target / JOURNAL)
    if _oldest(data_dir) != oldest:
        raise Moved


def _copy_journal(journal: Path, target: Path) -> None:
    """The mark before the records that it says are there, and what is about a segment before the segment.

    Segments from the oldest on: a later one is not begun before all of an earlier one is written.
    """
    _copy_file(journal / MARK, target / MARK, may_vanish=True)
    for file in sorted(_files(journal), key=lambda file: (file.match(SEGMENTS), file)):
        if file != Path(MARK):
            _copy_file(journal / file, target / file, may_vanish=True)


def _oldest(data_dir: Path) -> str:
    """The first file of the journal; empty if there is none."""
    return min((path.name for path in (data_dir / JOURNAL).glob(SEGMENTS)), default="")


def _copy_lake(lake: Path, target: Path) -> None:
    """The logs before the files that they name. Raises Moved if one of those was cleaned away."""
    tables = [path.parent.relative_to(lake) for path in lake.rglob(LOG)]
    files = list(_files(lake))
    for file in sorted(files, key=lambda file: LOG not in file.parts):
        _copy_file(lake / file, target / file, may_vanish=LOG not in file.parts)
    if not tables:
        return
    try:
        from deltalake import DeltaTable
    except ModuleNotFoundError:
        raise BackupError(f"the lake {lake} cannot be checked, because {lack_of('deltalake')}") from None
    for table in tables:
        for name in DeltaTable(str(target / table)).file_uris():
            if not Path(name.removeprefix("file://")).is_file():
                raise Moved


def _copy_database(source: Path, target: Path) -> None:
    """As of one moment, whoever writes to it meanwhile."""
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        try:
            original.backup(copy)
        except sqlite3.Error as error:
            raise BackupError(f"{source} cannot be copied: {error}") from error
    target.chmod(0o600)
    with target.open("rb") as file:
        sync_file(file.fileno())


def _copy_file(source: Path, target: Path, *, may_vanish: bool = False) -> None:
    """With what it has now; synced, and readable by its owner only."""
    try:
        with source.open("rb") as file:
            make_directory(target.parent)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
                copy.flush()
                sync_file(copy.fileno())
    except FileNotFoundError:
        if not may_vanish:
            raise Moved from None


def _files(folder: Path) -> Iterator[Path]:
    """All that are worth keeping, by their paths below the folder, in order."""
    for path in sorted(folder.rglob("*")):
        if path.name not in LEFT_OUT and path.is_file() and not path.is_symlink():
            yield path.relative_to(folder)


def _summary(folder: Path) -> Summary:
    sizes = [(folder / file).stat().st_size for file in _files(folder)]
    return Summary(len(sizes), sum(sizes))


def _manifest(data_dir: Path, found: Summary) -> dict[str, object]:
    return {
        "penstock": __version__,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "data_dir": str(data_dir.resolve()),
        "files": found.files,
        "bytes": found.bytes,
    }


def _write(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        sync_file(file.fileno())
