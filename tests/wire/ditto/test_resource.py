from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.resource import Part, Resource, check_value, parse_resource


@pytest.mark.parametrize(
    ("path", "part", "pointer"),
    [
        ("/", Part.THING, ()),
        ("", Part.THING, ()),
        ("/policyId", Part.POLICY_ID, ("policyId",)),
        ("/definition", Part.DEFINITION, ("definition",)),
        ("/attributes", Part.ATTRIBUTES, ("attributes",)),
        ("/attributes/a", Part.ATTRIBUTE, ("attributes", "a")),
        ("/attributes/a/b~0", Part.ATTRIBUTE, ("attributes", "a", "b~")),
        ("/features", Part.FEATURES, ("features",)),
        ("/features/f", Part.FEATURE, ("features", "f")),
        ("/features/f/definition", Part.FEATURE_DEFINITION, ("features", "f", "definition")),
        ("/features/f/properties", Part.PROPERTIES, ("features", "f", "properties")),
        ("/features/f/properties/p/q", Part.PROPERTY, ("features", "f", "properties", "p", "q")),
        ("/features/f/desiredProperties", Part.DESIRED_PROPERTIES, ("features", "f", "desiredProperties")),
        ("/features/f/desiredProperties/p", Part.DESIRED_PROPERTY, ("features", "f", "desiredProperties", "p")),
    ],
)
def test_the_path_of_a_thing_names_one_of_its_parts(path: str, part: Part, pointer: tuple[str, ...]) -> None:
    assert parse_resource(EntityGroup.THINGS, path) == Resource(part, pointer)


@pytest.mark.parametrize(
    ("path", "part", "pointer"),
    [
        ("/", Part.POLICY, ()),
        ("/entries", Part.ENTRIES, ("entries",)),
        ("/entries/E", Part.ENTRY, ("entries", "E")),
        ("/entries/E/", Part.ENTRY, ("entries", "E")),
        ("/entries/E/subjects", Part.SUBJECTS, ("entries", "E", "subjects")),
        ("/entries/E/subjects/nginx:ditto", Part.SUBJECT, ("entries", "E", "subjects", "nginx:ditto")),
        ("/entries/E/resources", Part.RESOURCES, ("entries", "E", "resources")),
        ("/entries/E/resources/thing:/", Part.RESOURCE, ("entries", "E", "resources", "thing:/")),
        ("/entries/E/resources/thing:/a/b", Part.RESOURCE, ("entries", "E", "resources", "thing:/a/b")),
    ],
)
def test_the_path_of_a_policy_may_have_slashes_in_its_last_key(path: str, part: Part, pointer: tuple[str, ...]) -> None:
    assert parse_resource(EntityGroup.POLICIES, path) == Resource(part, pointer)


@pytest.mark.parametrize(
    ("group", "path"),
    [
        (EntityGroup.THINGS, "/foo"),
        (EntityGroup.THINGS, "/policyId/x"),
        (EntityGroup.THINGS, "/definition/x"),
        (EntityGroup.THINGS, "/features/f/foo"),
        (EntityGroup.THINGS, "/features/f/definition/x"),
        (EntityGroup.THINGS, "/entries"),
        (EntityGroup.POLICIES, "/attributes"),
        (EntityGroup.POLICIES, "/entries/E/foo"),
        (EntityGroup.POLICIES, "/entries/E/foo/bar"),
        (EntityGroup.CONNECTIONS, "/"),
    ],
)
def test_any_other_path_is_error_400(group: EntityGroup, path: str) -> None:
    with pytest.raises(DittoError) as caught:
        parse_resource(group, path)
    assert (caught.value.status, caught.value.code) == (400, "protocoladapter:unknown.path")
    assert caught.value.message == f"The path '{path}' does not correspond to any known command, response or event."


POLICY = {
    "policyId": "a:b",
    "entries": {
        "DEFAULT": {
            "subjects": {"nginx:ditto": {"type": "t"}},
            "resources": {"thing:/": {"grant": ["READ", "WRITE"], "revoke": []}, "policy:/": {"grant": ["READ"]}},
        }
    },
}


