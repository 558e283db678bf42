"""Whether a thing is as its models say, after a change: attributes, properties, features, definitions.

Only what a change touches is checked, so that a thing that was wrong before can be mended part by part; if its
definition changes, all of it is. Upstream documentation: "Thing Model based validation".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from penstock.twins.reasons import ModelInvalid, ModelNotAccessible, ModelsNeeded, NotAsModelled, TwinRefusal
from penstock.twins.wot.model import ModelBook, ModelProblem, ThingModel
from penstock.twins.wot.schema import complaints
from penstock.twins.wot.skeleton import feature_skeleton, thing_skeleton
from penstock.wire.ditto.document import Json, same
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.pointer import MISSING, Absent, get, print_pointer

Document = dict[str, Json]

# Values for the placeholders of a model: allowed in every thing and feature.
PLACEHOLDERS = "model-placeholders"


class Aspect(StrEnum):
    """What can be checked, by its name in the configuration."""

    ATTRIBUTES = "attributes"
    PROPERTIES = "properties"
    DESIRED_PROPERTIES = "desired-properties"
    FEATURES = "features"
    DEFINITIONS = "definitions"


def _nowhere(url: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Which definitions have models, and what models are for.

    `enforced` aspects must be as a model says; of `forbidden` aspects there must be nothing that no model knows, and
    no definition may be deleted.
    """

    has_model: Callable[[str], bool] = _nowhere
    is_filled: bool = True
    fills_optional: bool = False
    enforced: Collection[Aspect] = tuple(Aspect)
    forbidden: Collection[Aspect] = tuple(Aspect)

    # -- models ----------------------------------------------------------------------------------------------------

    def model(self, url: Json, book: ModelBook) -> ThingModel | None:
        """The model of a definition, None if it has none; raises ModelsNeeded, ModelInvalid, ModelNotAccessible."""
        if type(url) is not str or not self.has_model(url):
            return None
        found = book.get(url)
        if found is None:
            raise TwinRefusal(ModelsNeeded((url,)))
        if isinstance(found, ModelProblem):
            raise TwinRefusal((ModelInvalid if found.is_invalid else ModelNotAccessible)(found.url, found.text))
        return found

    def _submodels(self, model: ThingModel, book: ModelBook) -> None:
        """Ask for all at once, because each one takes a request."""
        missing = [url for url in model.submodels.values() if self.has_model(url) and url not in book]
        if missing:
            raise TwinRefusal(ModelsNeeded(tuple(dict.fromkeys(missing))))

    # -- new things and features -----------------------------------------------------------------------------------

    def skeleton(self, definition: Json, book: ModelBook) -> Document | None:
        """A thing as its model wants it; None if the definition has no model."""
        model = self.model(definition, book)
        if model is None:
            return None
        self._submodels(model, book)
        return thing_skeleton(model, lambda url: self.model(url, book), with_optional=self.fills_optional)

    def filled_thing(self, thing: Document, book: ModelBook) -> Document:
        """A new thing with what its model adds. What it has itself wins."""
        skeleton = self.skeleton(thing.get("definition"), book) if self.is_filled else None
        return thing if skeleton is None else _filled(skeleton, thing)

    def filled_feature(self, feature: Json, book: ModelBook) -> Json:
        model = self.model(_first(feature), book) if self.is_filled else None
        if model is None or type(feature) is not dict:
            return feature
        skeleton = feature_skeleton(model, with_optional=self.fills_optional)
        return _filled({**skeleton, "definition": feature["definition"]}, feature)

    # -- changes ---------------------------------------------------------------------------------------------------

    def check(self, before: Document | None, after: Document, book: ModelBook) -> None:
        """Raises NotAsModelled, and what `model` raises."""
        if not self.enforced and not self.forbidden:
            return
        old = {} if before is None else before
        definition = after.get("definition")
        self._check_kept(old.get("definition"), definition, "The Thing's definition")
        model = self.model(definition, book)
        is_new = before is None or (Aspect.DEFINITIONS in self.enforced and not same(old.get("definition"), definition))
        if model is not None:
            attributes = _Values(
                "Thing's attribute", "/attributes", _object(old, "attributes"), _object(after, "attributes"), is_new
            )
            self._check_values(attributes, model, Aspect.ATTRIBUTES)
            self._check_features(_object(old, "features"), _object(after, "features"), model, is_new)
        earlier = _object(old, "features")
        for name, feature in _object(after, "features").items():
            if name not in earlier or not same(earlier[name], feature):
                self._check_feature(name, earlier.get(name), feature, book)

    def _check_kept(self, before: Json, after: Json, what: str) -> None:
        if Aspect.DEFINITIONS in self.forbidden and type(before) is str and after is None and self.has_model(before):
            raise TwinRefusal(NotAsModelled(f"{what} must not be deleted, because it names a model."))

    def _check_features(self, before: Document, after: Document, model: ThingModel, is_new: bool) -> None:
        missing = [name for name in model.submodels if name not in after and (is_new or name in before)]
        if missing and Aspect.FEATURES in self.enforced:
            told = f"Attempting to update the Thing with missing in the model defined features: {_listed(missing)}"
            raise TwinRefusal(NotAsModelled(told))
        more = [name for name in after if name not in model.submodels and (is_new or name not in before)]
        if more and Aspect.FEATURES in self.forbidden:
            told = (
                f"Attempting to update the Thing with feature(s) which were not defined in the model: {_listed(more)}"
            )
            raise TwinRefusal(NotAsModelled(told))

    def _check_feature(self, name: str, before: Json, after: Json, book: ModelBook) -> None:
        old, new = _first(before), _first(after)
        self._check_kept(old, new, f"The definition of Feature <{name}>")
        model = self.model(new, book)
        if model is None:
            return
        is_new = before is None or (Aspect.DEFINITIONS in self.enforced and not same(old, new))
        what, place = f"Feature <{name}>'s", print_pointer(("features", name))
        for member, aspect, called in (
            ("properties", Aspect.PROPERTIES, "property"),
            ("desiredProperties", Aspect.DESIRED_PROPERTIES, "desired property"),
        ):
            values = _Values(
                f"{what} {called}", f"{place}/{member}", _object(before, member), _object(after, member), is_new
            )
            self._check_values(values, model, aspect)

    def _check_values(self, values: _Values, model: ThingModel, aspect: Aspect) -> None:
        known = model.properties()
        if aspect in self.forbidden:
            values.check_known({each.pointer for each in known.values()})
        if aspect in self.enforced:
            required = [each.pointer for each in known.values() if not each.is_optional]
            if aspect is not Aspect.DESIRED_PROPERTIES:
                values.check_present(required)
            values.check_schemas({each.pointer: each.schema for each in known.values()})


