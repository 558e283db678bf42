"""Which changes a token makes to a policy; who may, and what becomes of them, is in `test_expiry`."""

from __future__ import annotations

from typing import Any

from penstock.twins.access import Access
from penstock.twins.command import Caller
from penstock.twins.integration import TokenIntegration, integrated
from penstock.twins.policies import PolicyLimits
from penstock.wire.ditto.kinds import Action

APP = Caller(("idp:app",))
ALL = {"grant": ["READ", "WRITE", "EXECUTE"], "revoke": []}
SOON = "2023-11-14T22:23:30Z"


def changed(subjects: dict[str, Any], expiry: str | None) -> list[tuple[Action, str]]:
    """What a token that has the subjects a and b does, and with which of them."""
    resources = {"thing:/": ALL, "policy:/": ALL}
    policy = {"policyId": "ns:p", "entries": {"APP": {"subjects": {"idp:app": {}, **subjects}, "resources": resources}}}
    rights = Access(policy).rights(APP.subjects)
    wish = TokenIntegration("ns:p", "APP", {"APP": ("a", "b")}, expiry, "added")
    return [(change.kind, change.pointer[-1]) for change in integrated(wish, policy, rights, APP, PolicyLimits())]


def test_a_subject_that_is_there_is_modified_and_any_other_created() -> None:
    assert changed({"a": {"type": "added"}}, SOON) == [(Action.MODIFIED, "a"), (Action.CREATED, "b")]


def test_only_a_subject_that_is_there_is_deleted() -> None:
    assert changed({"b": {"type": "added"}}, None) == [(Action.DELETED, "b")]
