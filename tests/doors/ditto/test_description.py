"""Descriptions of things and features: what is in them, where it is, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.ditto.description import Described, description
from penstock.twins.access import Access
from penstock.twins.reasons import PlaceholderUnknown, TwinRefusal
from penstock.twins.wot.model import ThingModel
from penstock.twins.wot.validation import PLACEHOLDERS
from penstock.wire.ditto.document import Json
from tests.twins.world import ALL, READ, entry

URL = "https://m/lamp"
BASE = "https://host"
WRITE = {"grant": ["WRITE"], "revoke": []}
NONE = {"grant": [], "revoke": ["READ", "WRITE"]}
EVERYTHING = {"thing:/": ALL, "message:/": ALL}
ERRORS = {"additionalResponses": [{"success": False, "schema": "dittoError"}]}
SSE = {"contentType": "text/event-stream", "subprotocol": "sse"}


def form(op: Json, href: str, method: str, content: str = "application/json") -> dict[str, Any]:
    return {"op": op, "href": href, "htv:methodName": method, "contentType": content, **ERRORS}


def stream(op: str, stop: str, href: str) -> dict[str, Any]:
    return {**form([op, stop], href, "GET"), **SSE}


def reads(href: str) -> dict[str, Any]:
    return form("readproperty", href, "GET")


def writes(href: str) -> list[dict[str, Any]]:
    return [
        form("writeproperty", href, "PUT"),
        form("writeproperty", href, "PATCH", "application/merge-patch+json"),
    ]


def observes(href: str) -> dict[str, Any]:
    return stream("observeproperty", "unobserveproperty", href)


def described(
    document: dict[str, Any],
    rights: dict[str, Any] = EVERYTHING,
    *,
    feature: str | None = None,
    values: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """With the rights of a policy, of a thing with such attributes or a feature with such properties."""
    thing: dict[str, Any] = {"thingId": "ns:lamp"}
    if values is not None:
        thing |= {"attributes": values} if feature is None else {"features": {feature: {"properties": values}}}
    access = Access({"entries": {"A": entry("me", **rights)}}).rights(frozenset(["me"]))
    model = ThingModel(URL, {"@type": "tm:ThingModel", **document})
    return description(model, Described(BASE, thing, feature, "2024-01-01T00:00:00Z", access))


def test_a_thing_is_described_with_all_that_can_be_done_with_it() -> None:
    told = described(
        {
            "title": "Lamp",
            "tm:optional": ["/properties/color"],
            "properties": {"watts": {"type": "integer"}, "color": {"ditto:category": "status"}},
            "actions": {"reset": {"title": "Reset"}},
            "events": {"broken": {"title": "Broken"}},
        }
    )
    errors = told.pop("schemaDefinitions")["dittoError"]
    assert told == {
        "@type": "Thing",
        "title": "Lamp",
        "id": "urn:ns:lamp",
        "base": "https://host/api/2/things/ns:lamp/",
        "links": [{"rel": "type", "href": URL, "type": "application/tm+json"}],
        "securityDefinitions": {"basic_sc": {"scheme": "basic", "in": "header"}},
        "security": "basic_sc",
        "created": "2024-01-01T00:00:00Z",
        "properties": {
            "watts": {
                "type": "integer",
                "observable": True,
                "forms": [reads("attributes/watts"), *writes("attributes/watts"), observes("attributes/watts")],
            },
            "color": {
                "ditto:category": "status",
                "observable": True,
                "forms": [
                    reads("attributes/status/color"),
                    *writes("attributes/status/color"),
                    observes("attributes/status/color"),
                ],
            },
        },
        "actions": {
            "reset": {
                "title": "Reset",
                "synchronous": True,
                "forms": [form("invokeaction", "inbox/messages/reset", "POST")],
            }
        },
        "events": {
            "broken": {
                "title": "Broken",
                "forms": [stream("subscribeevent", "unsubscribeevent", "outbox/messages/broken")],
            }
        },
        "forms": [
            form("readallproperties", "attributes", "GET"),
            form("readmultipleproperties", "attributes", "GET"),
            form("writeallproperties", "attributes", "PUT"),
            form("writemultipleproperties", "attributes", "PATCH", "application/merge-patch+json"),
            stream("observeallproperties", "unobserveallproperties", "attributes"),
            stream("subscribeallevents", "unsubscribeallevents", "outbox/messages"),
        ],
    }
    status = errors["properties"]["status"]
    assert (status["minimum"], status["maximum"]) == (400, 599)
    assert errors["required"] == ["status", "error", "message"]


def test_a_feature_is_described_with_a_way_to_its_thing() -> None:
    told = described({"properties": {"on": {}}, "actions": {"toggle": {}}}, feature="Switch")
    assert told["id"] == "urn:ns:lamp/features/Switch"
    assert told["base"] == "https://host/api/2/things/ns:lamp/features/Switch/"
    assert told["links"] == [
        {"rel": "type", "href": URL, "type": "application/tm+json"},
        {"rel": "collection", "href": "https://host/api/2/things/ns:lamp", "type": "application/td+json"},
    ]
    assert told["properties"]["on"]["forms"][0] == reads("properties/on")
    assert told["forms"][0] == form("readallproperties", "properties", "GET")
    assert told["actions"]["toggle"]["forms"][0]["href"] == "inbox/messages/toggle"


def test_a_thing_without_affordances_has_no_forms() -> None:
    told = described({"properties": {}, "actions": {"a": 1}})
    assert told["forms"] == []
    assert told.keys().isdisjoint(["properties", "actions", "events"])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("tm:ThingModel", "Thing"),
        (["tm:ThingModel", "saref:Lamp"], ["Thing", "saref:Lamp"]),
    ],
)
def test_a_description_is_of_a_thing_and_of_all_else_that_its_model_is_of(kind: Any, told: Any) -> None:
    assert described({"@type": kind})["@type"] == told


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ({"model": "1.2"}, {"model": "1.2", "instance": "1.2"}),
        ({"other": "1.2"}, {"other": "1.2"}),
        (["model"], ["model"]),
        ("1.2", "1.2"),
    ],
)
def test_an_instance_has_the_version_of_its_model(version: Any, told: Any) -> None:
    assert described({"version": version})["version"] == told


def test_links_of_the_model_are_kept_and_submodels_are_features() -> None:
    licence = {"rel": "license", "href": "https://m/license"}
    links = [licence, {"rel": "tm:submodel", "href": "switch", "instanceName": "Switch"}, "no link"]
    assert described({"links": links})["links"][1:] == [
        licence,
        {"rel": "item", "href": "features/Switch", "type": "application/td+json"},
        "no link",
    ]
    assert len(described({"links": {"rel": "license"}})["links"]) == 1


def test_a_feature_that_may_not_be_read_is_not_linked() -> None:
    links = [{"rel": "tm:submodel", "href": "a", "instanceName": name} for name in ("A", "B")]
    told = described({"links": links}, {"thing:/": READ, "thing:/features/A": NONE})
    assert [link["href"] for link in told["links"]] == [URL, "features/B"]


def test_a_property_that_may_not_be_read_is_not_described() -> None:
    schemas: dict[str, Any] = {"x": {}, "y": {}, "z": {}}
    told = described({"properties": schemas}, {"thing:/": ALL, "thing:/attributes/x": NONE})
    assert list(told["properties"]) == ["y", "z"]


def test_a_property_that_can_be_read_in_part_is_described() -> None:
    told = described({"properties": {"x": {}, "y": {}}}, {"thing:/attributes/x/inside": READ})
    assert list(told["properties"]) == ["x"]


def test_what_may_not_be_written_is_read_only() -> None:
    """As a whole: a property with a part that may not be written cannot be set."""
    schemas: dict[str, Any] = {"x": {}, "y": {}}
    rights = {"thing:/": READ, "thing:/attributes/x": WRITE, "thing:/attributes/x/inside": NONE}
    told = described({"properties": schemas}, rights)
    for name in schemas:
        href = f"attributes/{name}"
        assert told["properties"][name] == {
            "observable": True,
            "readOnly": True,
            "forms": [reads(href), observes(href)],
        }
    assert [form["op"] for form in told["forms"] if "write" in str(form["op"])] == []


def test_a_thing_with_one_property_that_may_be_written_is_written_as_a_whole() -> None:
    told = described({"properties": {"x": {}, "y": {}}}, {"thing:/": READ, "thing:/attributes/y": ALL})
    written = ["writeallproperties", "writemultipleproperties"]
    assert [form["op"] for form in told["forms"] if "write" in str(form["op"])] == written


@pytest.mark.parametrize(
    ("schema", "forms"),
    [
        ({"readOnly": True}, [reads("attributes/x"), observes("attributes/x")]),
        ({"writeOnly": True}, [*writes("attributes/x"), observes("attributes/x")]),
        ({"observable": False}, [reads("attributes/x"), *writes("attributes/x")]),
    ],
)
def test_a_property_has_the_forms_that_its_model_allows(schema: Any, forms: list[Any]) -> None:
    told = described({"properties": {"x": schema}})
    assert told["properties"]["x"] == {"observable": True, **schema, "forms": forms}


def test_a_message_is_described_to_those_who_may_send_or_receive_it() -> None:
    document: dict[str, Any] = {"actions": {"a": {}, "b": {}}, "events": {"e": {}, "f": {}}}

    def told(**rights: Any) -> tuple[list[str], list[str]]:
        found = described(document, rights)
        return list(found.get("actions", {})), list(found.get("events", {}))

    assert told(**{"message:/": ALL}) == (["a", "b"], ["e", "f"])
    assert told(**{"message:/": WRITE}) == (["a", "b"], [])
    assert told(**{"message:/": READ}) == ([], ["e", "f"])
    assert told(**{"thing:/": ALL}) == ([], [])
    one_less = {"message:/inbox/messages/a": NONE, "message:/outbox/messages/e": NONE}
    assert told(**{"message:/": ALL, **one_less}) == (["b"], ["f"])


def test_a_message_of_a_feature_needs_a_right_at_the_feature() -> None:
    rights = {"message:/features/Switch/inbox/messages/toggle": WRITE}
    assert list(described({"actions": {"toggle": {}, "other": {}}}, rights, feature="Switch")["actions"]) == ["toggle"]
    assert "actions" not in described({"actions": {"toggle": {}}}, rights)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{{ NAME }}", "lamp"),
        ("{{NAME}}", "lamp"),
        ("The {{ NAME }} of {{ PLACE }}", "The lamp of hall"),
        # By itself it is the value as it is, in a text the value as text.
        ("{{ COUNT }}", 3),
        ("{{ COUNT }} lamps", "3 lamps"),
        ("{{ WHERE }}", {"a": 1}),
        ("at {{ WHERE }}", 'at {"a":1}'),
        ("{ NAME }", "{ NAME }"),
        (5, 5),
    ],
)
@pytest.mark.parametrize("feature", [None, "Switch"])
def test_placeholders_have_the_values_of_the_thing_or_the_feature(text: Any, told: Any, feature: str | None) -> None:
    values = {PLACEHOLDERS: {"NAME": "lamp", "PLACE": "hall", "COUNT": 3, "WHERE": {"a": 1}}}
    document = {"title": text, "support": [{"inside": text}, text]}
    found = described(document, feature=feature, values=values)
    assert (found["title"], found["support"]) == (told, [{"inside": told}, told])


@pytest.mark.parametrize("values", [None, {}, {PLACEHOLDERS: {"OTHER": 1}}, {PLACEHOLDERS: "NAME"}])
@pytest.mark.parametrize("text", ["{{ NAME }}", "of {{ NAME }}"])
def test_a_placeholder_without_a_value_is_refused(values: dict[str, Any] | None, text: str) -> None:
    with pytest.raises(TwinRefusal) as refused:
        described({"title": text}, values=values)
    assert refused.value.reason == PlaceholderUnknown("NAME", is_of_model=True)
