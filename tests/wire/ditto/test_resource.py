from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.kinds import Group
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
    assert parse_resource(Group.THINGS, path) == Resource(part, pointer)


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
    assert parse_resource(Group.POLICIES, path) == Resource(part, pointer)


@pytest.mark.parametrize(
    ("group", "path"),
    [
        (Group.THINGS, "/foo"),
        (Group.THINGS, "/policyId/x"),
        (Group.THINGS, "/definition/x"),
        (Group.THINGS, "/features/f/foo"),
        (Group.THINGS, "/features/f/definition/x"),
        (Group.THINGS, "/entries"),
        (Group.POLICIES, "/attributes"),
        (Group.POLICIES, "/entries/E/foo"),
        (Group.POLICIES, "/entries/E/foo/bar"),
        (Group.CONNECTIONS, "/"),
    ],
)
def test_any_other_path_is_error_400(group: Group, path: str) -> None:
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
        (Group.THINGS, "/", {}),
        (
            Group.THINGS,
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
        (Group.THINGS, "/attributes", {"x": {"y": 1}}),
        (Group.THINGS, "/attributes", None),
        (Group.THINGS, "/attributes/x", None),
        (Group.THINGS, "/features", {}),
        (Group.THINGS, "/features", None),
        (Group.THINGS, "/features/f", None),
        (Group.THINGS, "/features/f/definition", None),
        (Group.THINGS, "/features/f", {}),
        (Group.THINGS, "/definition", "n:n:1"),
        (Group.THINGS, "/definition", None),
        (Group.THINGS, "/policyId", "a:b"),
        (Group.POLICIES, "/", POLICY),
        (Group.POLICIES, "/entries", POLICY["entries"]),
        (Group.POLICIES, "/entries/E", {"subjects": {}, "resources": {}}),
        (Group.POLICIES, "/entries/E/subjects/a:b", {"type": "x"}),
        (Group.POLICIES, "/entries/E/subjects", {"a:b": {}}),
        (Group.POLICIES, "/entries/E/resources", {"thing:/attributes/x": {"grant": ["READ"]}}),
        (Group.POLICIES, "/entries/E/resources/thing:/", {"grant": ["READ"], "revoke": ["WRITE"]}),
    ],
)
def test_values_that_fit_are_taken(group: Group, path: str, value: Any) -> None:
    check_value(parse_resource(group, path), value)


@pytest.mark.parametrize(
    ("group", "path", "value", "code"),
    [
        (Group.THINGS, "/", [], "json.invalid"),
        (Group.THINGS, "/", None, "json.invalid"),
        (Group.THINGS, "/", {"thingId": 5}, "json.invalid"),
        (Group.THINGS, "/", {"thingId": "nope"}, "things:id.invalid"),
        (Group.THINGS, "/", {"policyId": "nope"}, "policies:id.invalid"),
        (Group.THINGS, "/", {"foo": 1}, "protocoladapter:unknown.path"),
        (Group.THINGS, "/", {"attributes": []}, "json.invalid"),
        (Group.THINGS, "/", {"features": {"f": {"foo": 1}}}, "protocoladapter:unknown.path"),
        (Group.THINGS, "/", {"_policy": []}, "json.invalid"),
        (Group.THINGS, "/attributes", 5, "json.invalid"),
        (Group.THINGS, "/attributes", {"a/b": 5}, "json.key.invalid"),
        (Group.THINGS, "/attributes/a~1b", 5, "json.key.invalid"),
        (Group.THINGS, "/attributes/a", {"x": [{"y\n": 1}]}, "json.key.invalid"),
        (Group.THINGS, "/features", {"f/g": {}}, "json.key.invalid"),
        (Group.THINGS, "/features/f", 1, "json.invalid"),
        (Group.THINGS, "/features/f/properties", "x", "json.invalid"),
        (Group.THINGS, "/features/f/definition", [], "json.invalid"),
        (Group.THINGS, "/features/f/definition", "x", "json.invalid"),
        (Group.THINGS, "/features/f/definition", [1], "json.invalid"),
        (Group.THINGS, "/definition", 5, "json.invalid"),
        (Group.THINGS, "/policyId", None, "json.invalid"),
        (Group.THINGS, "/policyId", "x", "policies:id.invalid"),
        (Group.POLICIES, "/", {"policyId": "x"}, "policies:id.invalid"),
        (Group.POLICIES, "/", {"entries": []}, "json.invalid"),
        (Group.POLICIES, "/entries", {"E": 5}, "json.invalid"),
        (Group.POLICIES, "/entries/E", {"subjects": []}, "json.invalid"),
        (Group.POLICIES, "/entries/E", {"resources": {"foo:/": {}}}, "json.invalid"),
        (Group.POLICIES, "/entries/E", {"resources": {"thing:x": {}}}, "json.invalid"),
        (Group.POLICIES, "/entries/E", {"resources": {"thing:/": {"grant": ["FLY"]}}}, "json.invalid"),
        (Group.POLICIES, "/entries/E", {"resources": {"thing:/": {"revoke": "READ"}}}, "json.invalid"),
        (Group.POLICIES, "/entries/E/subjects/x", 1, "json.invalid"),
        (Group.POLICIES, "/entries/E/resources/foo:/", {"grant": []}, "json.invalid"),
        (Group.POLICIES, "/entries/E/resources/thing:/a//b", {"grant": []}, "json.pointer.invalid"),
        (Group.POLICIES, "/entries/E/resources/thing:/", {"grant": 5}, "json.invalid"),
        (Group.POLICIES, "/entries/a~1b", {}, "json.key.invalid"),
        (Group.POLICIES, "/entries", {"a/b": {}}, "json.key.invalid"),
        (Group.THINGS, "/features/f~1g/properties", {}, "json.key.invalid"),
    ],
)
def test_values_that_do_not_fit_are_error_400(group: Group, path: str, value: Any, code: str) -> None:
    with pytest.raises(DittoError) as caught:
        check_value(parse_resource(group, path), value)
    assert (caught.value.status, caught.value.code) == (400, code)