@pytest.mark.parametrize(
    ("group", "path", "value"),
    [
        (EntityGroup.THINGS, "/", {}),
        (
            EntityGroup.THINGS,
            "/",
            {
                "thingId": "a:b",
                "policyId": "a:b",
                "definition": "n:n:1",
                "attributes": {"x": [1, None]},
                "features": {
                    "f": {"definition": ["n:n:1"], "properties": {}, "desiredProperties": {"q": 1}},
                    "g": None,
                },
                "_policy": POLICY,
                "_revision": 5,
            },
        ),
        (EntityGroup.THINGS, "/attributes", {"x": {"y": 1}}),
        (EntityGroup.THINGS, "/attributes", None),
        (EntityGroup.THINGS, "/attributes/x", None),
        (EntityGroup.THINGS, "/features", {}),
        (EntityGroup.THINGS, "/features", None),
        (EntityGroup.THINGS, "/features/f", None),
        (EntityGroup.THINGS, "/features/f/definition", None),
        (EntityGroup.THINGS, "/features/f", {}),
        (EntityGroup.THINGS, "/definition", "n:n:1"),
        (EntityGroup.THINGS, "/definition", None),
        (EntityGroup.THINGS, "/policyId", "a:b"),
        (EntityGroup.POLICIES, "/", POLICY),
        (EntityGroup.POLICIES, "/entries", POLICY["entries"]),
        (EntityGroup.POLICIES, "/entries/E", {"subjects": {}, "resources": {}}),
        (EntityGroup.POLICIES, "/entries/E/subjects/a:b", {"type": "x"}),
        (EntityGroup.POLICIES, "/entries/E/subjects", {"a:b": {}}),
        (EntityGroup.POLICIES, "/entries/E/resources", {"thing:/attributes/x": {"grant": ["READ"]}}),
        (EntityGroup.POLICIES, "/entries/E/resources/thing:/", {"grant": ["READ"], "revoke": ["WRITE"]}),
    ],
)
def test_values_that_fit_are_taken(group: EntityGroup, path: str, value: Any) -> None:
    check_value(parse_resource(group, path), value)


@pytest.mark.parametrize(
    ("group", "path", "value", "code"),
    [
        (EntityGroup.THINGS, "/", [], "json.invalid"),
        (EntityGroup.THINGS, "/", None, "json.invalid"),
        (EntityGroup.THINGS, "/", {"thingId": 5}, "json.invalid"),
        (EntityGroup.THINGS, "/", {"thingId": "nope"}, "things:id.invalid"),
        (EntityGroup.THINGS, "/", {"policyId": "nope"}, "policies:id.invalid"),
        (EntityGroup.THINGS, "/", {"foo": 1}, "protocoladapter:unknown.path"),
        (EntityGroup.THINGS, "/", {"attributes": []}, "json.invalid"),
        (EntityGroup.THINGS, "/", {"features": {"f": {"foo": 1}}}, "protocoladapter:unknown.path"),
        (EntityGroup.THINGS, "/", {"_policy": []}, "json.invalid"),
        (EntityGroup.THINGS, "/attributes", 5, "json.invalid"),
        (EntityGroup.THINGS, "/attributes", {"a/b": 5}, "json.key.invalid"),
        (EntityGroup.THINGS, "/attributes/a~1b", 5, "json.key.invalid"),
        (EntityGroup.THINGS, "/attributes/a", {"x": [{"y\n": 1}]}, "json.key.invalid"),
        (EntityGroup.THINGS, "/features", {"f/g": {}}, "json.key.invalid"),
        (EntityGroup.THINGS, "/features/f", 1, "json.invalid"),
        (EntityGroup.THINGS, "/features/f/properties", "x", "json.invalid"),
        (EntityGroup.THINGS, "/features/f/definition", [], "json.invalid"),
        (EntityGroup.THINGS, "/features/f/definition", "x", "json.invalid"),
        (EntityGroup.THINGS, "/features/f/definition", [1], "json.invalid"),
        (EntityGroup.THINGS, "/definition", 5, "json.invalid"),
        (EntityGroup.THINGS, "/policyId", None, "json.invalid"),
        (EntityGroup.THINGS, "/policyId", "x", "policies:id.invalid"),
        (EntityGroup.POLICIES, "/", {"policyId": "x"}, "policies:id.invalid"),
        (EntityGroup.POLICIES, "/", {"entries": []}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries", {"E": 5}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/E", {"subjects": []}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/E", {"resources": {"foo:/": {}}}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/E", {"resources": {"thing:x": {}}}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/E", {"resources": {"thing:/": {"grant": ["FLY"]}}}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/E", {"resources": {"thing:/": {"revoke": "READ"}}}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/E/subjects/x", 1, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/E/resources/foo:/", {"grant": []}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/E/resources/thing:/a//b", {"grant": []}, "json.pointer.invalid"),
        (EntityGroup.POLICIES, "/entries/E/resources/thing:/", {"grant": 5}, "json.invalid"),
        (EntityGroup.POLICIES, "/entries/a~1b", {}, "json.key.invalid"),
        (EntityGroup.POLICIES, "/entries", {"a/b": {}}, "json.key.invalid"),
        (EntityGroup.THINGS, "/features/f~1g/properties", {}, "json.key.invalid"),
    ],
)
def test_values_that_do_not_fit_are_error_400(group: EntityGroup, path: str, value: Any, code: str) -> None:
    with pytest.raises(DittoError) as caught:
        check_value(parse_resource(group, path), value)
    assert (caught.value.status, caught.value.code) == (400, code)


@pytest.mark.parametrize(
    ("path", "inner"),
    [
        ("/attributes/a/b", ("a", "b")),
        ("/features/f/properties/p/q", ("p", "q")),
        ("/features/f/desiredProperties/p", ("p",)),
        ("/features/f", ()),
        ("/policyId", ()),
    ],
)
def test_errors_name_a_place_below_the_attributes_or_properties(path: str, inner: tuple[str, ...]) -> None:
    assert parse_resource(EntityGroup.THINGS, path).inner == inner
