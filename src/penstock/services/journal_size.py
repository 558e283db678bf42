"""How large the journal is, how old, and what room its disk has left.

All of it needs the disk: a thread looks now and then. What becomes of it is in `journal`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.journal.journal import Journal


@dataclass(frozen=True, slots=True)
class JournalSize:
    """Bytes; times in seconds since 1970; 0 where there is nothing."""

    bytes: int = 0
    segments: int = 0
    # When the oldest segment was begun.
    oldest: float = 0.0
    # What others than the system's owner can still write, and the size of the whole file system.
    free: int = 0
    disk: int = 0


def weigh(journal: Journal, path: Path) -> JournalSize:
    """Raises OSError. Blocks: not for a loop."""
    from penstock.journal.recovery import bases, read_header  # loaded with the journal
    from penstock.journal.segment import segment_name

    found = bases(journal.disk)
    oldest = 0.0
    if found:
        name = segment_name(found[0])
        file = journal.disk.view(name)
        try:
            header, _ = read_header(file, name)
        finally:
            file.close()
        oldest = 0.0 if header is None else header.created / 1e6
    with os.scandir(path) as entries:
        size = sum([entry.stat().st_size for entry in entries if entry.is_file()])
    system = os.statvfs(path)
    return JournalSize(
        size,
        len(found),
        oldest,
        system.f_bavail * system.f_frsize,
        system.f_blocks * system.f_frsize,
    )
