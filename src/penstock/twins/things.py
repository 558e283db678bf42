"""The rules of things: what each command makes of the one it meets. Who may send it is in `enforcement`.

Upstream documentation: "Things", and the HTTP API's answers.
"""

from __future__ import annotations

from msgspec import UnsetType

from penstock.twins.decision import DONE, Decision, check_document, create, delete_at, is_there, put_at
from penstock.twins.preconditions import IfEqual, changes_nothing, equal, if_equal, minimal
from penstock.twins.twin import Change, Document
from penstock.wire.ditto.document import MAX_ENTITY_BYTES, Json, check_size, encode, same
from penstock.wire.ditto.errors import INLINE_POLICY_NOT_ALLOWED, UNKNOWN_PATH
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.pointer import MISSING, get
from penstock.wire.ditto.resource import Part, Resource
from penstock.wire.ditto.topic import Action, Group
from penstock.wire.ditto.twin import Command

# Parts that are there only as long as their feature is.
_IN_FEATURES = (
    Part.FEATURE_DEFINITION,
    Part.PROPERTIES,
    Part.PROPERTY,
    Part.DESIRED_PROPERTIES,
    Part.DESIRED_PROPERTY,
)


def may_create(command: Command) -> bool:
    """Whether a command makes the thing that is missing."""
    return not command.resource.pointer and command.action in (Action.CREATE, Action.MODIFY, Action.MERGE)


def decide_new(command: Command, policy_id: str, limit: int = MAX_ENTITY_BYTES) -> Decision:
    """A thing that was not there, under this policy."""
    thing = {"thingId": str(command.entity), "policyId": policy_id, **_whole(command)}
    check_document(thing, limit)
    return create(thing)


def decide(command: Command, thing: Document, limit: int = MAX_ENTITY_BYTES) -> Decision:
    """What a command makes of a thing that exists; raises 404, 412, 413 and what else is wrong with it."""
    if command.action is Action.DELETE:
        check_there(command, thing)
        return delete_at(thing, command.resource.pointer)
    decision = _merge(command, thing) if command.action is Action.MERGE else _modify(command, thing)
    if decision.document is not None:
        check_document(decision.document, limit)
    if command.action is Action.MERGE:
        # What a patch deletes is not in the thing, but in the journal.
        check_size(len(encode(decision.change.value)), limit=limit)
    return decision


def _modify(command: Command, thing: Document) -> Decision:
    resource, value = command.resource, command.value
    if resource.part is Part.THING:
        value = {"thingId": thing["thingId"], "policyId": thing["policyId"], **_whole(command)}
    elif resource.part is Part.FEATURE:
        value = _plain(value)
    elif resource.part is Part.FEATURES:
        value = _plain_features(value)
    elif resource.part in _IN_FEATURES:
        _check_feature(command, thing)
    if if_equal(command.headers) is not IfEqual.UPDATE and same(get(thing, resource.pointer), value):
        raise equal(Group.THINGS)
    return put_at(thing, resource.pointer, value)


def _merge(command: Command, thing: Document) -> Decision:
    resource = command.resource
    patch = _plain(command.value) if resource.part in (Part.THING, Part.FEATURE) else command.value
    wish = if_equal(command.headers)
    current = get(thing, resource.pointer)
    if wish is not IfEqual.UPDATE and changes_nothing(current, patch):
        raise equal(Group.THINGS)
    if wish is IfEqual.SKIP_MINIMIZING_MERGE:
        patch = minimal(current, patch)
    change = Change(Action.MERGED, resource.pointer, patch)
    return Decision(change, change.applied(thing), DONE)


def check_there(command: Command, thing: Document) -> None:
    """Raises 404 for a part that is missing, by the name of the feature if that is missing, too."""
    if command.resource.part in _IN_FEATURES:
        _check_feature(command, thing)
    if not is_there(thing, command.resource.pointer):
        raise command.resource.not_found(str(command.entity))


def _check_feature(command: Command, thing: Document) -> None:
    feature = Resource(Part.FEATURE, command.resource.pointer[:2])
    if not is_there(thing, feature.pointer):
        raise feature.not_found(str(command.entity))


# -- the policy of a thing ---------------------------------------------------------------------------------------------


def given_policy_id(command: Command) -> str | None:
    """The policy that a command puts its thing under; None if it says nothing about that."""
    if command.action not in (Action.CREATE, Action.MODIFY, Action.MERGE):
        return None
    if command.resource.part is Part.POLICY_ID:
        return str(command.value)
    if command.resource.part is not Part.THING or isinstance(command.value, UnsetType):
        return None
    given = command.value.get("policyId")
    return None if given is None else str(given)


def inline_policy(command: Command, *, is_new: bool) -> Json | None:
    """The policy that comes with a new thing; raises `policy.id.notallowed` where there must be none.

    Its ID is its own, or else that of the thing.
    """
    if command.resource.part is not Part.THING or isinstance(command.value, UnsetType):
        return None
    brought = _brought(command)
    if "_copyPolicyFrom" in brought:
        raise UNKNOWN_PATH.of("/_copyPolicyFrom", description="Policies are not copied; give '_policy' or 'policyId'.")
    policy = brought.get("_policy")
    if policy is None:
        return None
    if not is_new or ("policyId" in brought and brought["policyId"] != policy.get("policyId")):
        raise INLINE_POLICY_NOT_ALLOWED.of(command.entity)
    return policy


# -- values ------------------------------------------------------------------------------------------------------------


def _brought(command: Command) -> Document:
    """The thing that a command brings; of a patch, what it leaves where nothing was."""
    given: Json = command.value
    value: Document = merge(MISSING, given) if command.action is Action.MERGE else given
    return value


def _whole(command: Command) -> Document:
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
