"""Subjects that come from a token: a caller adds them to entries of a policy until the token expires, or removes them.

For callers who may do that and nothing else with a policy, such as an application that has a connection act for it.
Upstream documentation: "Policies", actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.twins.access import Access, Permission, ResourceKind, Rights
from penstock.twins.command import Caller
from penstock.twins.decision import is_there
from penstock.twins.enforcement import not_found
from penstock.twins.expiry import rounded_up
from penstock.twins.policies import PolicyLimits, check_changed
from penstock.twins.reasons import NotApplicable, NotFound, NotModifiable, TwinRefusal
from penstock.twins.twin import Change, Document
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.resource import Part, Resource

ACTIVATE = "activateTokenIntegration"
DEACTIVATE = "deactivateTokenIntegration"


@dataclass(frozen=True, slots=True)
class TokenIntegration:
    """`subjects` are those of the token, by the label of the entry that they would be in; `label` is None for all.

    `expiry` is when the token does, as text; None for a deactivation. `described` says how the subjects came.
    """

    policy_id: str
    label: str | None
    subjects: Mapping[str, tuple[str, ...]]
    expiry: str | None
    described: str
    announcement: Json = None

    @property
    def action(self) -> str:
        return DEACTIVATE if self.expiry is None else ACTIVATE


def integrated(
    wish: TokenIntegration, policy: Document | None, rights: Rights, caller: Caller, limits: PolicyLimits
) -> list[Change]:
    """What is to be changed; raises NotFound, NotModifiable, NotApplicable."""
    executing = rights.scope(ResourceKind.POLICY, Permission.EXECUTE)
    if policy is None or not (executing.touches(()) or rights.scope(ResourceKind.POLICY, Permission.READ).touches(())):
        raise not_found(EntityGroup.POLICIES, wish.policy_id)
    if wish.label is not None and not is_there(policy, ("entries", wish.label)):
        raise TwinRefusal(NotFound(wish.policy_id, Resource(Part.ENTRY, ("entries", wish.label))))
    labels = list(policy["entries"]) if wish.label is None else [wish.label]
    allowed = [label for label in labels if executing.covers(("entries", label, "actions", wish.action))]
    if not allowed:
        raise TwinRefusal(NotModifiable(wish.policy_id, Resource(Part.POLICY, ())))
    fitting = [label for label in allowed if _applies(wish, policy["entries"][label], caller)]
    if not fitting:
        raise TwinRefusal(NotApplicable(wish.action))
    changes = [change for label in fitting for change in _changes(wish, label, policy["entries"][label], limits)]
    check_changed(policy, changes)
    return changes


def _applies(wish: TokenIntegration, entry: Json, caller: Caller) -> bool:
    """The caller is a subject of the entry, which for an activation must grant READ on a thing."""
    if caller.subjects.isdisjoint(entry["subjects"]):
        return False
    reading = Access({"entries": {"": entry}}).rights(caller.subjects).scope(ResourceKind.THING, Permission.READ)
    return wish.expiry is None or reading.touches(())


def _changes(wish: TokenIntegration, label: str, entry: Json, limits: PolicyLimits) -> list[Change]:
    places = [("entries", label, "subjects", name) for name in wish.subjects.get(label, ())]
    if wish.expiry is None:
        return [Change(Action.DELETED, place) for place in places if place[3] in entry["subjects"]]
    subject: dict[str, Json] = {"type": wish.described, "expiry": rounded_up(wish.expiry, limits.granularity)[0]}
    if wish.announcement is not None:
        subject["announcement"] = wish.announcement
    return [
        Change(Action.MODIFIED if place[3] in entry["subjects"] else Action.CREATED, place, subject) for place in places
    ]
