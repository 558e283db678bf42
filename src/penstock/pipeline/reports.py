"""Notes about damaged places of a journal that tasks met, as small files: a task has no other way to tell the driver.

One file for each place, whoever meets it and however often. Whoever shows a pipeline's state counts them with `told`.
Not here: finding damage (`penstock.journal.scan`). Read next: docs/pipeline.md, "Damage".
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import msgspec

from penstock.journal.damage import Damage

_SUFFIX = ".damage.json"


def tell(directory: Path, damage: Damage) -> None:
    """Leave a note. Never raises: a disk that cannot take it must not stop the query that reads around the place."""
    name = f"{damage.file}-{damage.position}-{damage.first}"
    temporary = directory / f"{name}.{os.getpid()}.tmp"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(asdict(damage)), encoding="utf-8")
        temporary.replace(directory / f"{name}{_SUFFIX}")
    except OSError:
        with suppress(OSError):
            temporary.unlink()


def told(directory: Path) -> list[Damage]:
    """Every place noted so far, in the order of file and position; empty when there is none, or no directory."""
    found = []
    for path in directory.glob(f"*{_SUFFIX}"):
        # A file that is not a note is ignored.
        with suppress(OSError, msgspec.DecodeError):
            found.append(msgspec.json.decode(path.read_bytes(), type=Damage))
    return sorted(found, key=lambda damage: (damage.file, damage.position))
