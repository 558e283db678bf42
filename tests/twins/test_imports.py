"""Policies that import others, refer to entries, are limited to namespaces, or get entries of their namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.twins.imports import MAX_IMPORTS, Resolver, imported_labels, matches_namespace
from penstock.twins.registry import RegistrySettings
from tests.twins.world import ALL, OUTSIDER, OWNER, READ, READER, World, command, entry, event_for, policy_command

ADMIN = entry("nginx:owner", **{"thing:/": ALL, "policy:/": ALL})
TEMPLATE = "ns:template"
USER = "ns:user"


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def put(world: World, id: str, entries: dict[str, Any], imports: dict[str, Any] | None = None) -> None:
    value: dict[str, Any] = {"entries": {"ADMIN": {**ADMIN, "importable": "never"}, **entries}}
    if imports is not None:
        value["imports"] = imports
    world.ask(policy_command("modify", value=value, id=id))


def may_read(world: World, caller: Any = READER, thing: str = "ns:thing") -> bool:
    return world.result(command("retrieve", id=thing), caller)[0] == 200


def make_thing(world: World, policy: str = USER, id: str = "ns:thing") -> None:
    world.ask(command("create", value={"policyId": policy, "attributes": {"a": 1}}, id=id))


def shown(world: World, given: Any, caller: Any = OWNER) -> Any:
    return world.ask(given, caller).value


READERS = entry("nginx:reader", **{"thing:/": READ})


@pytest.mark.parametrize(
    ("importable", "listed", "is_granted"),
    [
        (None, [], True),
        ("implicit", [], True),
        ("explicit", [], False),
        ("explicit", ["READERS"], True),
        ("never", ["READERS"], False),
    ],
)
def test_an_entry_is_imported_as_it_allows(
    world: World, importable: str | None, listed: list[str], is_granted: bool
) -> None:
    given = READERS if importable is None else {**READERS, "importable": importable}
    put(world, TEMPLATE, {"READERS": given})
    put(world, USER, {}, {TEMPLATE: {"entries": listed}})
    make_thing(world)
    assert may_read(world) is is_granted


def test_a_change_of_an_imported_policy_counts_at_once_and_after_a_restart(world: World) -> None:
    put(world, TEMPLATE, {})
    put(world, USER, {}, {TEMPLATE: {}})
    make_thing(world)
    assert not may_read(world)
    world.ask(policy_command("modify", "/entries/READERS", READERS, id=TEMPLATE))
    assert may_read(world)
    assert world.twins.dependents(TEMPLATE) == {USER}
    world.restart(save=True)
    assert may_read(world)
    assert world.twins.dependents(TEMPLATE) == {USER}
    assert "nginx:reader" in world.twins.readers(USER)
    world.ask(policy_command("delete", id=TEMPLATE))
    assert not may_read(world)
    assert "nginx:reader" not in world.twins.readers(USER)


def test_an_imported_revoke_wins_as_if_it_were_in_the_policy(world: World) -> None:
    secret = entry("nginx:reader", **{"thing:/attributes/a": {"grant": [], "revoke": ["READ"]}})
    put(world, TEMPLATE, {"SECRET": secret})
    put(world, USER, {"READERS": READERS}, {TEMPLATE: {}})
    make_thing(world)
    assert shown(world, command("retrieve"), READER)["attributes"] == {}


def test_imports_are_one_level_deep_unless_they_are_opened(world: World) -> None:
    put(world, "ns:base", {"READERS": READERS})
    put(world, TEMPLATE, {}, {"ns:base": {}})
    put(world, USER, {}, {TEMPLATE: {}})
    make_thing(world)
    assert not may_read(world)
    world.ask(policy_command("modify", f"/imports/{TEMPLATE}/transitiveImports", ["ns:base", "ns:later"], id=USER))
    assert may_read(world)
    assert world.twins.dependents("ns:base") == {TEMPLATE, USER}


def test_imports_are_opened_for_ten_levels() -> None:
    def reaches(depth: int) -> bool:
        """Whether the first of a chain of policies has the entry of the one at this depth."""
        known: dict[str, Any] = {}
        for number in range(depth):
            wish = {"transitiveImports": [f"ns:{number + 2}"]}
            known[f"ns:{number}"] = {"policyId": f"ns:{number}", "entries": {}, "imports": {f"ns:{number + 1}": wish}}
        known[f"ns:{depth}"] = {"policyId": f"ns:{depth}", "entries": {"READERS": READERS}}
        resolver = Resolver(known.get)
        return bool(resolver.resolve(known["ns:0"])["entries"])

    assert [reaches(depth) for depth in (1, 2, 10, 11)] == [True, True, True, False]


def test_only_the_imports_that_are_named_are_opened_wherever_they_stand() -> None:
    known: dict[str, Any] = {
        "ns:a": {"policyId": "ns:a", "entries": {}, "imports": {"ns:b": {"transitiveImports": ["ns:d"]}}},
        "ns:b": {"policyId": "ns:b", "entries": {}, "imports": {"ns:c": {}, "ns:d": {}}},
        "ns:c": {"policyId": "ns:c", "entries": {"C": READERS}},
        "ns:d": {"policyId": "ns:d", "entries": {"D": READERS}},
    }
    assert list(Resolver(known.get).resolve(known["ns:a"])["entries"]) == ["imported-ns:b-imported-ns:d-D"]


def test_an_import_takes_what_is_implicit_and_what_is_explicit_if_it_is_listed() -> None:
    entries = {kind: {**READERS, "importable": kind} for kind in ("implicit", "explicit", "never")}
    policy = {"policyId": TEMPLATE, "entries": {"default": READERS, **entries}}
    assert imported_labels(policy, {}) == ["default", "implicit"]
    assert imported_labels(policy, {"entries": ["explicit", "never"]}) == ["default", "implicit", "explicit"]
    assert imported_labels(policy, {"entries": ["implicit"]}) == ["default", "implicit"]


def test_the_documented_fleet_has_the_rights_of_its_template(world: World) -> None:
    """Upstream's example: roles in a template, drivers in a region, one more driver of a truck."""
    driver = {"subjects": {}, "resources": {"thing:/attributes": READ}, "allowedAdditions": ["subjects"]}
    put(world, "ns:roles", {"driver": driver})
    west = {"references": [{"import": "ns:roles", "entry": "driver"}], "subjects": {"nginx:reader": {"type": "t"}}}
    put(world, "ns:west", {"driver": west}, {"ns:roles": {}})
    truck = {
        "references": [{"import": "ns:west", "entry": "driver"}],
        "subjects": {"nginx:outsider": {"type": "t"}},
    }
    put(world, USER, {"driver": truck}, {"ns:west": {"transitiveImports": ["ns:roles"]}})
    make_thing(world)
    assert may_read(world, READER)
    assert may_read(world, OUTSIDER)
    put(world, USER, {"driver": truck}, {"ns:west": {}})
    assert not may_read(world, OUTSIDER)


