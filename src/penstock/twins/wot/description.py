"""What of a thing or a feature is described to a reader, by its model: the properties, actions and events that they may
use, and where each is.

What a description looks like, with its addresses, is up to the door (`doors.ditto.description`). Upstream
documentation: "Thing Description generation".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from penstock.twins.access import Permission, ResourceKind, Rights
from penstock.twins.reasons import PlaceholderUnknown, TwinRefusal
from penstock.twins.wot.model import ThingModel
from penstock.twins.wot.validation import PLACEHOLDERS
from penstock.wire.ditto.document import Json, text_of
from penstock.wire.ditto.pointer import Pointer, get

Document = dict[str, Json]

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")

# Of a model: what means nothing in an instance, and what is described piece by piece.
_NOT_KEPT = ("tm:optional", "links", "properties", "actions", "events")


@dataclass(frozen=True, slots=True)
class Instance:
    """What a model is of: a thing, or one of its features."""

    thing: Document
    feature: str | None = None

    @property
    def root(self) -> Pointer:
        return () if self.feature is None else ("features", self.feature)

    @property
    def values(self) -> str:
        """Where the values of properties are, below the root."""
        return "attributes" if self.feature is None else "properties"

    @property
    def placeholders(self) -> Document:
        """The values that it has for placeholders of its model."""
        given = get(self.thing, (*self.root, self.values, PLACEHOLDERS))
        return given if type(given) is dict else {}


@dataclass(frozen=True, slots=True)
class FeatureLink:
    """In the place of a link to a submodel: the feature that is of it."""

    name: str


@dataclass(frozen=True, slots=True)
class DescribedProperty:
    """`place` is below the root of the instance; `may_write` is about the reader."""

    place: Pointer
    schema: Document
    may_write: bool

    @property
    def is_readable(self) -> bool:
        return not self.schema.get("writeOnly")

    @property
    def is_writable(self) -> bool:
        return self.may_write and not self.schema.get("readOnly")

    @property
    def observable(self) -> Json:
        """As its model says, if it does."""
        return self.schema.get("observable", True)


@dataclass(frozen=True, slots=True)
class DescribedMessage:
    """An action or an event; `place` is below the root of the instance."""

    place: Pointer
    affordance: Document


@dataclass(frozen=True, slots=True)
class Description:
    """`terms` are those that an instance has of its model as they are, `links` those of the model in their order."""

    terms: Document
    links: tuple[Json | FeatureLink, ...]
    properties: Mapping[str, DescribedProperty]
    actions: Mapping[str, DescribedMessage]
    events: Mapping[str, DescribedMessage]


def describe(model: ThingModel, instance: Instance, rights: Rights) -> Description:
    """What these rights let one see and use. Placeholders are still in it, see `without_placeholders`."""
    sending = rights.scope(ResourceKind.MESSAGE, Permission.WRITE)
    receiving = rights.scope(ResourceKind.MESSAGE, Permission.READ)
    return Description(
        _terms(model),
        tuple(_links(model, rights)),
        dict(_properties(model, instance, rights)),
        dict(_messages(model.affordances("actions"), instance, "inbox", sending.covers_all)),
        dict(_messages(model.affordances("events"), instance, "outbox", receiving.touches)),
    )


def _terms(model: ThingModel) -> Document:
    terms = {name: value for name, value in model.document.items() if name not in _NOT_KEPT}
    terms["@type"] = _kind(model.document["@type"])
    version = terms.get("version")
    if type(version) is dict and "model" in version:
        terms["version"] = {**version, "instance": version["model"]}
    return terms


def _kind(given: Json) -> Json:
    if type(given) is list:
        return ["Thing" if each == "tm:ThingModel" else each for each in given]
    return "Thing"


def _links(model: ThingModel, rights: Rights) -> Iterable[Json | FeatureLink]:
    reading = rights.scope(ResourceKind.THING, Permission.READ)
    links = model.document.get("links")
    for link in links if type(links) is list else ():
        if type(link) is not dict or link.get("rel") != "tm:submodel":
            yield link
        elif reading.touches(("features", link["instanceName"])):
            yield FeatureLink(link["instanceName"])


def _properties(model: ThingModel, instance: Instance, rights: Rights) -> Iterable[tuple[str, DescribedProperty]]:
    """Those of which something may be read; to be set, all of one must be writable."""
    reading = rights.scope(ResourceKind.THING, Permission.READ)
    writing = rights.scope(ResourceKind.THING, Permission.WRITE)
    for name, each in model.properties().items():
        place = (instance.values, *each.pointer)
        whole = (*instance.root, *place)
        if reading.touches(whole):
            yield name, DescribedProperty(place, each.schema, writing.covers_all(whole))


def _messages(
    affordances: Mapping[str, Document], instance: Instance, mailbox: str, may_use: Callable[[Pointer], bool]
) -> Iterable[tuple[str, DescribedMessage]]:
    for name, affordance in affordances.items():
        place = (mailbox, "messages", name)
        if may_use((*instance.root, *place)):
            yield name, DescribedMessage(place, affordance)


def without_placeholders(value: Json, given: Document) -> Json:
    """With the values that are given for them; raises PlaceholderUnknown."""
    if type(value) is dict:
        return {name: without_placeholders(each, given) for name, each in value.items()}
    if type(value) is list:
        return [without_placeholders(each, given) for each in value]
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
