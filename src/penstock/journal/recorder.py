"""What is recorded of items: which of them, by pattern, and what has happened to them.

One `JournalItemRecorder` for each data adapter, the kernel's port `ItemRecorder`. Not here: how records gather and get
to the journal (`gatherer`). Read next: docs/journal.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.journal.entity import entity_of
from penstock.journal.gatherer import Event, Gatherer, value_of
from penstock.journal.journal import Policy
from penstock.journal.record import Columns

# What a record says has happened to an item.
UPDATE = "update"
SNAPSHOT = "snapshot"
CLEAR = "clear"
# And to a query of a pipeline: one of its batches has been published.
BATCH = "batch"

# Stands in patterns for any characters, or none.
ANY = "*"

# Records of one turn that are appended without waiting for its end: memory stays bounded, and an append fits the cache.
MAX_PENDING = 4_096

# Items of an adapter whose entity, or that they are not journaled, is kept in mind. Beyond it all are looked up anew.
MAX_KNOWN = 100_000


class JournalItemRecorder:
    """What of one data adapter goes into the journal; `patterns` are names of items, with `*` for any characters."""

    def __init__(
        self, gatherer: Gatherer, adapter_set: str, adapter: str, patterns: Iterable[str], policy: Policy | str
    ) -> None:
        self.gatherer = gatherer
        self.policy = Policy(policy)
        self.adapter_set = adapter_set
        self.adapter = adapter
        self.patterns = tuple(patterns)
        self._matches = re.compile("|".join(map(_expression, self.patterns)) or r"(?!)", re.DOTALL).fullmatch
        # Empty for an item that is not journaled.
        self._entities: dict[str, str] = {}
        self._pending = gatherer.pending(self.policy)

    def wants(self, item: str) -> bool:
        """Whether the item is journaled."""
        entity = self._entities.get(item)
        return (self._look_up(item) if entity is None else entity) != ""

    def record(self, item: str, kind: str, event: Event | None) -> None:
        """An event of an item, if it is wanted; it must not be changed any more. Never waits, never raises."""
        entity = self._entities.get(item)
        if entity is None:
            entity = self._look_up(item)
        if not entity:
            return
        pending = self._pending
        pending.records.append((entity, pending.now(), kind, event))
        if not pending.deferred:
            pending.begin()
        elif len(pending.records) >= MAX_PENDING:
            pending.flush()

    def write(self, columns: Columns, item: str, kind: str, event: Event | None, timestamp: int) -> None:
        """The same record into columns of one's own, for `Gatherer.append`; wanted or not."""
        entity = entity_of(self.adapter_set, self.adapter, item)
        columns.add(entity, timestamp, kind, "", value_of(event))

    def _look_up(self, item: str) -> str:
        entity = entity_of(self.adapter_set, self.adapter, item) if self._matches(item) and _is_unicode(item) else ""
        if len(self._entities) >= MAX_KNOWN:
            self._entities.clear()
        self._entities[item] = entity
        return entity


def _expression(pattern: str) -> str:
    """A star matches as little as possible, without backtracking: the time is linear in a name's length, whatever names
    clients choose.
    """
    first, *middle = map(re.escape, pattern.split(ANY))
    if not middle:
        return first
    last = middle.pop()
    return first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
