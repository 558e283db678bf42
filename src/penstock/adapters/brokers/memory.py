"""What is kept of items for those who subscribe later: records as they came, decoded only when somebody does.

A record costs its bytes, and nothing is computed for items that nobody looks at. Where records hold only what changed
(`partial`), their fields are merged as they come. Read next: adapter.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable

from penstock.kernel.ports import Value
from penstock.wire.records.mapping import COMMAND_FIELD, RecordMapping
from penstock.wire.records.record import BrokerRecord, PoisonRecord

FieldValues = dict[str, Value]

# A record that has not been decoded, or the fields of several.
Kept = BrokerRecord | FieldValues


class RecordMemory(ABC):
    """What a mode keeps of its items; at most `max_items` items, or rows of all items together."""

    def __init__(self, mapping: RecordMapping, max_items: int) -> None:
        self._mapping = mapping
        self._max_items = max_items

    @abstractmethod
    def keep(self, item: str, record: BrokerRecord) -> bool:
        """Returns whether anything changes: the deletion of what is not there changes nothing. Raises PoisonRecord."""

    @abstractmethod
    def _kept(self, item: str) -> Iterable[Kept]: ...

    def snapshot(self, item: str) -> tuple[list[FieldValues], list[PoisonRecord]]:
        """The events that make up the item, in order, and what is wrong with records that could not be made events."""
        events: list[FieldValues] = []
        bad: list[PoisonRecord] = []
        for kept in self._kept(item):
            try:
                events.append(dict(kept) if isinstance(kept, dict) else self._mapping.event(kept))
            except PoisonRecord as poison:
                bad.append(poison)
        return events, bad

    def _check_room(self, known: int) -> None:
        if known >= self._max_items:
            raise PoisonRecord(f"it would be one more than max_items = {self._max_items}")


class LatestRecords(RecordMemory):
    """MERGE: the latest record of each item. One without a value deletes it."""

    def __init__(self, mapping: RecordMapping, max_items: int) -> None:
        super().__init__(mapping, max_items)
        self._latest: dict[str, BrokerRecord] = {}

    def keep(self, item: str, record: BrokerRecord) -> bool:
        if record.value() is None:
            return self._latest.pop(item, None) is not None
        if item not in self._latest:
            self._check_room(len(self._latest))
        self._latest[item] = record
        return True

    def _kept(self, item: str) -> Iterable[Kept]:
        return [self._latest[item]] if item in self._latest else []


class MergedFields(RecordMemory):
    """MERGE of records that hold only what changed."""

    def __init__(self, mapping: RecordMapping, max_items: int) -> None:
        super().__init__(mapping, max_items)
        self._merged: dict[str, FieldValues] = {}

    def keep(self, item: str, record: BrokerRecord) -> bool:
        if record.value() is None:
            return self._merged.pop(item, None) is not None
        event = self._mapping.event(record)
        if item not in self._merged:
            self._check_room(len(self._merged))
            self._merged[item] = {}
        self._merged[item].update(event)
        return True

    def _kept(self, item: str) -> Iterable[Kept]:
        return [self._merged[item]] if item in self._merged else []


class RecentRecords(RecordMemory):
    """DISTINCT: the last records of each item."""

    def __init__(self, mapping: RecordMapping, max_items: int, history: int) -> None:
        super().__init__(mapping, max_items)
        self._history = history
        self._recent: dict[str, deque[BrokerRecord]] = {}

    def keep(self, item: str, record: BrokerRecord) -> bool:
        recent = self._recent.get(item)
        if recent is None:
            self._check_room(len(self._recent))
            recent = self._recent[item] = deque(maxlen=self._history)
        recent.append(record)
        return True

    def _kept(self, item: str) -> Iterable[Kept]:
        return self._recent.get(item, ())


class TableRows(RecordMemory):
    """COMMAND: the latest record of each row, or its merged fields."""

    def __init__(self, mapping: RecordMapping, max_items: int, partial: bool) -> None:
        super().__init__(mapping, max_items)
        self._partial = partial
        self._tables: dict[str, dict[str, Kept]] = {}
        self._count = 0

    def keep(self, item: str, record: BrokerRecord) -> bool:
        key = self._mapping.row(record)
        event = self._mapping.event(record) if self._partial or self._mapping.may_delete(record) else None
        table = self._tables.get(item)
        if event is not None and event[COMMAND_FIELD] == "DELETE":
            return self._delete(item, key)
        if table is None or key not in table:
            self._check_room(self._count)
            self._count += 1
            table = self._tables.setdefault(item, {})
        known = table.get(key)
        if not self._partial or event is None:
            table[key] = record
        else:
            table[key] = {**known, **event} if isinstance(known, dict) else event
        return True

    def _delete(self, item: str, key: str) -> bool:
        table = self._tables.get(item)
        if table is None or table.pop(key, None) is None:
            return False
        self._count -= 1
        if not table:
            del self._tables[item]
        return True

    def _kept(self, item: str) -> Iterable[Kept]:
        return self._tables.get(item, {}).values()


def memory_for(mapping: RecordMapping, *, history: int, max_items: int, partial: bool) -> RecordMemory:
    if mapping.mode == "COMMAND":
        return TableRows(mapping, max_items, partial)
    if mapping.mode == "DISTINCT":
        return RecentRecords(mapping, max_items, history)
    return MergedFields(mapping, max_items) if partial else LatestRecords(mapping, max_items)
