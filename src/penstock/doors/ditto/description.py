"""The Thing Description of a thing or a feature as clients of the HTTP interface get it: with the address of each of
its parts, the requests that it takes, how to log in, and what errors look like.

What of it a reader may know is decided in `twins.wot.description`. Specification: WoT Thing Description 1.1; upstream
documentation: "Thing Description generation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.doors.ditto.http_request import ROOT
from penstock.twins.access import Rights
from penstock.twins.wot.description import (
    DescribedMessage,
    DescribedProperty,
    FeatureLink,
    Instance,
    describe,
    without_placeholders,
)
from penstock.twins.wot.model import ThingModel
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import JSON_TYPE, MERGE_PATCH_TYPE

Document = dict[str, Json]

# A Thing Description of the Web of Things, and a Thing Model.
DESCRIPTION_TYPE = "application/td+json"
_MODEL_TYPE = "application/tm+json"

_SSE = {"subprotocol": "sse", "contentType": "text/event-stream"}
_ERROR = "dittoError"
_ERRORS = {"additionalResponses": [{"success": False, "schema": _ERROR}]}
_BASIC = "basic_sc"

# What answers of a failed interaction look like.
_ERROR_SCHEMA: Document = {
    "type": "object",
    "title": "Ditto error.",
    "description": "Provides additional information about an occurred error and how to resolve it.",
    "properties": {
        "status": {"type": "integer", "title": "Status code.", "minimum": 400, "maximum": 599},
        "error": {"type": "string", "title": "Error code identifier."},
        "message": {"type": "string", "title": "Error message."},
        "description": {"type": "string", "title": "Error description."},
        "href": {"type": "string", "title": "Error link.", "format": "uri"},
    },
    "required": ["status", "error", "message"],
}


@dataclass(frozen=True, slots=True)
class Described:
    """What is described, and to whom. `base` is the address of the API port; `created` is an instant as text."""

    base: str
    thing: Document
    feature: str | None
    created: str
    rights: Rights


def description(model: ThingModel, described: Described) -> Document:
    """Raises PlaceholderUnknown."""
    instance = Instance(described.thing, described.feature)
    found = describe(model, instance, described.rights)
    things, id = f"{described.base}{ROOT}/things", described.thing["thingId"]
    at = "/".join((id, *instance.root))
    around = None if described.feature is None else f"{things}/{id}"
    document: Document = {
        **found.terms,
        "id": f"urn:{at}",
        "base": f"{things}/{at}/",
        "links": list(_links(model, around, found.links)),
        "securityDefinitions": {_BASIC: {"scheme": "basic", "in": "header"}},
        "security": _BASIC,
        "created": described.created,
    }
    affordances = {
        "properties": {name: _property(each) for name, each in found.properties.items()},
        "actions": {name: _action(each) for name, each in found.actions.items()},
        "events": {name: _event(each) for name, each in found.events.items()},
    }
    document |= {name: each for name, each in affordances.items() if each}
    document["forms"] = list(_forms_of_all(instance.values, found.properties, bool(found.events)))
    document["schemaDefinitions"] = {_ERROR: _ERROR_SCHEMA}
    complete: Document = without_placeholders(document, instance.placeholders)
    return complete


def _links(model: ThingModel, around: str | None, links: Iterable[Json | FeatureLink]) -> Iterable[Json]:
    """`around` is the address of the thing that a feature is of."""
    yield {"rel": "type", "href": model.url, "type": _MODEL_TYPE}
    if around is not None:
        yield {"rel": "collection", "href": around, "type": DESCRIPTION_TYPE}
    for link in links:
        if isinstance(link, FeatureLink):
            yield {"rel": "item", "href": f"features/{link.name}", "type": DESCRIPTION_TYPE}
        else:
            yield link


def _form(op: Json, href: str, method: str, **more: Json) -> Document:
    return {"op": op, "href": href, "htv:methodName": method, "contentType": JSON_TYPE, **more, **_ERRORS}


def _forms_of_all(href: str, properties: Mapping[str, DescribedProperty], has_events: bool) -> Iterable[Document]:
    """For all properties at once, and for all events."""
    if properties:
        yield _form("readallproperties", href, "GET")
        yield _form("readmultipleproperties", href, "GET")
        if any(each.is_writable for each in properties.values()):
            yield _form("writeallproperties", href, "PUT")
            yield _form("writemultipleproperties", href, "PATCH", contentType=MERGE_PATCH_TYPE)
        yield _form(["observeallproperties", "unobserveallproperties"], href, "GET", **_SSE)
    if has_events:
        yield _form(["subscribeallevents", "unsubscribeallevents"], "outbox/messages", "GET", **_SSE)


def _property(described: DescribedProperty) -> Document:
    href = "/".join(described.place)
    forms = []
    if described.is_readable:
        forms.append(_form("readproperty", href, "GET"))
    if described.is_writable:
        forms.append(_form("writeproperty", href, "PUT"))
        forms.append(_form("writeproperty", href, "PATCH", contentType=MERGE_PATCH_TYPE))
    if described.observable:
        forms.append(_form(["observeproperty", "unobserveproperty"], href, "GET", **_SSE))
    told = {**described.schema, "observable": described.observable, "forms": forms}
    return told if described.may_write else {**told, "readOnly": True}


def _action(described: DescribedMessage) -> Document:
    form = _form("invokeaction", "/".join(described.place), "POST")
    return {**described.affordance, "synchronous": True, "forms": [form]}


def _event(described: DescribedMessage) -> Document:
    form = _form(["subscribeevent", "unsubscribeevent"], "/".join(described.place), "GET", **_SSE)
    return {**described.affordance, "forms": [form]}
