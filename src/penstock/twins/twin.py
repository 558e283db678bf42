"""A thing or a policy at one moment, and what one change makes of it. Histories are folded only by this.

Documents are never changed in place: a change copies what is on its way, so that moments share the rest and any thread
may read them. Which changes are allowed is in `things` and `policies`.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from penstock.twins.record import Record
from penstock.wire.ditto.document import Json, NotJson, parse, text_of
from penstock.wire.ditto.kinds import EVENTS, Action, EntityGroup
from penstock.wire.ditto.merge import merge_at
from penstock.wire.ditto.pointer import Pointer, delete, print_pointer, put
from penstock.wire.ditto.resource import known_resource

Document = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Change:
    """A change: something was created, modified, merged or deleted at a place. Only a deletion has no value."""

    kind: Action
    pointer: Pointer
    value: Json | UnsetType = UNSET

    @property
    def path(self) -> str:
        """The place as the journal and the events write it. In a policy the last key may contain slashes."""
        if len(self.pointer) == 4 and self.pointer[0] == "entries":
            return f"{print_pointer(self.pointer[:3])}/{self.pointer[3]}"
        return print_pointer(self.pointer)

    @property
    def text(self) -> str | None:
        """The value as the journal has it."""
        return None if self.value is UNSET else text_of(self.value)

    def applied(self, document: Document | None) -> Document | None:
        """The document afterwards; None if nothing is left. A modification needs an existing document."""
        if document is None and (self.pointer or self.kind is Action.MERGED):
            return None
        if self.kind is Action.DELETED:
            return _object(delete(document, self.pointer))
        if self.kind is Action.MERGED:
            return _object(merge_at(document, self.pointer, self.value))
        return _object(put(document, self.pointer, self.value))


def _object(value: Json) -> Document | None:
    return value if type(value) is dict else None


@dataclass(frozen=True, slots=True)
class Twin:
    """A thing or a policy that exists. Times are microseconds since 1970."""

    document: Document
    revision: int
    created: int
    modified: int


def after(twin: Twin | None, change: Change, revision: int, timestamp: int) -> Twin | None:
    """The twin after a change; None if it does not exist then."""
    document = change.applied(None if twin is None else twin.document)
    if document is None:
        return None
    return Twin(document, revision, timestamp if twin is None else twin.created, timestamp)


def change_of(group: EntityGroup, record: Record) -> Change | None:
    """The change in a record; None for an unknown kind."""
    if record.kind not in EVENTS:
        return None
    try:
        value = UNSET if record.value is None else parse(record.value)
    except NotJson:
        return None
    resource = known_resource(group, record.path)
    kind = Action(record.kind)
    if resource is None or (kind is Action.DELETED) is not (value is UNSET):
        return None
    return Change(kind, resource.pointer, value)
