"""Which benchmarks of `all` are done with the sources as they are: a run that was interrupted goes on where it was.

A change of any source makes all of them due again; what went wrong is due again anyway.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from bench.rig.build import BUILD

PROGRESS = BUILD / "progress.json"
ROOT = BUILD.parent.parent

# What figures depend on.
SOURCES = ("src/**/*.py", "src/**/*.c", "src/**/*.java", "bench/**/*.py", "bench/**/*.c", "requirements/*.txt")


def digest(root: Path = ROOT) -> str:
    """Of all sources: names and contents."""
    found = sha256()
    for path in sorted({path for pattern in SOURCES for path in root.glob(pattern)}):
        if ".build" not in path.parts:
            found.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()


class Progress:
    """The benchmarks that came out right, and how many seconds each took; kept in a file after each of them."""

    def __init__(self, path: Path, sources: str) -> None:
        self._path = path
        self._sources = sources
        self.done: dict[str, float] = {}
        try:
            kept = json.loads(path.read_text())
            if kept["sources"] == sources:
                self.done = {str(name): float(seconds) for name, seconds in kept["done"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # There is none, or one that cannot be read: all are due.
            pass

    def finish(self, name: str, seconds: float) -> None:
        self.done[name] = seconds
        self._save()

    def forget(self) -> None:
        """All are due again."""
        self.done = {}
        self._save()

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"sources": self._sources, "done": self.done}, indent=1) + "\n")
