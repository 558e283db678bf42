"""All things and policies there are: the line of each, from what is on the disk to what is about to be.

And how they come back after a start. What becomes of a command is in `registry`, a line by itself in `line`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.twins.line import ChangeLine
from penstock.twins.milestone import milestone_in
from penstock.twins.names import EntityKey, TwinNames, policy_key
from penstock.twins.record import Record
from penstock.twins.state import TwinsState
from penstock.twins.twin import Twin, after, change_of
from penstock.wire.ditto.kinds import EntityGroup

# Records that wait to be folded at a start: a later milestone makes that unnecessary.
MAX_WAITING_RECORDS = 16_384


class TwinLines:
    """`names` are those of the journal."""

    def __init__(self, names: TwinNames) -> None:
        self._names = names
        self._lines: dict[EntityKey, ChangeLine] = {}
        # The last record of ours that is on the disk and in the state.
        self.applied = 0
        # A counter for the monitor.
        self.skipped_records = 0

    @property
    def count(self) -> int:
        """How many there are, with those that are about to be."""
        return len(self._lines)

    def ids(self, group: EntityGroup) -> Iterator[str]:
        """The identifiers of all on the disk."""
        return (key.id for key, line in self._lines.items() if key.group is group and line.committed)

    def head(self, key: EntityKey) -> Twin | None:
        """As it is about to be."""
        line = self._lines.get(key)
        return None if line is None else line.head

    def head_policy(self, policy_id: str) -> Twin | None:
        return self.head(policy_key(policy_id))

    def committed(self, key: EntityKey) -> Twin | None:
        """As it is on the disk."""
        line = self._lines.get(key)
        return None if line is None else line.committed

    def policy(self, policy_id: str) -> Twin | None:
        """As it is on the disk."""
        return self.committed(policy_key(policy_id))

    def line(self, key: EntityKey) -> ChangeLine:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = ChangeLine()
        return line

    def tidy(self, key: EntityKey, line: ChangeLine) -> None:
        """Forget an entity that is not there; the journal remembers its revisions."""
        if line.is_idle and line.committed is None:
            self._lines.pop(key, None)

    # -- coming back after a start ---------------------------------------------------------------------------------

    def restore(self, state: TwinsState, records: Iterable[Record]) -> None:
        """Begin with a saved state and all records after it, as `state.records_after` reads them."""
        names = self._names
        # Called a second time if the records turned out to be missing.
        self._lines.clear()
        for entity, twin in state.twins.items():
            key = names.key(entity)
            if key is not None:
                self._lines[key] = ChangeLine(twin)
        self.applied = state.sequence
        # Looked up once for each: there may be a million records.
        keys: dict[str, EntityKey | None] = {}
        waiting: dict[EntityKey, list[Record]] = {}
        count = 0
        for record in records:
            if record.entity not in keys:
                keys[record.entity] = names.key(record.entity)
            key = keys[record.entity]
            if key is None:
                self.skipped_records += 1
                continue
            some = waiting.setdefault(key, [])
            some.append(record)
            count += 1
            known = milestone_in(record.headers)
            # Not one from before the state, because then some records between the two are missing.
            if known is not None and some[0].revision <= known.revision + 1:
                self.line(key).committed = known
                count -= len(some)
                some[:] = [each for each in some if each.revision > known.revision]
                count += len(some)
            if count >= MAX_WAITING_RECORDS:
                self._fold(waiting)
                waiting, count = {}, 0
        self._fold(waiting)

    def _fold(self, waiting: dict[EntityKey, list[Record]]) -> None:
        for key, records in waiting.items():
            line = self.line(key)
            for record in records:
                change = change_of(key.group, record)
                if change is None:
                    self.skipped_records += 1
                    continue
                line.committed = after(line.committed, change, record.revision, record.timestamp)
                self.applied = max(self.applied, record.sequence)
            self.tidy(key, line)

    def captured(self, sequence: int) -> TwinsState:
        """All that is on the disk, as it is after the record with this sequence."""
        entity = self._names.entity
        twins = {entity(key): line.committed for key, line in self._lines.items() if line.committed is not None}
        return TwinsState(sequence, twins)
