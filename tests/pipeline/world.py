"""What the tests of the pipeline share: a journal with given events in a directory, and what it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.journal.journal import Journal, JournalSettings, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import SCHEMA, Columns
from penstock.journal.selection import EVERYTHING, EventSelection

# A moment in microseconds; events without a time of their own come one second after another.
NOON = 1_700_000_000_000_000
SECOND = 1_000_000

# Entity, kind, value; then perhaps the time in microseconds.
Event = tuple[str, str, str | None] | tuple[str, str, str | None, int]


def columns(events: Iterable[Event], at: int = NOON) -> Columns:
    """The events as one append."""
    result = Columns()
    for number, (entity, kind, value, *rest) in enumerate(events):
        when = rest[0] if rest else at + number * SECOND
        assert isinstance(when, int)
        result.add(entity, when, kind, "", value)
    return result


def some(count: int, *, entities: int = 4, first: int = 1, at: int = NOON) -> list[Event]:
    """Events whose values count on from `first`, over a few entities in turn, a second apart."""
    return [
        (f"item-{number % entities}", "update", str(number), at + number * SECOND)
        for number in range(first, first + count)
    ]


@contextmanager
def journal(path: Path, **settings: Any) -> Iterator[Journal]:
    """A journal to append to; closed, so sealed and whole, at the end."""
    opened = Journal(path, JournalSettings(**settings))
    try:
        yield opened
    finally:
        opened.close()


def append(opened: Journal, events: Iterable[Event], *, frame: int = 1_000) -> int:
    """Append and wait until all of it can be read; `frame` records at a time. Returns the last sequence."""
    waiting = list(events)
    for start in range(0, len(waiting), frame):
        done = opened.append(columns(waiting[start : start + frame]), Policy.ACK).done
        assert done is not None
        done.result(timeout=30)
    return opened.committed


def make_journal(path: Path, events: Iterable[Event], *, frame: int = 1_000, **settings: Any) -> Path:
    """A closed journal that holds these events; returns the path, for `load(str(path))`."""
    with journal(path, **settings) as opened:
        append(opened, events, frame=frame)
    return path


def held(path: Path, selection: EventSelection = EVERYTHING) -> pa.Table:
    """Everything a journal holds, in order, read without Spark."""
    return pa.Table.from_batches(list(JournalReader(path).read(selection=selection)), SCHEMA)
