"""The result of a command: the change it makes and the answer to its sender, or what a reader gets.

Decided by `things`, `policies` and `retrieval`; carried out by `registry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from msgspec import UNSET, UnsetType

from penstock.twins.reasons import DocumentTooDeep, DocumentTooLarge, TwinRefusal
from penstock.twins.twin import Change, Document
from penstock.wire.ditto.document import MAX_DEPTH, Json, encode, is_deep
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.pointer import MISSING, Absent, Pointer, get


class Effect(Enum):
    """What became of the place that a command is about."""

    # It was read.
    RETRIEVED = auto()
    # Something new was created.
    CREATED = auto()
    # Something was changed or deleted.
    CHANGED = auto()


@dataclass(frozen=True, slots=True)
class Migrated:
    """A thing has another model, by this merge patch. If it was only `tried`, it would have: nothing was changed."""

    thing_id: str
    patch: Json
    tried: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """A change to be made, what is there after it (None: nothing), and the answer once it is on the disk."""

    change: Change
    document: Document | None
    effect: Effect | Migrated
    value: Json | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command that succeeded. `tag` is that of the value at its place now, if there is one."""

    effect: Effect | Migrated
    value: Json | UnsetType = UNSET
    tag: str | None = None
    # The metadata that was asked for.
    metadata: Json | None = None


def put_at(document: Document, pointer: Pointer, value: Json) -> Decision:
    """The value replaces an old one, or is new."""
    is_new = get(document, pointer) is MISSING
    change = Change(Action.CREATED if is_new else Action.MODIFIED, pointer, value)
    after = change.applied(document)
    return Decision(change, after, Effect.CREATED, value) if is_new else Decision(change, after, Effect.CHANGED)


def delete_at(document: Document, pointer: Pointer) -> Decision:
    """The value is deleted; the caller has checked that there is one."""
    change = Change(Action.DELETED, pointer)
    return Decision(change, change.applied(document), Effect.CHANGED)


def create(document: Document) -> Decision:
    """An entity that was not there."""
    return Decision(Change(Action.CREATED, (), document), document, Effect.CREATED, document)


def check_document(document: Document, limit: int, *, is_policy: bool = False) -> None:
    """Refuse what is too large, or has more levels than a message may have, because nobody could read it."""
    text = encode(document)
    check_size(len(text), limit, is_policy=is_policy)
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH and is_deep(document):
        raise TwinRefusal(DocumentTooDeep(MAX_DEPTH))


def check_size(size: int, limit: int, *, is_policy: bool = False) -> None:
    if size > limit:
        raise TwinRefusal(DocumentTooLarge(is_policy, size, limit))


def is_there(document: Document, pointer: Pointer) -> bool:
    return not isinstance(get(document, pointer), Absent)