@pytest.mark.parametrize(
    ("allowed", "subject", "resource"),
    [(None, True, True), ([], False, False), (["subjects"], True, False), (["resources"], False, True)],
)
def test_a_referenced_entry_limits_what_is_added_to_it(
    world: World, allowed: list[str] | None, subject: bool, resource: bool
) -> None:
    role: dict[str, Any] = entry("nginx:reader", **{"thing:/attributes/a": READ})
    if allowed is not None:
        role["allowedAdditions"] = allowed
    own = {**entry("nginx:outsider", **{"thing:/attributes/b": READ}), "references": [{"entry": "ROLE"}]}
    put(world, USER, {"ROLE": role, "OWN": own})
    world.ask(command("create", value={"policyId": USER, "attributes": {"a": 1, "b": 2}}))
    assert may_read(world, OUTSIDER) is subject
    seen = shown(world, command("retrieve"), READER)["attributes"]
    assert seen == ({"a": 1, "b": 2} if resource else {"a": 1})


def test_references_to_one_another_end(world: World) -> None:
    one = {**entry("nginx:reader", **{"thing:/attributes/a": READ}), "references": [{"entry": "TWO"}]}
    two = {**entry("nginx:outsider", **{"thing:/attributes/b": READ}), "references": [{"entry": "ONE"}]}
    put(world, USER, {"ONE": one, "TWO": two})
    world.ask(command("create", value={"policyId": USER, "attributes": {"a": 1, "b": 2}}))
    assert shown(world, command("retrieve"), READER)["attributes"] == {"a": 1, "b": 2}


def test_an_entry_may_be_limited_to_namespaces(world: World) -> None:
    put(world, USER, {"READERS": {**READERS, "namespaces": ["com.acme", "com.acme.*"]}})
    for id, is_granted in (
        ("ns:thing", False),
        ("com.acme:t", True),
        ("com.acme.cars:t", True),
        ("com.acmeX:t", False),
    ):
        make_thing(world, id=id)
        assert may_read(world, thing=id) is is_granted, id


