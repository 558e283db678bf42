"""What a new thing or feature is filled with: a value for each property of its model that is not optional.

The default of the property, or else the neutral value of its type. Upstream documentation: "Thing skeleton generation".
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.twins.wot.model import ThingModel
from penstock.twins.wot.schema import number_in
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.pointer import put

Document = dict[str, Json]


def initial_values(model: ThingModel, *, with_optional: bool = False) -> Document:
    """The attributes of a thing, or the properties of a feature."""
    found: Json = {}
    for each in model.properties().values():
        if with_optional or not each.is_optional:
            found = put(found, each.pointer, initial_value(each.schema))
    return dict(found)


def initial_value(schema: Json) -> Json:
    if type(schema) is not dict:
        return None
    for term in ("const", "default"):
        if term in schema:
            return schema[term]
    allowed = schema.get("enum")
    if type(allowed) is list and allowed:
        return allowed[0]
    kind = schema.get("type")
    if kind == "object":
        inside = schema.get("properties")
        return {name: initial_value(each) for name, each in inside.items()} if type(inside) is dict else {}
    if kind == "integer":
        return int(_within(0, schema))
    if kind == "number":
        return float(_within(0.0, schema))
    return {"boolean": False, "string": "", "array": []}.get(str(kind))


def _within(value: float, schema: Document) -> float:
    least, most = number_in(schema, "minimum"), number_in(schema, "maximum")
    if least is not None:
        value = max(value, least)
    return value if most is None else min(value, most)


def feature_skeleton(model: ThingModel, *, with_optional: bool = False) -> Document:
    """A feature with its definition: the model, and those that it extends."""
    properties = initial_values(model, with_optional=with_optional)
    feature: Document = {"definition": [model.url, *model.extends]}
    return {**feature, "properties": properties} if properties else feature


def thing_skeleton(
    model: ThingModel, submodel: Callable[[str], ThingModel | None], *, with_optional: bool = False
) -> Document:
    """The attributes and features of a thing. `submodel` gives a model by its address."""
    thing: Document = {"definition": model.url}
    attributes = initial_values(model, with_optional=with_optional)
    if attributes:
        thing["attributes"] = attributes
    features = {}
    for name, url in model.submodels.items():
        found = submodel(url)
        features[name] = (
            {"definition": [url]} if found is None else feature_skeleton(found, with_optional=with_optional)
        )
    return {**thing, "features": features} if features else thing
