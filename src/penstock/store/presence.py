"""Whether the store's file is where it was: one that has vanished is not silently replaced by an empty one.

An empty store lets nobody in and knows no controller; to start with one by mistake, such as after a backup that was put
back without it, must not look like a start in good order. A note beside the file says that there was one.
"""

from __future__ import annotations

from pathlib import Path

from penstock.log import get
from penstock.store.address import FILE
from penstock.store.errors import Vanished

log = get(__name__)

NOTE = "store.made"
_TEXT = (
    f"{FILE} was created here. Without it the server does not start; to begin with an empty one, delete this file.\n"
)


def check_presence(data_dir: Path) -> None:
    """Before the store of a data directory is opened. Raises Vanished."""
    path = data_dir / FILE
    if path.exists():
        return
    if (data_dir / NOTE).exists():
        raise Vanished(
            f"{path} is missing, although it was created here; restore it from a backup, or delete {data_dir / NOTE}"
            " to begin with an empty one, without all accounts, tokens, controllers and devices"
        )
    if any((data_dir / "journal").glob("*.segment")):
        log.warning(
            "the store is new although there is a journal; if there was a store before, stop the server and restore it",
            file=str(path),
        )


def note_presence(data_dir: Path) -> None:
    """After it was opened. Raises OSError."""
    note = data_dir / NOTE
    if not note.exists():
        note.write_text(_TEXT)
