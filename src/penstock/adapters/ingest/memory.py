"""The state of an adapter after a restart: its state file, and the journal's records after it.

The file is JSON lines: a head with the journal's sequence and the queries' batches, a line for each item, a last line
with a checksum of all before. Everything here may block: it is for threads. When it is done is in `adapter`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from zlib import crc32

import msgspec

from penstock.adapters.ingest.batches import remember
from penstock.adapters.ingest.states import ItemState, UnfitEvent
from penstock.durable import OWNER_FILE, make_directory, sync_directory, sync_file
from penstock.journal.damage import Damage
from penstock.journal.disk import Disk
from penstock.journal.entity import batch_entity, entity_of
from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader
from penstock.journal.recorder import BATCH, CLEAR
from penstock.journal.selection import EventSelection
from penstock.kernel.ports import CheckedEvent
from penstock.log import get

log = get(__name__)

FORMAT = "penstock items"
VERSION = 1

# Makes a new state for an item, given how many there are; raises UnfitEvent if the item may not be.
Maker = Callable[[str, int], ItemState]


class Head(msgspec.Struct):
    """The first line of a file."""

    format: str
    version: int
    adapter_set: str
    adapter: str
    # The last of the journal whose effect is in the file.
    sequence: int
    queries: dict[str, int]


class RememberedItem(msgspec.Struct):
    """An item."""

    item: str
    mode: str
    complete: bool
    events: list[CheckedEvent]


class Tail(msgspec.Struct):
    """The last line."""

    items: int
    crc32: int


class DamagedMemory(Exception):
    """The file is damaged; the text says where."""


@dataclass
class Memory:
    """All that an adapter knows, as of a sequence of the journal."""

    sequence: int = 0
    states: dict[str, ItemState] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)


def file_of(directory: Path, adapter_set: str, adapter: str) -> Path:
    """Where the state of an adapter stands; no two share a file."""
    return directory / f"{_quoted(adapter_set)}.{_quoted(adapter)}.jsonl"


def stages_of(directory: Path, adapter_set: str, adapter: str) -> Path:
    """The directory of its stages."""
    return directory / f"{_quoted(adapter_set)}.{_quoted(adapter)}.stages"


def _quoted(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")


# -- the file -----------------------------------------------------------------------------------------------------


def save(path: Path, adapter_set: str, adapter: str, memory: Memory) -> None:
    """Replace the file, or leave it as it is. Raises OSError."""
    make_directory(path.parent)
    aside = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
    with os.fdopen(descriptor, "wb") as file:
        checksum = 0
        for line in _lines(adapter_set, adapter, memory):
            checksum = crc32(line, checksum)
            file.write(line)
        file.write(_encode(Tail(len(memory.states), checksum)))
        file.flush()
        sync_file(file.fileno())
    aside.replace(path)
    sync_directory(path.parent)


def _lines(adapter_set: str, adapter: str, memory: Memory) -> Iterator[bytes]:
    yield _encode(Head(FORMAT, VERSION, adapter_set, adapter, memory.sequence, memory.queries))
    for item, state in memory.states.items():
        yield _encode(RememberedItem(item, state.mode, state.complete, list(state.events())))


def _encode(line: msgspec.Struct) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def load(path: Path, make: Maker) -> Memory | None:
    """What the file holds; None if there is none. Raises DamagedMemory, and ValueError for one of a newer program."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    entries = msgspec.json.Decoder(RememberedItem)
    unfit: list[str] = []
    with file:
        try:
            line = file.readline()
            head = msgspec.json.decode(line, type=Head)
            if head.format != FORMAT:
                raise DamagedMemory(f"its format is {head.format[:60]!r}, not {FORMAT!r}")
            if head.version > VERSION:
                raise ValueError(f"{path} has version {head.version}; this program supports {VERSION} and earlier")
            memory = Memory(head.sequence, {}, head.queries)
            checksum, following = crc32(line), file.readline()
            while following:
                line, following = following, file.readline()
                if not following:
                    break
                checksum = crc32(line, checksum)
                _put_back(memory.states, entries.decode(line), make, unfit)
            tail = msgspec.json.decode(line, type=Tail)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DamagedMemory(str(error)) from error
    if tail.crc32 != checksum:
        raise DamagedMemory("its checksum is wrong")
    if unfit:
        log.warning("items whose declaration has changed are forgotten", file=str(path), items=unfit[:10])
    return memory


