"""What a command comes to: the change it makes and what its sender is told, or what a reader gets to see.

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
    # Something is there that was not there before.
    CREATED = auto()
    # What was there has been changed, or is gone.
    CHANGED = auto()


@dataclass(frozen=True, slots=True)
class Decision:
    """A change to be made, what is there after it (None: nothing), and the answer once it is on the disk."""

    change: Change
    document: Document | None
    effect: Effect
    value: Json | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Result:
    """What a command that succeeded came to. `tag` is that of what is at its place now, if anything is."""

    effect: Effect
    value: Json | UnsetType = UNSET
    tag: str | None = None


def put_at(document: Document, pointer: Pointer, value: Json) -> Decision:
    """The value replaces what is there, or is new."""
    is_new = get(document, pointer) is MISSING
    change = Change(Action.CREATED if is_new else Action.MODIFIED, pointer, value)
    after = change.applied(document)
    return Decision(change, after, Effect.CREATED, value) if is_new else Decision(change, after, Effect.CHANGED)


def delete_at(document: Document, pointer: Pointer) -> Decision:
    """What is there goes; the caller has looked that something is."""
    change = Change(Action.DELETED, pointer)
    return Decision(change, change.applied(document), Effect.CHANGED)


def create(document: Document) -> Decision:
    """An entity that was not there."""
    return Decision(Change(Action.CREATED, (), document), document, Effect.CREATED, document)


def check_document(document: Document, limit: int, *, is_policy: bool = False) -> None:
    """Refuse what is too large, or has more levels than a message may have: nobody could read it."""
    text = encode(document)
    check_size(len(text), limit, is_policy=is_policy)
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH and is_deep(document):
        raise TwinRefusal(DocumentTooDeep(MAX_DEPTH))


def check_size(size: int, limit: int, *, is_policy: bool = False) -> None:
    if size > limit:
        raise TwinRefusal(DocumentTooLarge(is_policy, size, limit))


def is_there(document: Document, pointer: Pointer) -> bool:
    return not isinstance(get(document, pointer), Absent)
