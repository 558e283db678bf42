"""The rules of things: what each command makes of a thing. Who may send it is in `enforcement`.

Upstream documentation: "Things", and the HTTP API's answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from msgspec import UnsetType

from penstock.twins.command import TwinCommand
from penstock.twins.decision import Decision, Effect, check_document, check_size, create, delete_at, is_there, put_at
from penstock.twins.preconditions import IfEqual, changes_nothing, minimal, read
from penstock.twins.reasons import InlinePolicyNotAllowed, NotFound, NothingNew, PolicyNotUsable, TwinRefusal
from penstock.twins.twin import Change, Document, Twin
from penstock.wire.ditto.document import MAX_ENTITY_BYTES, Json, encode, same
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.metadata import delete_patch, put_patch
from penstock.wire.ditto.patch_keys import expanded_patch, has_patterns
from penstock.wire.ditto.pointer import MISSING, get, put
from penstock.wire.ditto.resource import Part, Resource

# The policy of another thing, in place of its ID.
_REFERENCE = re.compile(r"\{\{\s*ref:things/([^/\s]+)/policyId\s*\}\}")

# Parts that are there only as long as their feature is.
_IN_FEATURES = (
    Part.FEATURE_DEFINITION,
    Part.PROPERTIES,
    Part.PROPERTY,
    Part.DESIRED_PROPERTIES,
    Part.DESIRED_PROPERTY,
)


def may_create(command: TwinCommand) -> bool:
    """Whether a command creates the thing if it is missing."""
    return not command.resource.pointer and command.action in (Action.CREATE, Action.MODIFY, Action.MERGE)


def decide_new(
    command: TwinCommand,
    policy_id: str,
    limit: int = MAX_ENTITY_BYTES,
    filled: Callable[[Document], Document] = dict,
) -> Decision:
    """A new thing, with this policy. `filled` adds what its model wants it to have."""
    thing = filled({"thingId": str(command.entity), "policyId": policy_id, **_whole(command)})
    check_document(thing, limit)
    return create(thing)


def decide(command: TwinCommand, thing: Document, limit: int = MAX_ENTITY_BYTES) -> Decision:
    """What a command makes of a thing that exists; raises what is wrong with it."""
    if command.action is Action.DELETE:
        check_there(command, thing)
        return delete_at(thing, command.resource.pointer)
    decision = _merge(command, thing) if command.action is Action.MERGE else _modify(command, thing)
    if decision.document is not None:
        check_document(decision.document, limit)
    if command.action is Action.MERGE:
        # What a patch deletes is not in the thing, but is in the journal.
        check_size(len(encode(decision.change.value)), limit)
    return decision


def _modify(command: TwinCommand, thing: Document) -> Decision:
    resource, value = command.resource, command.value
    if resource.part is Part.THING:
        value = {"thingId": thing["thingId"], "policyId": thing["policyId"], **_whole(command)}
    elif resource.part is Part.FEATURE:
        value = _plain(value)
    elif resource.part is Part.FEATURES:
        value = _plain_features(value)
    elif resource.part in _IN_FEATURES:
        _check_feature(command, thing)
    if read(command.conditions.if_equal) is not IfEqual.UPDATE and same(get(thing, resource.pointer), value):
        raise TwinRefusal(NothingNew(is_policy=False))
    return put_at(thing, resource.pointer, value)


def _merge(command: TwinCommand, thing: Document) -> Decision:
    resource = command.resource
    patch = _plain(command.value) if resource.part in (Part.THING, Part.FEATURE) else command.value
    wish = read(command.conditions.if_equal)
    current = get(thing, resource.pointer)
    if wish is not IfEqual.UPDATE and changes_nothing(current, patch):
        raise TwinRefusal(NothingNew(is_policy=False))
    if wish is IfEqual.SKIP_MINIMIZING_MERGE:
        patch = minimal(current, patch)
    change = Change(Action.MERGED, resource.pointer, patch)
    return Decision(change, change.applied(thing), Effect.CHANGED)


def with_metadata(command: TwinCommand, decision: Decision, twin: Twin | None, limit: int) -> Decision:
    """The decision with what the command wants of metadata."""
    wish = command.metadata
    if wish is None or decision.document is None:
        return decision
    pointer = command.resource.pointer
    if wish.put:
        # Beside the identity of a thing there is nothing to be said.
        values = {name: value for name, value in decision.document.items() if name not in ("thingId", "policyId")}
        patch = put_patch(wish.put, get(values, pointer))
    else:
        patch = delete_patch(wish.delete, MISSING if twin is None else get(twin.metadata, pointer))
    if not patch:
        return decision
    change = replace(decision.change, metadata=put({}, pointer, patch) if pointer else patch)
    check_size(len(encode({} if twin is None else twin.metadata)) + len(encode(change.metadata)), limit)
    return replace(decision, change=change)


def expanded(command: TwinCommand, thing: Document) -> TwinCommand:
    """The command with the keys that the expressions of its patch stand for."""
    if command.action is not Action.MERGE or not has_patterns(command.value):
        return command
    return replace(command, value=expanded_patch(command.value, get(thing, command.resource.pointer)))


def check_there(command: TwinCommand, thing: Document) -> None:
    """Raises NotFound for a part that is missing, by the name of the feature if that is missing, too."""
    if command.resource.part in _IN_FEATURES:
        _check_feature(command, thing)
    if not is_there(thing, command.resource.pointer):
        raise TwinRefusal(NotFound(str(command.entity), command.resource))


def _check_feature(command: TwinCommand, thing: Document) -> None:
    feature = Resource(Part.FEATURE, command.resource.pointer[:2])
    if not is_there(thing, feature.pointer):
        raise TwinRefusal(NotFound(str(command.entity), feature))


# -- the policy of a thing ---------------------------------------------------------------------------------------------


def given_policy_id(command: TwinCommand) -> str | None:
    """The policy that a command gives its thing; None if it names none."""
    if command.action not in (Action.CREATE, Action.MODIFY, Action.MERGE):
        return None
    if command.resource.part is Part.POLICY_ID:
        return str(command.value)
    if command.resource.part is not Part.THING or isinstance(command.value, UnsetType):
        return None
    given = command.value.get("policyId")
    return None if given is None else str(given)


def inline_policy(command: TwinCommand, *, is_new: bool) -> Json | None:
    """The policy that comes with a new thing; raises InlinePolicyNotAllowed if there must be none.

    Its ID is its own, or else that of the thing.
    """
    if command.resource.part is not Part.THING or isinstance(command.value, UnsetType):
        return None
    brought = _brought(command)
    policy = brought.get("_policy")
    if "_copyPolicyFrom" in brought and (policy is not None or not is_new):
        raise TwinRefusal(InlinePolicyNotAllowed(str(command.entity)))
    if policy is None:
        return None
    if not is_new or ("policyId" in brought and brought["policyId"] != policy.get("policyId")):
        raise TwinRefusal(InlinePolicyNotAllowed(str(command.entity)))
    return policy


@dataclass(frozen=True, slots=True)
class PolicySource:
    """Where the policy of a new thing is copied from: a policy, or the policy of another thing."""

    id: str
    is_thing: bool


def copied_policy(command: TwinCommand) -> PolicySource | None:
    """What `_copyPolicyFrom` of a new thing names; raises PolicyNotUsable if it is not an ID."""
    if command.resource.part is not Part.THING or isinstance(command.value, UnsetType):
        return None
    given = _brought(command).get("_copyPolicyFrom")
    if given is None:
        return None
    found = _REFERENCE.fullmatch(given) if type(given) is str else None
    if found is not None:
        return PolicySource(found[1], is_thing=True)
    if type(given) is not str or ":" not in given:
        raise TwinRefusal(PolicyNotUsable(str(command.entity), str(given)))
    return PolicySource(given, is_thing=False)


# -- values ------------------------------------------------------------------------------------------------------------


def _brought(command: TwinCommand) -> Document:
    """The thing that a command brings; of a patch, what it leaves where nothing was."""
    given: Json = command.value
    value: Document = merge(MISSING, given) if command.action is Action.MERGE else given
    return value


def _whole(command: TwinCommand) -> Document:
    thing: Document = _plain(_brought(command))
    return {**thing, "features": _plain_features(thing["features"])} if "features" in thing else thing


def _plain(value: Json) -> Json:
    """Without the fields that are not stored, those whose names begin with `_`."""
    if type(value) is not dict:
        return value
    return {name: inside for name, inside in value.items() if not name.startswith("_")}


def _plain_features(value: Json) -> Json:
    if type(value) is not dict:
        return value
    return {name: _plain(feature) for name, feature in value.items()}
