"""What is described to whom. What clients get of it is in tests/doors/ditto/test_description.py."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.twins.access import Access
from penstock.twins.reasons import PlaceholderUnknown, TwinRefusal
from penstock.twins.wot.description import (
    DescribedMessage,
    DescribedProperty,
    Description,
    FeatureLink,
    Instance,
    describe,
    without_placeholders,
)
from penstock.twins.wot.model import ThingModel
from penstock.twins.wot.validation import PLACEHOLDERS
from tests.twins.world import ALL, READ, entry

NONE = {"grant": [], "revoke": ["READ", "WRITE"]}
EVERYTHING: dict[str, Any] = {"thing:/": ALL, "message:/": ALL}
THING: dict[str, Any] = {"thingId": "ns:lamp"}


def told(document: dict[str, Any], rights: dict[str, Any] = EVERYTHING, feature: str | None = None) -> Description:
    policy = {"entries": {"A": entry("me", **rights)}}
    model = ThingModel("https://m/lamp", {"@type": "tm:ThingModel", **document})
    return describe(model, Instance(THING, feature), Access(policy).rights(frozenset(["me"])))


def test_a_description_says_where_everything_is_and_what_the_model_says_of_it() -> None:
    found = told(
        {
            "title": "Lamp",
            "version": {"model": "2"},
            "tm:optional": ["/properties/watts"],
            "properties": {"watts": {"type": "integer"}, "color": {"ditto:category": "status"}},
            "actions": {"reset": {"title": "Reset"}},
            "events": {"broken": {}},
        }
    )
    assert found == Description(
        {"@type": "Thing", "title": "Lamp", "version": {"model": "2", "instance": "2"}},
        (),
        {
            "watts": DescribedProperty(("attributes", "watts"), {"type": "integer"}, True),
            "color": DescribedProperty(("attributes", "status", "color"), {"ditto:category": "status"}, True),
        },
        {"reset": DescribedMessage(("inbox", "messages", "reset"), {"title": "Reset"})},
        {"broken": DescribedMessage(("outbox", "messages", "broken"), {})},
    )


def test_places_are_the_same_below_a_feature_and_rights_are_those_at_the_feature() -> None:
    document: dict[str, Any] = {"properties": {"on": {}, "off": {}}, "actions": {"toggle": {}}}
    rights = {"thing:/features/Switch/properties/on": READ, "message:/features/Switch/inbox": ALL}
    found = told(document, rights, "Switch")
    assert dict(found.properties) == {"on": DescribedProperty(("properties", "on"), {}, False)}
    assert found.actions["toggle"].place == ("inbox", "messages", "toggle")


def test_a_link_to_a_submodel_becomes_one_to_the_feature_for_those_who_may_read_it() -> None:
    first, second = ({"rel": "tm:submodel", "href": "switch", "instanceName": name} for name in ("A", "B"))
    document = {"links": [first, {"rel": "license"}, second]}
    assert told(document).links == (FeatureLink("A"), {"rel": "license"}, FeatureLink("B"))
    rights = {"thing:/": READ, "thing:/features/A": NONE}
    assert told(document, rights).links == ({"rel": "license"}, FeatureLink("B"))


@pytest.mark.parametrize(
    ("schema", "may_write", "readable", "writable", "observable"),
    [
        ({}, True, True, True, True),
        ({}, False, True, False, True),
        ({"readOnly": True}, True, True, False, True),
        ({"writeOnly": True, "observable": False}, True, False, True, False),
    ],
)
def test_what_can_be_done_with_a_property_depends_on_its_model_and_its_reader(
    schema: dict[str, Any], may_write: bool, readable: bool, writable: bool, observable: bool
) -> None:
    found = DescribedProperty(("attributes", "x"), schema, may_write)
    assert (found.is_readable, found.is_writable, found.observable) == (readable, writable, observable)


@pytest.mark.parametrize(
    ("instance", "given"),
    [
        (Instance({**THING, "attributes": {PLACEHOLDERS: {"A": 1}}}), {"A": 1}),
        (Instance({**THING, "features": {"F": {"properties": {PLACEHOLDERS: {"A": 2}}}}}, "F"), {"A": 2}),
        (Instance({**THING, "attributes": {PLACEHOLDERS: "A"}}), {}),
        (Instance(THING), {}),
    ],
)
def test_a_thing_and_a_feature_have_values_for_placeholders(instance: Instance, given: dict[str, Any]) -> None:
    assert instance.placeholders == given


def test_placeholders_are_replaced_wherever_they_are() -> None:
    value = {"a": ["{{ N }}", "{{N}} lamps", 5], "{{ N }}": None}
    assert without_placeholders(value, {"N": 3}) == {"a": [3, "3 lamps", 5], "{{ N }}": None}
    with pytest.raises(TwinRefusal) as refused:
        without_placeholders(value, {})
    assert refused.value.reason == PlaceholderUnknown("N", is_of_model=True)
