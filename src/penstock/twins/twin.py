"""A thing or a policy at one moment, and what one change makes of it. Histories are folded only by this.

Documents are never changed in place: a change copies what is on its way, so that moments share the rest and any thread
may read them. Which changes are allowed is in `things` and `policies`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from penstock.twins.record import Record
from penstock.wire.ditto.document import Json, NotJson, parse, text_of
from penstock.wire.ditto.kinds import EVENTS, Action, EntityGroup
from penstock.wire.ditto.merge import merge, merge_at
from penstock.wire.ditto.pointer import MISSING, Pointer, delete, get, print_pointer, put
from penstock.wire.ditto.resource import known_resource

Document = dict[str, Json]

# The header of a record that has the patch of the metadata. No client can send it: only configured headers are kept.
METADATA_HEADER = "penstock-metadata"


@dataclass(frozen=True, slots=True)
class Change:
    """A change: something was created, modified, merged or deleted at a place. Only a deletion has no value."""

    kind: Action
    pointer: Pointer
    value: Json | UnsetType = UNSET
    # A merge patch of the thing's metadata.
    metadata: Json = None

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
    # What clients have put beside the values of a thing, in the form of the thing.
    metadata: Document = field(default_factory=dict)


def after(twin: Twin | None, change: Change, revision: int, timestamp: int) -> Twin | None:
    """The twin after a change; None if it does not exist then."""
    document = change.applied(None if twin is None else twin.document)
    if document is None:
        return None
    created, metadata = (timestamp, {}) if twin is None else (twin.created, twin.metadata)
    if metadata or change.metadata:
        metadata = _metadata_after(metadata, change)
    return Twin(document, revision, created, timestamp, metadata)


def _metadata_after(metadata: Document, change: Change) -> Document:
    """The metadata of what was deleted is deleted, too."""
    left: Json = metadata
    if change.kind is Action.DELETED or change.value is None:
        left = delete(left, change.pointer)
    elif change.kind is Action.MERGED:
        nulls = _nulls(change.value)
        if nulls is not None and get(left, change.pointer) is not MISSING:
            left = merge_at(left, change.pointer, nulls)
    if change.metadata:
        left = merge(left, change.metadata)
    return _object(left) or {}


def _nulls(patch: Json) -> Json:
    """The part of a patch that deletes; None if it deletes nothing."""
    if type(patch) is not dict:
        return None
    found = {key: None if value is None else _nulls(value) for key, value in patch.items()}
    return {key: value for key, value in found.items() if value is not None or patch[key] is None} or None


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
    return Change(kind, resource.pointer, value, metadata_in(record.headers))


def metadata_in(headers: str | None) -> Json:
    """The patch of the metadata in the headers of a record; None if they have none."""
    if headers is None or METADATA_HEADER not in headers:
        return None
    try:
        return parse(headers).get(METADATA_HEADER)
    except NotJson:
        return None
