"""What an entity was at some moment of its past, by folding its records, and its records as the events they tell.

Pure: who reads the records, from the journal or the lake, hands them in by ascending revision, each once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import UNSET, Raw

from penstock.twins.names import Key
from penstock.twins.record import Record
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
        # Instants are compared with whole microseconds: before one is before it rounded up.
        until = None if self.before is None else -(-self.before // NANOS_PER_MICRO)
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
