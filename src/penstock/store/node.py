"""The name of this server among those that share a database: made once, and kept in the data directory.

The directory is held by one process at a time, so the name is too: that its last process is dead is certain without
waiting for the end of its lease. A data directory that is copied for another server must lose this file first.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

FILE = "node"


def node_name(data_dir: Path | None) -> str:
    """Without a data directory a new one each time. Raises OSError."""
    made = str(uuid4())
    if data_dir is None:
        return made
    path = data_dir / FILE
    try:
        found = path.read_text("utf-8").strip()
    except FileNotFoundError:
        found = ""
    if not found:
        # One that is half written by a crash is empty or another: no harm, because nobody has joined by it.
        path.write_text(f"{made}\n", "utf-8")
        return made
    return found
