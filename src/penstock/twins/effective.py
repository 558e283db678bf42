"""Policies as they are in force, ready to be evaluated and cached: with their imports, by the namespace of what they
protect.

An evaluated policy is good for as long as it and all policies that it uses are the same. Which policies depend on
another one is known here as well. How imports are resolved is in `imports`, how a policy decides in `access`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.twins.access import Access
from penstock.twins.imports import Resolver, matches_namespace
from penstock.twins.twin import Document, Twin

# Finds a policy by its ID, among those on the disk or among those that are about to be.
FindTwin = Callable[[str], Twin | None]


class Effective:
    """One policy, and the state of every other one that it uses."""

    __slots__ = ("_by_namespace", "document", "used")

    def __init__(self, document: Document, used: dict[str, Twin | None]) -> None:
        self.document = document
        self.used = used
        self._by_namespace: dict[str | None, Access] = {}

    def access(self, namespace: str) -> Access:
        """For a thing or a policy of this namespace."""
        is_scoped = any(entry.get("namespaces") for entry in self.document["entries"].values())
        key = namespace if is_scoped else None
        known = self._by_namespace.get(key)
        if known is None:
            known = self._by_namespace[key] = Access(self._for(namespace) if is_scoped else self.document)
        return known

    def _for(self, namespace: str) -> Document:
        entries = {
            label: entry
            for label, entry in self.document["entries"].items()
            if not entry.get("namespaces") or matches_namespace(namespace, entry["namespaces"])
        }
        return {**self.document, "entries": entries}


class EffectivePolicies:
    """`shared` maps patterns of namespaces to the policies that all policies of these namespaces have in common."""

    def __init__(self, shared: Mapping[str, Sequence[str]]) -> None:
        self._shared = dict(shared)
        self._known: dict[str, tuple[Twin, Effective]] = {}
        # By the ID of a policy, those that import it.
        self._importers: dict[str, set[str]] = {}
        self._imports: dict[str, frozenset[str]] = {}

    def of(self, policy: Twin, find: FindTwin) -> Effective:
        id = policy.document["policyId"]
        known = self._known.get(id)
        if known is not None and known[0] is policy:
            effective = known[1]
            if not effective.used or all(find(other) is twin for other, twin in effective.used.items()):
                return effective
        effective = self.evaluated(policy.document, find)
        self._known[id] = policy, effective
        return effective

    def evaluated(self, document: Document, find: FindTwin) -> Effective:
        """The same for a policy that is not there yet."""
        shared = self.shared_with(document["policyId"])
        if not shared and "imports" not in document and not _has_references(document):
            return Effective(document, {})
        used: dict[str, Twin | None] = {}

        def look(id: str) -> Document | None:
            twin = used[id] = find(id)
            return None if twin is None else twin.document

        return Effective(Resolver(look).resolve(document, shared), used)

    def shared_with(self, policy_id: str) -> list[str]:
        """The policies that the operator shares with this one; those of a longer pattern first."""
        if not self._shared:
            return []
        namespace = policy_id.partition(":")[0]
        patterns = sorted((each for each in self._shared if matches_namespace(namespace, (each,))), key=len)
        return list(dict.fromkeys(id for pattern in reversed(patterns) for id in self._shared[pattern]))

    # -- who depends on whom ---------------------------------------------------------------------------------------

    def note(self, policy_id: str, policy: Twin | None) -> None:
        """A policy on the disk has changed, or is gone."""
        if policy is None:
            self._known.pop(policy_id, None)
        now = frozenset(() if policy is None else policy.document.get("imports", ()))
        before = self._imports.pop(policy_id, frozenset())
        if now:
            self._imports[policy_id] = now
        for gone in before - now:
            self._importers[gone].discard(policy_id)
        for new in now - before:
            self._importers.setdefault(new, set()).add(policy_id)

    def dependents(self, policy_id: str) -> set[str]:
        """Policies whose meaning may change with this one, besides those that share it with their namespace."""
        found: set[str] = set()
        waiting = [policy_id]
        while waiting:
            for importer in self._importers.get(waiting.pop(), ()):
                if importer not in found:
                    found.add(importer)
                    waiting.append(importer)
        return found

    def namespaces_of(self, policy_id: str) -> list[str]:
        """Patterns of the namespaces whose policies have this one in common."""
        return [pattern for pattern, ids in self._shared.items() if policy_id in ids]


def _has_references(document: Document) -> bool:
    return any(entry.get("references") for entry in document["entries"].values())
