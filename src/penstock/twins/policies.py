"""The rules of policies: what a valid one is, and what each command makes of it.

How a policy decides is in `access`. A policy must keep a subject that may write it, because nobody could ever change it
otherwise.
Upstream documentation: "Policies".
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.twins.command import TwinCommand
from penstock.twins.decision import Decision, Effect, check_document, create, delete_at, is_there, put_at
from penstock.twins.preconditions import IfEqual, read
from penstock.twins.reasons import NobodyCouldWrite, NotFound, NothingNew, PartStays, SubjectExpires, TwinRefusal
from penstock.twins.twin import Change, Document
from penstock.wire.ditto.document import MAX_ENTITY_BYTES, Json, same, text_of
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.pointer import get, print_pointer
from penstock.wire.ditto.resource import Part, Resource

# The entry of a default policy.
DEFAULT_LABEL = "DEFAULT"
_EVERYTHING = ("thing:/", "policy:/", "message:/")
_ROOT = "policy:/"

# Parts that can be deleted one by one; the others exist as long as what they are in.
_DELETABLE = (Part.POLICY, Part.ENTRY, Part.SUBJECT, Part.RESOURCE)


def may_create(command: TwinCommand) -> bool:
    """Whether a command creates the policy if it is missing."""
    return not command.resource.pointer and command.action in (Action.CREATE, Action.MODIFY)


def default_policy(policy_id: str, subject: str) -> Document:
    """The default policy of a new thing: everything is granted to the creator."""
    effects = {name: {"grant": ["READ", "WRITE"], "revoke": list[str]()} for name in _EVERYTHING}
    entry = {"subjects": {subject: {"type": "generated"}}, "resources": effects}
    return {"policyId": policy_id, "entries": {DEFAULT_LABEL: entry}}


def decide_new(policy_id: str, value: Json, limit: int = MAX_ENTITY_BYTES) -> Decision:
    """A new policy."""
    policy = _policy(policy_id, value)
    if not keeps_a_writer(policy):
        raise TwinRefusal(NobodyCouldWrite(policy_id, None))
    check_document(policy, limit, is_policy=True)
    return create(policy)


def decide(command: TwinCommand, policy: Document, limit: int = MAX_ENTITY_BYTES) -> Decision:
    """What a command makes of a policy that exists; raises what is wrong with it."""
    check_there(command, policy)
    decision = _delete(command, policy) if command.action is Action.DELETE else _modify(command, policy)
    after = decision.document
    if after is not None:
        if not keeps_a_writer(after):
            pointer = command.resource.pointer
            raise TwinRefusal(NobodyCouldWrite(str(command.entity), pointer[1] if len(pointer) > 1 else None))
        check_document(after, limit, is_policy=True)
    return decision


def check_there(command: TwinCommand, policy: Document) -> None:
    """Raises NotFound if the entry of a part is missing, and for a part to be deleted or read if it is itself."""
    pointer = command.resource.pointer
    if len(pointer) > 2 and not is_there(policy, pointer[:2]):
        raise TwinRefusal(NotFound(str(command.entity), Resource(Part.ENTRY, pointer[:2])))
    if command.action in (Action.DELETE, Action.RETRIEVE) and not is_there(policy, pointer):
        raise TwinRefusal(NotFound(str(command.entity), command.resource))


def _delete(command: TwinCommand, policy: Document) -> Decision:
    if command.resource.part not in _DELETABLE:
        raise TwinRefusal(PartStays(command.path))
    return delete_at(policy, command.resource.pointer)


def _modify(command: TwinCommand, policy: Document) -> Decision:
    pointer, part = command.resource.pointer, command.resource.part
    if part is Part.POLICY:
        value = _policy(str(command.entity), command.value)
    else:
        value = _NORMAL[part](command.value, print_pointer(pointer))
    if read(command.conditions.if_equal) is not IfEqual.UPDATE and same(get(policy, pointer), value):
        raise TwinRefusal(NothingNew(is_policy=True))
    if part in (Part.POLICY, Part.ENTRIES, Part.SUBJECTS, Part.RESOURCES):
        change = Change(Action.MODIFIED, pointer, value)
        return Decision(change, change.applied(policy), Effect.CHANGED)
    return put_at(policy, pointer, value)


def keeps_a_writer(policy: Document) -> bool:
    """Whether somebody is granted WRITE at `policy:/`, and is not revoked it there."""
    granted: set[str] = set()
    revoked: set[str] = set()
    for entry in policy["entries"].values():
        effect = entry["resources"].get(_ROOT, _NO_EFFECT)
        if "WRITE" in effect["grant"]:
            granted.update(entry["subjects"])
        if "WRITE" in effect["revoke"]:
            revoked.update(entry["subjects"])
    return not granted <= revoked


_NO_EFFECT: dict[str, list[str]] = {"grant": [], "revoke": []}

# -- the form that is stored: valid already, with nothing left out -----------------------------------------------------


def _policy(policy_id: str, value: Json) -> Document:
    return {"policyId": policy_id, "entries": _entries(value.get("entries", {}), "/entries")}


def _entries(value: Json, place: str) -> Document:
    return {label: _entry(entry, f"{place}/{label}") for label, entry in value.items()}


def _entry(value: Json, place: str) -> Document:
    return {
        "subjects": _subjects(value.get("subjects", {}), f"{place}/subjects"),
        "resources": _resources(value.get("resources", {}), f"{place}/resources"),
    }


def _subjects(value: Json, place: str) -> Document:
    return {name: _subject(subject, f"{place}/{name}") for name, subject in value.items()}


def _subject(value: Json, place: str) -> Document:
    # A subject that is meant to expire, and does not, would keep its rights.
    if value.get("expiry") is not None:
        raise TwinRefusal(SubjectExpires(text_of(value["expiry"]), f"{place}/expiry"))
    return dict(value)


def _resources(value: Json, place: str) -> Document:
    return {name: _resource(effect, f"{place}/{name}") for name, effect in value.items()}


def _resource(value: Json, place: str) -> Document:
    return {"grant": list(value.get("grant", [])), "revoke": list(value.get("revoke", []))}


_NORMAL: dict[Part, Callable[[Json, str], Document]] = {
    Part.ENTRIES: _entries,
    Part.ENTRY: _entry,
    Part.SUBJECTS: _subjects,
    Part.SUBJECT: _subject,
    Part.RESOURCES: _resources,
    Part.RESOURCE: _resource,
}