def test_changes_are_told_by_the_namespace_of_what_has_changed(world: World) -> None:
    put(world, USER, {"READERS": {**READERS, "namespaces": ["com.acme"]}})
    make_thing(world, id="com.acme:t")
    make_thing(world, id="ns:t")
    told = {each.key.id: event_for(each, READER) for each in world.told if not each.key.is_policy}
    assert told["com.acme:t"] is not None
    assert told["ns:t"] is None


@pytest.mark.parametrize(
    ("pattern", "namespace", "expected"),
    [("a.b", "a.b", True), ("a.b", "a.b.c", False), ("a.*", "a", False), ("a.*", "a.b.c", True), ("*", "", True)],
)
def test_patterns_of_namespaces(pattern: str, namespace: str, expected: bool) -> None:
    assert matches_namespace(namespace, [pattern]) is expected


def test_policies_of_a_namespace_share_the_entries_of_its_root() -> None:
    settings = RegistrySettings(shared_policies={"com.*": ["ns:root"], "com.acme": ["ns:missing", "ns:root"]})
    world = World(settings=settings)
    put(world, "ns:root", {"AUDIT": READERS, "HIDDEN": {**entry("nginx:x"), "importable": "explicit"}})
    put(world, "com.acme:p", {})
    put(world, "ns:p", {})
    make_thing(world, "com.acme:p", "com.acme:t")
    make_thing(world, "ns:p", "ns:t")
    assert may_read(world, thing="com.acme:t")
    assert not may_read(world, thing="ns:t")
    resolved = shown(world, policy_command("retrieve", id="com.acme:p", headers={"policy-view": "resolved"}))
    assert list(resolved["entries"]) == ["ADMIN", "nsimported-ns:root-AUDIT"]
    assert world.twins.dependents("ns:root") == {"com.acme:p"}, "and those of no other namespace"
    put(world, "other:user", {}, {"ns:root": {}})
    assert world.twins.dependents("ns:root") == {"com.acme:p", "other:user"}
    world.close()


def test_the_resolved_view_has_all_entries_and_no_tag(world: World) -> None:
    put(world, TEMPLATE, {"READERS": READERS})
    put(world, USER, {}, {TEMPLATE: {}})
    plain = world.ask(policy_command("retrieve", id=USER))
    assert list(shown(world, policy_command("retrieve", id=USER))["entries"]) == ["ADMIN"]
    assert plain.etag is not None
    headers = {"policy-view": "resolved", "if-none-match": "*"}
    resolved = world.ask(policy_command("retrieve", id=USER, headers=headers))
    assert list(shown(world, policy_command("retrieve", id=USER, headers=headers))["entries"]) == [
        "ADMIN",
        f"imported-{TEMPLATE}-READERS",
    ]
    assert resolved.etag is None
    error = world.refused(policy_command("retrieve", id=USER, headers={"policy-view": "all"}))
    assert (error.status, error.code) == (400, "policies:view.invalid")


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused(world: World, given: Any, caller: Any = OWNER) -> tuple[int, str, str]:
    error = world.refused(given, caller)
    return error.status, error.code, error.message


def test_a_policy_does_not_import_itself(world: World) -> None:
    value = {"entries": {"ADMIN": ADMIN}, "imports": {USER: {}}}
    assert refused(world, policy_command("create", value=value, id=USER))[:2] == (400, "policies:import.invalid")
    put(world, TEMPLATE, {})
    value = {"entries": {"ADMIN": ADMIN}, "imports": {TEMPLATE: {"transitiveImports": [USER]}}}
    assert refused(world, policy_command("create", value=value, id=USER))[:2] == (400, "policies:import.invalid")


def test_a_loop_of_imports_is_refused_and_its_way_is_named(world: World) -> None:
    put(world, "ns:a", {})
    put(world, "ns:c", {}, {"ns:a": {}})
    put(world, "ns:b", {}, {"ns:c": {"transitiveImports": ["ns:a"]}})
    given = policy_command("modify", "/imports/ns:b", {"transitiveImports": ["ns:c"]}, id="ns:a")
    status, code, message = refused(world, given)
    assert (status, code) == (400, "policies:import.invalid")
    assert "ns:a -> ns:b -> ns:c -> ns:a" in message


def test_a_loop_that_others_make_later_ends(world: World) -> None:
    put(world, "ns:c", {"READERS": READERS})
    put(world, "ns:b", {}, {"ns:c": {"transitiveImports": ["ns:a"]}})
    put(world, "ns:a", {}, {"ns:b": {"transitiveImports": ["ns:c"]}})
    world.ask(policy_command("modify", "/imports/ns:a", {}, id="ns:c"))
    make_thing(world, "ns:a")
    assert may_read(world)


