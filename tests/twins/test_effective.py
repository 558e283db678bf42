"""Policies in force: for which namespace, for how long they are good, and who depends on whom."""

from __future__ import annotations

from typing import Any

from penstock.twins.access import Permission, ResourceKind
from penstock.twins.effective import Effective, EffectivePolicies
from penstock.twins.twin import Twin
from tests.twins.world import READ, entry

READERS = entry("me", **{"thing:/": READ})


def policy(id: str, entries: dict[str, Any] | None = None, *imports: str) -> Twin:
    document: dict[str, Any] = {"policyId": id, "entries": entries or {}}
    if imports:
        document["imports"] = {each: {} for each in imports}
    return Twin(document, 1, 0, 0)


def nothing(id: str) -> Twin | None:
    """There are no other policies."""
    return None


def may_read(effective: Effective, namespace: str = "ns") -> bool:
    rights = effective.access(namespace).rights(frozenset(["me"]))
    return rights.scope(ResourceKind.THING, Permission.READ).covers(())


def test_a_policy_is_evaluated_once_for_all_namespaces() -> None:
    effective = Effective(policy("ns:p", {"A": READERS}).document, {})
    assert may_read(effective)
    assert effective.access("ns") is effective.access("other")


def test_an_entry_counts_in_its_namespaces() -> None:
    limited = {"A": {**READERS, "namespaces": ["ns.*"]}, "B": entry("other", **{"thing:/": READ})}
    effective = Effective(policy("ns:p", limited).document, {})
    assert may_read(effective, "ns.a")
    assert not may_read(effective, "ns")
    assert effective.access("ns.a") is effective.access("ns.a")
    # An entry beside it that is not limited counts everywhere.
    both = Effective(policy("ns:p", {"A": READERS, "B": limited["A"]}).document, {})
    assert may_read(both, "ns")
    assert may_read(both, "ns.a")


def test_a_policy_that_uses_no_other_is_as_it_is() -> None:
    policies = EffectivePolicies({})
    alone = policy("ns:p", {"A": READERS})
    found = policies.evaluated(alone.document, nothing)
    assert found.document is alone.document
    assert found.used == {}


def test_an_evaluated_policy_is_good_until_it_or_another_that_it_uses_changes() -> None:
    policies = EffectivePolicies({})
    known = {"ns:t": policy("ns:t", {"A": READERS})}
    user = policy("ns:u", None, "ns:t")
    first = policies.of(user, known.get)
    assert may_read(first)
    assert policies.of(user, known.get) is first
    known["ns:t"] = policy("ns:t")
    second = policies.of(user, known.get)
    assert not may_read(second)
    known["ns:other"] = policy("ns:other", {"A": READERS})
    assert policies.of(user, known.get) is second
    # One that came back is another one.
    assert may_read(policies.of(policy("ns:u", None, "ns:other"), known.get))


def test_a_policy_without_others_is_good_as_long_as_it_is_the_same() -> None:
    policies = EffectivePolicies({})
    alone = policy("ns:p", {"A": READERS})
    assert policies.of(alone, nothing) is policies.of(alone, nothing)
    assert not may_read(policies.of(policy("ns:p"), nothing))


def test_an_entry_may_refer_to_another_of_its_policy() -> None:
    entries = {"A": {**entry("me"), "references": [{"entry": "B"}]}, "B": entry("other", **{"thing:/": READ})}
    found = EffectivePolicies({}).evaluated(policy("ns:p", entries).document, nothing)
    assert may_read(found)


def test_policies_of_longer_patterns_are_shared_first_and_each_once() -> None:
    policies = EffectivePolicies({"*": ["ns:all", "ns:few"], "org.*": ["ns:org", "ns:few"], "org.a": ["ns:a"]})
    assert policies.shared_with("org.a:p") == ["ns:a", "ns:org", "ns:few", "ns:all"]
    assert policies.shared_with("ns:p") == ["ns:all", "ns:few"]
    assert EffectivePolicies({"org.*": ["ns:org"]}).shared_with("ns:p") == []
    assert EffectivePolicies({}).shared_with("ns:p") == []
    assert policies.namespaces_of("ns:few") == ["*", "org.*"]
    assert policies.namespaces_of("ns:none") == []


def test_a_shared_policy_is_used_even_where_nothing_is_imported() -> None:
    policies = EffectivePolicies({"ns": ["ns:root"]})
    found = policies.of(policy("ns:p"), {"ns:root": policy("ns:root", {"A": READERS})}.get)
    assert may_read(found)
    assert list(found.used) == ["ns:root"]


def test_those_that_import_a_policy_depend_on_it_at_any_distance() -> None:
    policies = EffectivePolicies({})
    for each in (policy("ns:b", None, "ns:a"), policy("ns:c", None, "ns:b"), policy("ns:d", None, "ns:a", "ns:x")):
        policies.note(each.document["policyId"], each)
    assert policies.dependents("ns:a") == {"ns:b", "ns:c", "ns:d"}
    assert policies.dependents("ns:b") == {"ns:c"}
    assert policies.dependents("ns:c") == set()
    # Other imports than before.
    policies.note("ns:b", policy("ns:b", None, "ns:x"))
    assert policies.dependents("ns:a") == {"ns:d"}
    assert policies.dependents("ns:x") == {"ns:b", "ns:c", "ns:d"}
    policies.note("ns:d", None)
    assert policies.dependents("ns:a") == set()
    policies.note("ns:b", policy("ns:b"))
    assert policies.dependents("ns:x") == set()


def test_policies_that_import_each_other_depend_on_each_other() -> None:
    policies = EffectivePolicies({})
    policies.note("ns:a", policy("ns:a", None, "ns:b"))
    policies.note("ns:b", policy("ns:b", None, "ns:a"))
    assert policies.dependents("ns:a") == {"ns:a", "ns:b"}


def test_a_policy_that_is_gone_is_evaluated_again_when_it_is_back() -> None:
    policies = EffectivePolicies({})
    same = policy("ns:p", {"A": READERS})
    first = policies.of(same, nothing)
    policies.note("ns:p", same)
    assert policies.of(same, nothing) is first
    policies.note("ns:p", None)
    assert policies.of(same, nothing) is not first
