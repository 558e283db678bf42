"""The state of an entity at some moment of its past, by folding its records.

A fold begins at the last milestone before the moment, so that it is short. Who has the records, the journal or the
lake, is behind the port `Archive`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.twins.milestone import milestone_in, places
from penstock.twins.names import EntityKey
from penstock.twins.ports import Archive
from penstock.twins.reasons import NeverWas, TwinRefusal
from penstock.twins.record import Record, records_of
from penstock.twins.twin import Change, Twin, after, change_of
from penstock.wire.ditto.instant import NANOS_PER_MICRO
from penstock.wire.ditto.kinds import Action


@dataclass(frozen=True, slots=True)
class PastMoment:
    """Just after a revision, or just before an instant in nanoseconds since 1970: one of the two is given."""

    revision: int | None = None
    before: int | None = None

    def not_found(self, key: EntityKey) -> TwinRefusal:
        """There was nothing then, or its state is unknown."""
        return TwinRefusal(NeverWas(key, self.revision, self.before))

    def check(self, key: EntityKey, latest: int, now: int) -> None:
        """Raises NeverWas for an impossible moment, before anything is read. `now` is in microseconds since 1970."""
        if self.revision is not None:
            if not 1 <= self.revision <= latest:
                raise self.not_found(key)
        elif self.before is not None and self.before > now * NANOS_PER_MICRO:
            raise self.not_found(key)

    def find(self, archive: Archive, key: EntityKey, entity: str) -> Twin:
        """What there was, from an archive that knows it as `entity`; raises NeverWas if there was nothing.

        Reads only the records since the last milestone, however long the history is.
        """
        until = self._until
        last = self.revision if until is None else archive.last_revision(entity, until)
        base = None if not last else _base(archive, entity, last)
        first = None if base is None else base.revision + 1
        return self.twin(key, records_of(archive.read(entity, first=first, last=last)), base)

    def twin(self, key: EntityKey, records: Iterable[Record], base: Twin | None = None) -> Twin:
        """What there was; raises NeverWas if nothing. `base` is the state before the first of the records.

        If the beginning of a history is gone and there is no base, nothing is known until it was written as a whole.
        """
        found = self.fold(((record, change_of(key.group, record)) for record in records), base)
        if found is None:
            raise self.not_found(key)
        return found

    def fold(self, changes: Iterable[tuple[Record, Change | None]], base: Twin | None = None) -> Twin | None:
        """The same for records whose changes are known."""
        until = self._until
        state, found = base, None
        for record, change in changes:
            if self.revision is not None and record.revision > self.revision:
                break
            if change is not None:
                state = after(state, change, record.revision, record.timestamp)
            # The clock may have been set back: the last event before the instant decides, whatever came before it.
            if until is None or record.timestamp < until:
                found = state
        return found

    @property
    def _until(self) -> int | None:
        """Instants are compared with whole microseconds: before one is before it rounded up."""
        return None if self.before is None else -(-self.before // NANOS_PER_MICRO)


def _base(archive: Archive, entity: str, revision: int) -> Twin | None:
    """The last milestone at or before a revision, or one of those before it; None if there is none."""
    for place in places(revision):
        for record in records_of(archive.read(entity, first=place, last=place)):
            found = milestone_in(record.headers)
            if found is not None:
                return found
    return None


def last_state(
    archive: Archive, key: EntityKey, entity: str, revision: int, old: Twin | None = None
) -> tuple[Twin | None, bool]:
    """What an entity is after its last revision; None if it is not there, and whether that is known.

    `old` is what it was at some time, if anything is known of that.
    """
    base = _base(archive, entity, revision)
    if base is None or (old is not None and old.revision > base.revision):
        base = old
    is_known, state = base is not None, base
    for record in records_of(archive.read(entity, first=1 if base is None else base.revision + 1, last=revision)):
        change = change_of(key.group, record)
        if change is not None:
            state = after(state, change, record.revision, record.timestamp)
            is_gone = change.kind is Action.DELETED and not change.pointer
            is_known = is_known or is_gone or state is not None or record.revision == 1
    return state, is_known