def test_only_what_may_be_read_can_be_imported(world: World) -> None:
    put(world, TEMPLATE, {"READERS": READERS})
    value = {"entries": {"MINE": entry("nginx:outsider", **{"policy:/": ALL})}, "imports": {TEMPLATE: {}}}
    assert refused(world, policy_command("create", value=value, id=USER), OUTSIDER)[:2] == (
        404,
        "policies:policy.notfound",
    )
    value["imports"] = {"ns:missing": {}}
    assert refused(world, policy_command("create", value=value, id=USER), OUTSIDER)[:2] == (
        404,
        "policies:policy.notfound",
    )


def test_a_policy_that_does_not_import_another_any_more_does_not_depend_on_it(world: World) -> None:
    put(world, TEMPLATE, {})
    put(world, USER, {}, {TEMPLATE: {}})
    put(world, USER, {})
    assert world.twins.dependents(TEMPLATE) == set()


def test_there_is_a_limit_to_imports(world: World) -> None:
    assert MAX_IMPORTS == 10
    for number in range(MAX_IMPORTS + 1):
        put(world, f"ns:p{number}", {})
    imports: dict[str, Any] = {f"ns:p{number}": {} for number in range(MAX_IMPORTS + 1)}
    value = {"entries": {"ADMIN": ADMIN}, "imports": imports}
    assert refused(world, policy_command("create", value=value, id=USER))[:2] == (400, "policies:imports.toolarge")
    del imports[f"ns:p{MAX_IMPORTS}"]
    put(world, USER, {}, imports)


@pytest.mark.parametrize("label", ["imported-x", "nsimported-y"])
def test_labels_of_imported_entries_cannot_be_given(world: World, label: str) -> None:
    put(world, USER, {})
    with pytest.raises(Exception, match=label) as raised:
        policy_command("modify", f"/entries/{label}", READERS, id=USER)
    assert raised.value.code == "policies:label.invalid"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "reference", [{"entry": "GONE"}, {"entry": "NEVER"}, {"entry": "READERS", "import": "ns:other"}]
)
def test_a_reference_to_what_is_not_there_is_refused(world: World, reference: dict[str, str]) -> None:
    put(world, USER, {"NEVER": {**READERS, "importable": "never"}})
    given = policy_command("modify", "/entries/E", {**READERS, "references": [reference]}, id=USER)
    assert refused(world, given)[:2] == (400, "policies:entry.invalid")


def test_what_is_referred_to_cannot_be_removed(world: World) -> None:
    put(world, TEMPLATE, {"READERS": READERS})
    put(
        world,
        USER,
        {"ROLE": READERS, "OWN": {"references": [{"entry": "ROLE"}, {"import": TEMPLATE, "entry": "READERS"}]}},
        {TEMPLATE: {}},
    )
    assert refused(world, policy_command("delete", "/entries/ROLE", id=USER))[:2] == (
        409,
        "policies:entry.referenceconflict",
    )
    given = policy_command("delete", f"/imports/{TEMPLATE}", id=USER)
    assert refused(world, given)[:2] == (409, "policies:import.referenceconflict")
    world.ask(policy_command("delete", "/entries/OWN/references", id=USER))
    world.ask(policy_command("delete", "/entries/ROLE", id=USER))
    world.ask(policy_command("delete", f"/imports/{TEMPLATE}", id=USER))


# Path, value, status of the first and of the second modification, what is read then.
@pytest.mark.parametrize(
    ("path", "value", "first", "second"),
    [
        ("/imports", {TEMPLATE: {}}, 204, 204),
        (f"/imports/{TEMPLATE}", {"entries": ["READERS"]}, 201, 204),
        ("/entries/E/importable", "never", 201, 204),
        ("/entries/E/namespaces", ["a", "b.*"], 201, 204),
        ("/entries/E/allowedAdditions", [], 201, 204),
        ("/entries/E/references", [{"entry": "F"}], 201, 204),
    ],
)
def test_every_part_can_be_put_and_read(world: World, path: str, value: Any, first: int, second: int) -> None:
    put(world, TEMPLATE, {"READERS": READERS})
    put(world, USER, {"E": READERS, "F": READERS})
    assert world.result(policy_command("retrieve", path, id=USER))[0] == 404
    assert world.ask(policy_command("modify", path, value, id=USER)).status == first
    assert world.ask(policy_command("modify", path, value, id=USER)).status == second
    assert world.ask(policy_command("retrieve", path, id=USER)).value == value
    world.restart()
    assert world.ask(policy_command("retrieve", path, id=USER)).value == value