def _put_back(states: dict[str, ItemState], entry: RememberedItem, make: Maker, unfit: list[str]) -> None:
    try:
        state = make(entry.item, len(states))
        if state.mode != entry.mode:
            raise UnfitEvent(f"declared {state.mode}")
        for event in entry.events:
            state.apply(event)
    except UnfitEvent:
        unfit.append(entry.item)
        return
    state.complete = entry.complete
    states[entry.item] = state


# -- file and journal ---------------------------------------------------------------------------------------------


def recall(path: Path, disk: Disk, adapter_set: str, adapter: str, make: Maker) -> Memory:
    """What the adapter knew when the journal ended. Raises OSError, ValueError."""
    reader = JournalReader(disk, _tell_damage)
    try:
        memory = load(path, make)
    except DamagedMemory as damaged:
        kept = path.with_name(f"{path.name}.damaged")
        path.replace(kept)
        log.error(
            "state file of an adapter is damaged, and is rebuilt from the journal",
            file=str(kept),
            reason=str(damaged),
            journal_begins=reader.earliest(),
        )
        memory = None
    if memory is None:
        memory = Memory(reader.earliest() - 1)
    latest = reader.poll()
    if memory.sequence > latest:
        # Both are on the disk when the file is written: somebody has restored an older journal.
        log.error(
            "journal ends before the state file of an adapter, which is used unchanged",
            file=str(path),
            sequence=memory.sequence,
            journal_ends=latest,
        )
        memory.sequence = latest
    while True:
        try:
            _replay(reader, memory, latest, adapter_set, adapter, make)
            return memory
        except Expired as expired:
            log.error(
                "state file of an adapter is older than the beginning of the journal: events are missing",
                file=str(path),
                sequence=memory.sequence,
                journal_begins=expired.earliest,
            )
            memory.sequence = expired.earliest - 1


def _replay(reader: JournalReader, memory: Memory, latest: int, adapter_set: str, adapter: str, make: Maker) -> None:
    """Apply what the journal holds of the adapter after the memory's sequence."""
    items, queries = entity_of(adapter_set, adapter, ""), batch_entity(adapter_set, adapter, "")
    selection = EventSelection(entities=(f"{items}*", f"{queries}*"))
    for batch in reader.read(memory.sequence + 1, latest + 1, selection):
        for entity, kind, value in _records(batch):
            if entity.startswith(items):
                _apply(memory.states, entity[len(items) :], kind, value, make)
            elif kind == BATCH and entity.startswith(queries):
                number = msgspec.json.decode(value or "null", type=_Marker).batch
                remember(memory.queries, unquote(entity[len(queries) :]), number)
        memory.sequence = int(batch.column("sequence")[-1].as_py())
    memory.sequence = latest


class _Marker(msgspec.Struct):
    batch: int


def _records(batch: Any) -> Iterable[tuple[str, str, str | None]]:
    return zip(*(batch.column(name).to_pylist() for name in ("entity", "kind", "value")), strict=True)


_decode_event = msgspec.json.Decoder(CheckedEvent).decode


def _apply(states: dict[str, ItemState], item: str, kind: str, value: str | None, make: Maker) -> None:
    if kind == CLEAR or value is None:
        states.pop(item, None)
        return
    # An invalid event is of an item that is no longer declared, or declared differently.
    with suppress(UnfitEvent):
        state = states.get(item) or make(item, len(states))
        state.apply(_decode_event(value))
        # A producer that sent only a part of a snapshot before the restart will not end it, and clients would wait for
        # that.
        state.complete = True
        states[item] = state


def _tell_damage(damage: Damage) -> None:
    log.error("journal damaged", damage=str(damage))
