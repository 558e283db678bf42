"""The rules of policies: what a valid one is, and what each command makes of it.

How a policy decides is in `access`, what it imports in `imports`, when its subjects expire in `expiry`. A policy must
keep a subject that may write it and does not expire, because nobody could ever change it otherwise; one that imports
others may have that subject there.
Upstream documentation: "Policies".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.twins.command import TwinCommand
from penstock.twins.decision import Decision, Effect, check_document, create, delete_at, is_there, put_at
from penstock.twins.expiry import DEFAULT_GRANULARITY, rounded_up
from penstock.twins.imports import MAX_IMPORTS
from penstock.twins.preconditions import IfEqual, read
from penstock.twins.reasons import (
    EntryReferenced,
    ImportOfItself,
    ImportReferenced,
    NobodyCouldWrite,
    NotFound,
    NothingNew,
    PartStays,
    SubjectExpired,
    TooManyImports,
    TwinRefusal,
)
from penstock.twins.twin import Change, Document
from penstock.wire.ditto.document import MAX_ENTITY_BYTES, Json, same
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.pointer import get
from penstock.wire.ditto.resource import OF_ENTRIES, Part, Resource

# The entry of a default policy.
DEFAULT_LABEL = "DEFAULT"
_EVERYTHING = ("thing:/", "policy:/", "message:/")
_ROOT = "policy:/"

# Parts that can be deleted one by one; the others exist as long as what they are in.
_DELETABLE = (Part.POLICY, Part.ENTRY, Part.SUBJECT, Part.RESOURCE, Part.IMPORT, *OF_ENTRIES)

# Parts that are replaced as a whole, even if they were not there.
_WHOLE = (
    Part.POLICY,
    Part.ENTRIES,
    Part.SUBJECTS,
    Part.RESOURCES,
    Part.IMPORTS,
    Part.IMPORTED_ENTRIES,
    Part.TRANSITIVE_IMPORTS,
)


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """`now` and `granularity` of expiries are in microseconds; `max_bytes` is the size of a policy."""

    max_bytes: int = MAX_ENTITY_BYTES
    now: int = 0
    granularity: int = DEFAULT_GRANULARITY


DEFAULT_LIMITS = PolicyLimits()


def may_create(command: TwinCommand) -> bool:
    """Whether a command creates the policy if it is missing."""
    return not command.resource.pointer and command.action in (Action.CREATE, Action.MODIFY)


def default_policy(policy_id: str, subject: str) -> Document:
    """The default policy of a new thing: everything is granted to the creator."""
    effects = {name: {"grant": ["READ", "WRITE"], "revoke": list[str]()} for name in _EVERYTHING}
    entry = {"subjects": {subject: {"type": "generated"}}, "resources": effects}
    return {"policyId": policy_id, "entries": {DEFAULT_LABEL: entry}}


def decide_new(policy_id: str, value: Json, limits: PolicyLimits = DEFAULT_LIMITS) -> Decision:
    """A new policy."""
    policy = _policy(policy_id, value, limits)
    _check_imports(policy)
    if not keeps_a_writer(policy):
        raise TwinRefusal(NobodyCouldWrite(policy_id, None))
    check_document(policy, limits.max_bytes, is_policy=True)
    return create(policy)


def decide(command: TwinCommand, policy: Document, limits: PolicyLimits = DEFAULT_LIMITS) -> Decision:
    """What a command makes of a policy that exists; raises what is wrong with it."""
    check_there(command, policy)
    decision = _delete(command, policy) if command.action is Action.DELETE else _modify(command, policy, limits)
    after = decision.document
    if after is not None:
        _check_imports(after)
        _check_referenced(policy, after)
        if not keeps_a_writer(after):
            pointer = command.resource.pointer
            label = pointer[1] if len(pointer) > 1 and pointer[0] == "entries" else None
            raise TwinRefusal(NobodyCouldWrite(str(command.entity), label))
        check_document(after, limits.max_bytes, is_policy=True)
    return decision


def check_there(command: TwinCommand, policy: Document) -> None:
    """Raises NotFound if the entry of a part is missing, and for a part to be deleted or read if it is itself."""
    pointer = command.resource.pointer
    if len(pointer) > 2 and not is_there(policy, pointer[:2]):
        inside = Part.ENTRY if pointer[0] == "entries" else Part.IMPORT
        raise TwinRefusal(NotFound(str(command.entity), Resource(inside, pointer[:2])))
    if command.action in (Action.DELETE, Action.RETRIEVE) and not is_there(policy, pointer):
        raise TwinRefusal(NotFound(str(command.entity), command.resource))


def _delete(command: TwinCommand, policy: Document) -> Decision:
    if command.resource.part not in _DELETABLE:
        raise TwinRefusal(PartStays(command.path))
    return delete_at(policy, command.resource.pointer)


def _modify(command: TwinCommand, policy: Document, limits: PolicyLimits) -> Decision:
    pointer, part = command.resource.pointer, command.resource.part
    value = _normal(part, str(command.entity), command.value, limits)
    if read(command.conditions.if_equal) is not IfEqual.UPDATE and same(get(policy, pointer), value):
        raise TwinRefusal(NothingNew(is_policy=True))
    if part in _WHOLE:
        change = Change(Action.MODIFIED, pointer, value)
        return Decision(change, change.applied(policy), Effect.CHANGED)
    return put_at(policy, pointer, value)


def keeps_a_writer(policy: Document) -> bool:
    """Whether somebody who stays is granted WRITE at `policy:/`, and is not revoked it there."""
    if policy.get("imports"):
        return True
    granted: set[str] = set()
    revoked: set[str] = set()
    for entry in policy["entries"].values():
        effect = entry["resources"].get(_ROOT, _NO_EFFECT)
        if "WRITE" in effect["grant"]:
            granted.update([name for name, subject in entry["subjects"].items() if subject.get("expiry") is None])
        if "WRITE" in effect["revoke"]:
            revoked.update(entry["subjects"])
    return not granted <= revoked


_NO_EFFECT: dict[str, list[str]] = {"grant": [], "revoke": []}


def check_changed(policy: Document, changes: Iterable[Change]) -> None:
    """Raises NobodyCouldWrite if nobody could write a policy after these changes of its entries."""
    after: Document | None = policy
    for change in changes:
        after = change.applied(after)
    if after is not None and not keeps_a_writer(after):
        raise TwinRefusal(NobodyCouldWrite(policy["policyId"], None))


def _check_imports(policy: Document) -> None:
    id, imports = policy["policyId"], policy.get("imports", {})
    if len(imports) > MAX_IMPORTS:
        raise TwinRefusal(TooManyImports(id, MAX_IMPORTS))
    if id in imports or any(id in each.get("transitiveImports", ()) for each in imports.values()):
        raise TwinRefusal(ImportOfItself(id))


def _check_referenced(before: Document, after: Document) -> None:
    """Raises if an entry or an import is removed while a reference to it stays."""
    for label, entry in after["entries"].items():
        for reference in entry.get("references", ()):
            source = reference.get("import")
            if source is None:
                target = reference["entry"]
                if target in before["entries"] and target not in after["entries"]:
                    raise TwinRefusal(EntryReferenced(before["policyId"], target, label))
            elif source in before.get("imports", {}) and source not in after.get("imports", {}):
                raise TwinRefusal(ImportReferenced(before["policyId"], source, label))


# -- the form that is stored: valid already, with nothing left out -----------------------------------------------------


def _normal(part: Part, policy_id: str, value: Json, limits: PolicyLimits) -> Json:
    if part is Part.POLICY:
        return _policy(policy_id, value, limits)
    if part is Part.ENTRIES:
        return _entries(value, limits)
    if part is Part.ENTRY:
        return _entry(value, limits)
    if part is Part.SUBJECTS:
        return _subjects(value, limits)
    if part is Part.SUBJECT:
        return _subject(value, limits)
    if part is Part.RESOURCES:
        return _resources(value)
    return _resource(value) if part is Part.RESOURCE else value


def _policy(policy_id: str, value: Json, limits: PolicyLimits) -> Document:
    policy: Document = {"policyId": policy_id, "entries": _entries(value.get("entries", {}), limits)}
    if value.get("imports"):
        policy["imports"] = value["imports"]
    return policy


def _entries(value: Json, limits: PolicyLimits) -> Document:
    return {label: _entry(entry, limits) for label, entry in value.items()}


def _entry(value: Json, limits: PolicyLimits) -> Document:
    return {
        "subjects": _subjects(value.get("subjects", {}), limits),
        "resources": _resources(value.get("resources", {})),
        **{name: value[name] for name in OF_ENTRIES if name in value},
    }


def _subjects(value: Json, limits: PolicyLimits) -> Document:
    return {name: _subject(subject, limits) for name, subject in value.items()}


def _subject(value: Json, limits: PolicyLimits) -> Document:
    if value.get("expiry") is None:
        return {name: inside for name, inside in value.items() if name != "expiry"}
    text, time = rounded_up(value["expiry"], limits.granularity)
    if time <= limits.now:
        raise TwinRefusal(SubjectExpired(value["expiry"]))
    return {**value, "expiry": text}


def _resources(value: Json) -> Document:
    return {name: _resource(effect) for name, effect in value.items()}


def _resource(value: Json) -> Document:
    return {"grant": list(value.get("grant", [])), "revoke": list(value.get("revoke", []))}
