"""The rules of policies: what a valid one is, and what each command makes of the one it meets.

How a policy decides is in `access`. A policy must keep somebody who may write it: else nobody could ever change it.
Upstream documentation: "Policies".
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.twins.decision import DONE, Decision, check_document, create, delete_at, is_there, put_at
from penstock.twins.preconditions import IfEqual, equal, if_equal
from penstock.twins.twin import Change, Document
from penstock.wire.ditto.document import MAX_ENTITY_BYTES, Json, same, text_of
from penstock.wire.ditto.errors import (
    JSON_INVALID,
    POLICY_ENTRY_INVALID,
    POLICY_ENTRY_NOT_FOUND,
    POLICY_INVALID,
    UNKNOWN_PATH,
)
from penstock.wire.ditto.pointer import get, print_pointer
from penstock.wire.ditto.resource import Part
from penstock.wire.ditto.topic import Action, Group
from penstock.wire.ditto.twin import Command

# The entry of a policy that nobody gave.
DEFAULT_LABEL = "DEFAULT"
_EVERYTHING = ("thing:/", "policy:/", "message:/")
_ROOT = "policy:/"

# Parts that can be deleted one by one; the others are there as long as what they are in.
_DELETABLE = (Part.POLICY, Part.ENTRY, Part.SUBJECT, Part.RESOURCE)


def may_create(command: Command) -> bool:
    """Whether a command makes the policy that is missing."""
    return not command.resource.pointer and command.action in (Action.CREATE, Action.MODIFY)


def default_policy(policy_id: str, subject: str) -> Document:
    """What a thing is put under whose creator says nothing: all is granted to the creator."""
    effects = {name: {"grant": ["READ", "WRITE"], "revoke": list[str]()} for name in _EVERYTHING}
    entry = {"subjects": {subject: {"type": "generated"}}, "resources": effects}
    return {"policyId": policy_id, "entries": {DEFAULT_LABEL: entry}}


def decide_new(policy_id: str, value: Json, limit: int = MAX_ENTITY_BYTES) -> Decision:
    """A policy that was not there."""
    policy = _policy(policy_id, value)
    if not keeps_a_writer(policy):
        raise POLICY_INVALID.of(policy_id)
    check_document(policy, limit, is_policy=True)
    return create(policy)


def decide(command: Command, policy: Document, limit: int = MAX_ENTITY_BYTES) -> Decision:
    """What a command makes of a policy that exists; raises 404, 403, 412, 413."""
    check_there(command, policy)
    decision = _delete(command, policy) if command.action is Action.DELETE else _modify(command, policy)
    after = decision.document
    if after is not None:
        if not keeps_a_writer(after):
            label = command.resource.pointer[1:2]
            raise POLICY_ENTRY_INVALID.of(*label, command.entity) if label else POLICY_INVALID.of(command.entity)
        check_document(after, limit, is_policy=True)
    return decision


def check_there(command: Command, policy: Document) -> None:
    """Raises 404 if the entry of a part is missing, and for a part that is to be deleted or read if it is itself."""
    pointer = command.resource.pointer
    if len(pointer) > 2 and not is_there(policy, pointer[:2]):
        raise POLICY_ENTRY_NOT_FOUND.of(pointer[1], command.entity)
    if command.action in (Action.DELETE, Action.RETRIEVE) and not is_there(policy, pointer):
        raise command.resource.not_found(str(command.entity))


def _delete(command: Command, policy: Document) -> Decision:
    if command.resource.part not in _DELETABLE:
        raise UNKNOWN_PATH.of(command.path, description="Only a policy, an entry, a subject and a resource can go.")
    return delete_at(policy, command.resource.pointer)


def _modify(command: Command, policy: Document) -> Decision:
    pointer, part = command.resource.pointer, command.resource.part
    if part is Part.POLICY:
        value = _policy(str(command.entity), command.value)
    else:
        value = _NORMAL[part](command.value, print_pointer(pointer))
    if if_equal(command.headers) is not IfEqual.UPDATE and same(get(policy, pointer), value):
        raise equal(Group.POLICIES)
    if part in (Part.POLICY, Part.ENTRIES, Part.SUBJECTS, Part.RESOURCES):
        change = Change(Action.MODIFIED, pointer, value)
        return Decision(change, change.applied(policy), DONE)
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
    # One that were to expire, and did not, would keep what it was meant to lose.
    if value.get("expiry") is not None:
        text = text_of(value["expiry"])
        raise JSON_INVALID.of(f"Value <{text}> for <{place}/expiry> is not supported: subjects do not expire here.")
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