@dataclass(frozen=True, slots=True)
class _Values:
    """Attributes or properties before and after a change. `is_new`: all of them are checked, not only the changed."""

    what: str
    place: str
    before: Document
    after: Document
    is_new: bool

    @property
    def _several(self) -> str:
        return f"{self.what.removesuffix('y')}ies" if self.what.endswith("y") else f"{self.what}s"

    def check_known(self, known: set[tuple[str, ...]]) -> None:
        categories = {pointer[0] for pointer in known if len(pointer) > 1}
        unknown = []
        for name, value in self.after.items():
            below = [(name, each) for each in value] if name in categories and type(value) is dict else [(name,)]
            unknown += [each for each in below if each not in known and each != (PLACEHOLDERS,)]
        new = [each for each in unknown if self.is_new or not _is_same(self.before, self.after, each)]
        if new:
            listed = _listed(["/".join(each) for each in new])
            raise TwinRefusal(
                NotAsModelled(
                    f"The {self._several} contained JSON fields which were not defined in the model: {listed}"
                )
            )

    def check_present(self, required: list[tuple[str, ...]]) -> None:
        missing = [
            each
            for each in required
            if get(self.after, each) is MISSING and (self.is_new or get(self.before, each) is not MISSING)
        ]
        if missing:
            details = []
            for each in missing:
                told = f"{self.what} <{'/'.join(each)}> is non optional and must be provided"
                details.append((self.place + print_pointer(each), (told,)))
            text = f"Required JSON fields were missing from the {self._several}"
            raise TwinRefusal(NotAsModelled(text, tuple(details)))

    def check_schemas(self, schemas: dict[tuple[str, ...], Json]) -> None:
        details = []
        for pointer, schema in schemas.items():
            value = get(self.after, pointer)
            if isinstance(value, Absent) or (not self.is_new and _is_same(self.before, self.after, pointer)):
                continue
            found = complaints(value, schema)
            if found:
                details.append((pointer, tuple(found)))
        if details:
            one = f"{self.what} <{print_pointer(details[0][0])}>"
            text = (
                f"The {one if len(details) == 1 else self._several} contained validation errors, check the validation"
            )
            placed = tuple([(self.place + print_pointer(pointer), found) for pointer, found in details])
            raise TwinRefusal(NotAsModelled(f"{text} details.", placed))


def _is_same(before: Document, after: Document, pointer: tuple[str, ...]) -> bool:
    old = get(before, pointer)
    return not isinstance(old, Absent) and same(old, get(after, pointer))


def _filled(skeleton: Document, given: Document) -> Document:
    """With the order of what was given first."""
    merged: Document = merge(skeleton, given)
    return {**{name: merged.get(name, given[name]) for name in given}, **merged}


def _first(feature: Json) -> Json:
    """The definition of a feature that names its model: the first of a list, which has at least one."""
    definition = feature.get("definition") if type(feature) is dict else None
    return definition[0] if type(definition) is list else None


def _object(value: Json, name: str) -> Document:
    found = value.get(name) if type(value) is dict else None
    return found if type(found) is dict else {}


def _listed(names: list[str]) -> str:
    return f"[{', '.join(names)}]"
