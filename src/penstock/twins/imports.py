"""What a policy grants together with others: the entries it imports, those that its entries refer to, and those that
the operator has every policy of a namespace share.

The stored policy is never changed by this. Imports are one level deep; `transitiveImports` opens further levels, one by
one. Upstream documentation: "Policies", policy imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.twins.enforcement import not_found
from penstock.twins.reasons import ImportLoop, ReferenceBroken, TwinRefusal
from penstock.twins.twin import Document
from penstock.wire.ditto.document import Json, text_of
from penstock.wire.ditto.kinds import EntityGroup

# Policies that one policy may import.
MAX_IMPORTS = 10

# Levels of `transitiveImports` that are followed; what is below them grants nothing.
MAX_LEVELS = 10

_IMPORTED = "imported-{}-{}"
_SHARED = "nsimported-{}-{}"

# Finds a policy by its ID.
FindPolicy = Callable[[str], Document | None]


def matches_namespace(namespace: str, patterns: Iterable[str]) -> bool:
    """Whether one of them is this namespace, `NS.*` with this one below NS, or `*`."""
    return any(
        pattern in ("*", namespace) or (pattern.endswith(".*") and namespace.startswith(pattern[:-1]))
        for pattern in patterns
    )


class Resolver:
    """Resolves one policy."""

    def __init__(self, find: FindPolicy) -> None:
        self._find = find
        # The way back to the first policy, if there is one.
        self.loop: tuple[str, ...] = ()

    def resolve(self, policy: Document, shared: Iterable[str] = ()) -> Document:
        """The policy with all entries that are in force; `shared` are the policies that its namespace has in common."""
        id = policy["policyId"]
        entries = self._with_imports(policy, policy.get("imports", {}), (id,))
        for root in shared:
            found = None if root == id else self._find(root)
            if found is None:
                continue
            for label, entry in found["entries"].items():
                if _importable(entry) == "implicit":
                    entries[_SHARED.format(root, label)] = _own(entry)
        return {**policy, "entries": entries}

    def _with_imports(self, policy: Document, imports: Document, way: tuple[str, ...]) -> Document:
        """The entries of a policy, with what it imports, and with its references resolved."""
        entries: Document = dict(policy["entries"])
        visible: dict[tuple[str, str], Json] = {}
        for id, wish in imports.items():
            for label, entry in self._imported(id, wish, way).items():
                if _importable(entry) == "implicit" or label in wish.get("entries", ()):
                    visible[id, label] = entry
                    entries[_IMPORTED.format(id, label)] = _own(entry)
        for label, entry in policy["entries"].items():
            if entry.get("references"):
                entries[label] = _merged(entry, policy["entries"], visible)
        return entries

    def _imported(self, id: str, wish: Json, way: tuple[str, ...]) -> Document:
        """All entries of another policy that may be imported."""
        found = self._find(id)
        if found is None:
            return {}
        followed: Document = {}
        if len(way) < MAX_LEVELS:
            for next_id, next_wish in found.get("imports", {}).items():
                if next_id not in wish.get("transitiveImports", ()):
                    continue
                if next_id in (*way, id):
                    if next_id == way[0]:
                        self.loop = (*way, id, next_id)
                else:
                    followed[next_id] = next_wish
        entries = self._with_imports(found, followed, (*way, id))
        return {label: entry for label, entry in entries.items() if _importable(entry) != "never"}


def check_imports(
    after: Document, before: Document | None, may_import: Callable[[str, Json], bool], find: FindPolicy
) -> None:
    """Only what a caller may read can be imported, only what is there referred to, and nothing in a circle.

    Raises NotFound, ReferenceBroken, ImportLoop. What was imported before needs no permission.
    """
    old = {} if before is None else before.get("imports", {})
    for id, wish in after.get("imports", {}).items():
        if old.get(id) != wish and not may_import(id, wish):
            raise not_found(EntityGroup.POLICIES, id)
    broken = _missing_reference(after, find)
    if broken is not None:
        raise TwinRefusal(ReferenceBroken(*broken))
    resolver = Resolver(find)
    resolver.resolve(after)
    if resolver.loop:
        raise TwinRefusal(ImportLoop(after["policyId"], resolver.loop))


def imported_labels(policy: Document, wish: Json) -> list[str]:
    """The labels of the entries that an import takes from a policy."""
    return [
        label
        for label, entry in policy["entries"].items()
        if _importable(entry) == "implicit" or (_importable(entry) == "explicit" and label in wish.get("entries", ()))
    ]


def _missing_reference(policy: Document, find: FindPolicy) -> tuple[str, str] | None:
    """The label of an entry with a reference to what is not there or must not be referred to, and that reference."""
    for label, entry in policy["entries"].items():
        for reference in entry.get("references", ()):
            target = _target(policy, reference, find)
            if target is None or _importable(target) == "never":
                return label, text_of(reference)
    return None


def _target(policy: Document, reference: Json, find: FindPolicy) -> Json | None:
    source: Document | None = policy
    if "import" in reference:
        if reference["import"] not in policy.get("imports", {}):
            return None
        source = find(reference["import"])
    return None if source is None else source["entries"].get(reference["entry"])


def _merged(entry: Json, own: Document, visible: dict[tuple[str, str], Json]) -> Document:
    """An entry with all that its references add to it. Where they disagree about a subject, the first one wins."""
    found: list[Json] = []
    for reference in entry["references"]:
        label = reference["entry"]
        target = visible.get((reference["import"], label)) if "import" in reference else own.get(label)
        if target is not None and _importable(target) != "never":
            found.append(target)
    limits = [set(target["allowedAdditions"]) for target in found if "allowedAdditions" in target]
    allowed = set.intersection(*limits) if limits else {"subjects", "resources", "namespaces"}
    result = _own(entry)
    for kind, nothing in (("subjects", {}), ("resources", {}), ("namespaces", [])):
        if kind not in allowed and kind in result:
            result[kind] = nothing
    subjects: Document = {}
    resources: Document = {}
    namespaces: list[str] = []
    for each in (*found, result):
        for name, subject in each["subjects"].items():
            subjects.setdefault(name, subject)
        for name, effect in each["resources"].items():
            before = resources.get(name, {"grant": [], "revoke": []})
            resources[name] = {kind: list(dict.fromkeys([*before[kind], *effect[kind]])) for kind in before}
        namespaces += each.get("namespaces", [])
    result |= {"subjects": subjects, "resources": resources}
    if namespaces:
        result["namespaces"] = list(dict.fromkeys(namespaces))
    else:
        result.pop("namespaces", None)
    return result


def _own(entry: Json) -> Document:
    """Without its references, which mean something in their own policy only."""
    return {name: value for name, value in entry.items() if name != "references"}


def _importable(entry: Json) -> str:
    return str(entry.get("importable", "implicit"))
