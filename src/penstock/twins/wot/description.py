"""The Thing Description of a thing or a feature, made from its model: where each property, action and event is.

It has only what its reader may use. Upstream documentation: "Thing Description generation".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.twins.access import Permission, ResourceKind, Rights
from penstock.twins.reasons import PlaceholderUnknown, TwinRefusal
from penstock.twins.wot.model import ThingModel
from penstock.twins.wot.validation import PLACEHOLDERS
from penstock.wire.ditto.document import Json, text_of
from penstock.wire.ditto.pointer import Pointer, get

Document = dict[str, Json]

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_JSON, _PATCH, _EVENTS = "application/json", "application/merge-patch+json", "text/event-stream"
_SSE = {"subprotocol": "sse", "contentType": _EVENTS}
_ERRORS = {"additionalResponses": [{"success": False, "schema": "dittoError"}]}

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
    """What is described: a thing, or one of its features. `base` is the address of the server's API."""

    base: str
    thing: Document
    feature: str | None
    created: str
    rights: Rights

    @property
    def root(self) -> Pointer:
        return () if self.feature is None else ("features", self.feature)

    @property
    def values(self) -> Pointer:
        return (*self.root, "attributes" if self.feature is None else "properties")

    def may(self, kind: ResourceKind, permission: Permission, pointer: Pointer) -> bool:
        scope = self.rights.scope(kind, permission)
        return scope.touches(pointer) if permission is Permission.READ else scope.covers_all(pointer)


def description(model: ThingModel, described: Described) -> Document:
    """Raises PlaceholderUnknown."""
    id = described.thing["thingId"]
    at = "/".join((id, *described.root))
    document = {name: value for name, value in model.document.items() if name not in ("tm:optional", "links")}
    document["@type"] = _kind(model.document["@type"])
    document |= {"id": f"urn:{at}", "base": f"{described.base}/api/2/things/{at}/"}
    version = document.get("version")
    if type(version) is dict and "model" in version:
        document["version"] = {**version, "instance": version["model"]}
    document["links"] = list(_links(model, described))
    document |= {
        "securityDefinitions": {"basic_sc": {"scheme": "basic", "in": "header"}},
        "security": "basic_sc",
        "created": described.created,
    }
    properties = dict(_properties(model, described))
    actions = dict(_messages(model, described, "actions", "inbox", Permission.WRITE))
    events = dict(_messages(model, described, "events", "outbox", Permission.READ))
    for name, affordances in (("properties", properties), ("actions", actions), ("events", events)):
        document.pop(name, None)
        if affordances:
            document[name] = affordances
    document["forms"] = list(_root_forms(described.values[-1], properties, bool(events)))
    document["schemaDefinitions"] = {"dittoError": _ERROR_SCHEMA}
    given = get(described.thing, (*described.values, PLACEHOLDERS))
    resolved: Document = _resolved(document, given if type(given) is dict else {})
    return resolved


def _kind(given: Json) -> Json:
    if type(given) is list:
        return ["Thing" if each == "tm:ThingModel" else each for each in given]
    return "Thing"


def _links(model: ThingModel, described: Described) -> Iterable[Document]:
    yield {"rel": "type", "href": model.url, "type": "application/tm+json"}
    if described.feature is not None:
        address = f"{described.base}/api/2/things/{described.thing['thingId']}"
        yield {"rel": "collection", "href": address, "type": "application/td+json"}
    links = model.document.get("links")
    for link in links if type(links) is list else ():
        if type(link) is not dict or link.get("rel") != "tm:submodel":
            yield link
        elif described.may(ResourceKind.THING, Permission.READ, ("features", link["instanceName"])):
            yield {"rel": "item", "href": f"features/{link['instanceName']}", "type": "application/td+json"}


def _form(op: Json, href: str, method: str, **more: Json) -> Document:
    return {"op": op, "href": href, "htv:methodName": method, "contentType": _JSON, **more, **_ERRORS}


def _root_forms(href: str, properties: Document, has_events: bool) -> Iterable[Document]:
    if properties:
        yield _form("readallproperties", href, "GET")
        yield _form("readmultipleproperties", href, "GET")
        if any(not each.get("readOnly") for each in properties.values()):
            yield _form("writeallproperties", href, "PUT")
            yield _form("writemultipleproperties", href, "PATCH", contentType=_PATCH)
        yield _form(["observeallproperties", "unobserveallproperties"], href, "GET", **_SSE)
    if has_events:
        yield _form(["subscribeallevents", "unsubscribeallevents"], "outbox/messages", "GET", **_SSE)


def _properties(model: ThingModel, described: Described) -> Iterable[tuple[str, Document]]:
    for name, each in model.properties().items():
        place = (*described.values, *each.pointer)
        if not described.may(ResourceKind.THING, Permission.READ, place):
            continue
        may_write = described.may(ResourceKind.THING, Permission.WRITE, place)
        href = "/".join((described.values[-1], *each.pointer))
        is_observable = each.schema.get("observable", True)
        forms = []
        if not each.schema.get("writeOnly"):
            forms.append(_form("readproperty", href, "GET"))
        if may_write and not each.schema.get("readOnly"):
            forms.append(_form("writeproperty", href, "PUT"))
            forms.append(_form("writeproperty", href, "PATCH", contentType=_PATCH))
        if is_observable:
            forms.append(_form(["observeproperty", "unobserveproperty"], href, "GET", **_SSE))
        told = {**each.schema, "observable": is_observable, "forms": forms}
        yield name, told if may_write else {**told, "readOnly": True}


def _messages(
    model: ThingModel, described: Described, kind: str, mailbox: str, permission: Permission
) -> Iterable[tuple[str, Document]]:
    for name, each in model.affordances(kind).items():
        if not described.may(ResourceKind.MESSAGE, permission, (*described.root, mailbox, "messages", name)):
            continue
        href = f"{mailbox}/messages/{name}"
        if kind == "actions":
            yield name, {**each, "synchronous": True, "forms": [_form("invokeaction", href, "POST")]}
        else:
            yield name, {**each, "forms": [_form(["subscribeevent", "unsubscribeevent"], href, "GET", **_SSE)]}


def _resolved(value: Json, given: Document) -> Json:
    """With the values for placeholders that the thing or the feature has."""
    if type(value) is dict:
        return {name: _resolved(each, given) for name, each in value.items()}
    if type(value) is list:
        return [_resolved(each, given) for each in value]
    if type(value) is not str or "{{" not in value:
        return value

    def known(name: str) -> Json:
        if name not in given:
            raise TwinRefusal(PlaceholderUnknown(name, is_of_model=True))
        return given[name]

    def text(found: re.Match[str]) -> str:
        inside = known(found[1])
        return inside if type(inside) is str else text_of(inside)

    whole = _PLACEHOLDER.fullmatch(value)
    return known(whole[1]) if whole is not None else _PLACEHOLDER.sub(text, value)
