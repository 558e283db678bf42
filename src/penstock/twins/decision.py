"""What a command comes to: the change it makes and what its sender is told, or what a reader gets to see.

Decided by `things`, `policies` and `retrieval`; carried out by `registry`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec import UNSET, UnsetType

from penstock.twins.twin import Change, Document
from penstock.wire.ditto import twin as messages
from penstock.wire.ditto.document import MAX_DEPTH, Json, check_size, encode, is_deep
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import JSON_INVALID
from penstock.wire.ditto.pointer import MISSING, Missing, Pointer, get
from penstock.wire.ditto.topic import Action
from penstock.wire.ditto.twin import HISTORICAL_HEADERS, Command, RetrieveSeveral

RETRIEVED = 200
CREATED = 201
DONE = 204


@dataclass(frozen=True, slots=True)
class Decision:
    """A change to be made, what is there after it (None: nothing), and the answer once it is on the disk."""

    change: Change
    document: Document | None
    status: int
    value: Json | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a command that succeeded. `etag` is that of what is at its place now, if anything is.

    `kept_headers` are those journaled with the change that led to what was retrieved, which then is of the past.
    """

    status: int
    value: Json | UnsetType = UNSET
    etag: str | None = None
    kept_headers: Json | None = None

    def response(self, command: Command | RetrieveSeveral) -> Envelope:
        """The message that says so."""
        if self.status == RETRIEVED or isinstance(command, RetrieveSeveral):
            answer = messages.retrieved(command, self.value)
        else:
            answer = messages.created(command, self.value) if self.status == CREATED else messages.done(command)
        more: dict[str, Json] = {} if self.etag is None else {"etag": self.etag}
        if self.kept_headers is not None:
            more[HISTORICAL_HEADERS] = self.kept_headers
        return replace(answer, headers={**answer.headers, **more}) if more else answer


def put_at(document: Document, pointer: Pointer, value: Json) -> Decision:
    """The value replaces what is there, or is new."""
    is_new = get(document, pointer) is MISSING
    change = Change(Action.CREATED if is_new else Action.MODIFIED, pointer, value)
    after = change.applied(document)
    return Decision(change, after, CREATED, value) if is_new else Decision(change, after, DONE)


def delete_at(document: Document, pointer: Pointer) -> Decision:
    """What is there goes; the caller has looked that something is."""
    change = Change(Action.DELETED, pointer)
    return Decision(change, change.applied(document), DONE)


def create(document: Document) -> Decision:
    """An entity that was not there."""
    return Decision(Change(Action.CREATED, (), document), document, CREATED, document)


def check_document(document: Document, limit: int, *, is_policy: bool = False) -> None:
    """Refuse what is too large (413), or has more levels than a message may have: nobody could read it."""
    text = encode(document)
    check_size(len(text), is_policy, limit)
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH and is_deep(document):
        raise JSON_INVALID.of(f"With this change there would be more than {MAX_DEPTH} levels.")


def is_there(document: Document, pointer: Pointer) -> bool:
    return not isinstance(get(document, pointer), Missing)
