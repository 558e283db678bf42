"""Items that must be forgotten, in the files of an ingest adapter whose server does not run.

The state file is written again without them. Stages hold rows of any items in the form they were sent in: all of the
adapter go, because whoever sent them sends them again. Read next: `memory`, `stages`.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from zlib import crc32

import msgspec

from penstock.adapters.ingest.memory import RememberedItem, Tail, file_of, stages_of
from penstock.durable import OWNER_FILE, sync_directory, sync_file


def forget_items(directory: Path, adapter_set: str, adapter: str, items: Collection[str]) -> None:
    """Does nothing where the adapter has no files. Raises OSError."""
    path = file_of(directory, adapter_set, adapter)
    if path.exists():
        _rewrite(path, items)
    for name in (f"{path.name}.damaged", f"{path.name}.tmp"):
        path.with_name(name).unlink(missing_ok=True)
    stages = stages_of(directory, adapter_set, adapter)
    for stage in stages.iterdir() if stages.is_dir() else ():
        stage.unlink(missing_ok=True)
    for changed in (directory, stages):
        if changed.is_dir():
            sync_directory(changed)


def _rewrite(path: Path, items: Collection[str]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    try:
        tail = msgspec.json.decode(lines[-1], type=Tail)
        named = [msgspec.json.decode(line, type=RememberedItem).item for line in lines[1:-1]]
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError):
        tail = None
    if tail is None or crc32(b"".join(lines[:-1])) != tail.crc32:
        # As at the start of a server, which makes it again from the journal; here nothing of it may be kept.
        path.unlink()
        return
    kept = [line for line, item in zip(lines[1:-1], named, strict=True) if item not in items]
    if len(kept) == len(named):
        return
    body = b"".join([lines[0], *kept])
    aside = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body + msgspec.json.encode(Tail(len(kept), crc32(body))) + b"\n")
        file.flush()
        sync_file(file.fileno())
    aside.replace(path)
