"""The note about an erasure that has begun: whom it concerns, and what its record will say. It goes when all is done.

As long as it is there, some files have what others have not any more: no server starts, and the next `erase` begins by
finishing. It is the only place that still names the entities. Read next: `penstock.erasure`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from penstock.journal.disk import Disk
from penstock.journal.sidecar import replace_file

NAME = "erasing"


class ErasureNote(msgspec.Struct, frozen=True):
    """`begun` is in microseconds since 1970; `events` is how many each entity had, by name."""

    id: str
    events: dict[str, int]
    by: str
    reference: str
    begun: int


class BadNote(Exception):
    """The note cannot be read; the text says why."""


def write_note(disk: Disk, note: ErasureNote) -> None:
    """On the disk when this returns. Raises OSError."""
    replace_file(disk, NAME, [msgspec.json.encode(note)])
    disk.sync_directory()


def read_note(disk: Disk) -> ErasureNote | None:
    """None if there is none. Raises BadNote."""
    try:
        file = disk.view(NAME)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(file.read(0, file.size()), type=ErasureNote)
    except msgspec.MsgspecError as error:
        raise BadNote(f"the note {NAME} about an erasure cannot be read: {error}") from None
    finally:
        file.close()


def remove_note(disk: Disk) -> None:
    """The erasure is finished. Raises OSError."""
    with suppress(FileNotFoundError):
        disk.remove(NAME)
    disk.sync_directory()


def is_erasing(journal: Path) -> bool:
    return (journal / NAME).exists()
