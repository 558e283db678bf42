"""Who may read what is kept on the disk."""

from __future__ import annotations

import stat
from pathlib import Path


def open_to_others(directory: Path) -> list[str]:
    """All that others than the owner have any right to, the directory itself included, each with its mode."""
    found = [(path, path.lstat().st_mode) for path in (directory, *sorted(directory.rglob("*")))]
    return [
        f"{stat.filemode(mode)} {path.relative_to(directory.parent)}"
        for path, mode in found
        if mode & 0o077 and not stat.S_ISLNK(mode)
    ]
