"""What an entity was at some moment of its past, by folding its records, and its records as the events they tell.

A fold begins at the last milestone before the moment, so that it is short. Who has the records, the journal or the
lake, is behind `Archive`: it hands them out by ascending revision, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import UNSET, Raw

from penstock.twins.milestone import milestone_in, places
from penstock.twins.names import Key
from penstock.twins.record import Record, records_of
from penstock.twins.twin import Change, Twin, after, change_of
from penstock.wire.ditto.envelope import Headers, text_header
from penstock.wire.ditto.errors import (
    POLICY_REVISION_NOT_FOUND,
    POLICY_TIMESTAMP_NOT_FOUND,
    THING_REVISION_NOT_FOUND,
    THING_TIMESTAMP_NOT_FOUND,
    DittoError,
)
from penstock.wire.ditto.instant import NANOS_PER_MICRO, print_instant
from penstock.wire.ditto.ranges import parse_revision, parse_timestamp
from penstock.wire.ditto.topic import Action, Group, Topic
from penstock.wire.ditto.twin import Event


class Archive(Protocol):
    """`penstock.history.reader.History`. Blocks: not for a loop."""

    def read(self, entity: str, *, first: int | None = None, last: int | None = None) -> Iterator[Any]:
        """Arrow tables with the journal's columns; both revisions are included."""

    def last_revision(self, entity: str, until: int | None = None) -> int:
        """Of the last event, in the order of revisions, before a time in microseconds since 1970; 0 if none is."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Just after a revision, or just before an instant in nanoseconds since 1970: one of the two is given."""

    revision: int | None = None
    before: int | None = None

    def not_found(self, key: Key) -> DittoError:
        """There was nothing then, or there is no knowing what."""
        is_policy = key.group is Group.POLICIES
        if self.revision is not None:
            return (POLICY_REVISION_NOT_FOUND if is_policy else THING_REVISION_NOT_FOUND).of(key.id, self.revision)
        told = print_instant(self.before or 0)
        return (POLICY_TIMESTAMP_NOT_FOUND if is_policy else THING_TIMESTAMP_NOT_FOUND).of(key.id, told)

    def check(self, key: Key, latest: int, now: int) -> None:
        """Raises 404 for what cannot have been, before anything is read: `latest` revision, `now` in microseconds."""
        if self.revision is not None:
            if not 1 <= self.revision <= latest:
                raise self.not_found(key)
        elif self.before is not None and self.before > now * NANOS_PER_MICRO:
            raise self.not_found(key)

    def find(self, archive: Archive, key: Key, entity: str) -> Twin:
        """What there was, from an archive that knows it as `entity`; raises 404 if there was nothing.

        Reads some hundred records, wherever in a history that is.
        """
        until = self._until
        last = self.revision if until is None else archive.last_revision(entity, until)
        base = None if not last else _base(archive, entity, last)
        first = None if base is None else base.revision + 1
        return self.twin(key, records_of(archive.read(entity, first=first, last=last)), base)

    def twin(self, key: Key, records: Iterable[Record], base: Twin | None = None) -> Twin:
        """What there was; raises 404 if nothing. `base` is the state before the first of the records.

        Of a history whose beginning is gone, and without a base, nothing is known until it was written as a whole.
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
            # The clock may have stepped back: the last event before the instant decides, whatever came before it.
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
    archive: Archive, key: Key, entity: str, revision: int, old: Twin | None = None
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


def moment_of(headers: Headers) -> Moment | None:
    """The moment that a command to retrieve asks for; None for today. Raises `header.invalid`. A revision wins."""
    text = text_header(headers, "at-historical-revision")
    if text is not None:
        return Moment(revision=parse_revision(text, "at-historical-revision"))
    text = text_header(headers, "at-historical-timestamp")
    if text is not None:
        return Moment(before=parse_timestamp(text, "at-historical-timestamp"))
    return None


def event_of(topic: Topic, record: Record, headers: Headers) -> Event:
    """The event that a record of a thing or a policy tells; `topic` is any of its entity's.

    `Event.envelope` is the message, `Event.partial` what filters and server-sent events see. For many: `EventItems`.
    """
    value = UNSET if record.value is None else Raw(record.value.encode())
    kind = Action(record.kind)
    return Event(topic.event(kind), record.path, value, record.revision, record.timestamp, headers)
