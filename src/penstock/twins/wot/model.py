"""A Thing Model with all that it extends and refers to, and what may be wrong with one.

How it is put together from documents is in `resolution`. Specification: WoT Thing Description 1.1, "Thing Model".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.pointer import Pointer

# The vocabulary of Ditto's category, which groups properties.
EXTENSION = "https://ditto.eclipseprojects.io/wot/ditto-extension#"


@dataclass(frozen=True, slots=True)
class ModelProblem:
    """There is no model: it cannot be had (`is_invalid` is false), or is none. `text` says why, in one sentence."""

    url: str
    text: str
    is_invalid: bool = False


@dataclass(frozen=True, slots=True)
class ModelProperty:
    """A property of a model: where its value is below the attributes or the properties, and its data schema."""

    pointer: Pointer
    schema: Json
    is_optional: bool


@dataclass(frozen=True, slots=True)
class ThingModel:
    """`document` has no `tm:ref` any more; `extends` are the models that it extends, nearest first.

    `submodels` are features by their names, with the addresses of their models.
    """

    url: str
    document: dict[str, Json]
    extends: tuple[str, ...] = ()
    submodels: Mapping[str, str] = field(default_factory=dict)

    def properties(self) -> dict[str, ModelProperty]:
        """By name. A category is one more level above the property."""
        optional = self.optional("properties")
        category = f"{self._extension()}:category"
        found = {}
        for name, schema in self.affordances("properties").items():
            group = schema.get(category)
            pointer = (group, name) if type(group) is str and group else (name,)
            found[name] = ModelProperty(pointer, schema, name in optional)
        return found

    def affordances(self, kind: str) -> dict[str, dict[str, Json]]:
        """The `properties`, `actions` or `events`."""
        given = self.document.get(kind)
        found = given if type(given) is dict else {}
        return {name: each for name, each in found.items() if type(each) is dict}

    def optional(self, kind: str) -> set[str]:
        """Names of those affordances that an instance may lack."""
        given = self.document.get("tm:optional")
        start = f"/{kind}/"
        return {
            each.removeprefix(start)
            for each in (given if type(given) is list else ())
            if type(each) is str and each.startswith(start)
        }

    def _extension(self) -> str:
        """The prefix that the model has for Ditto's vocabulary."""
        context = self.document.get("@context")
        for each in context if type(context) is list else [context]:
            for prefix, address in each.items() if type(each) is dict else ():
                if address == EXTENSION:
                    return str(prefix)
        return "ditto"


# What is known of models, by address. One that is not in it has not been asked for.
ModelBook = Mapping[str, ThingModel | ModelProblem]
