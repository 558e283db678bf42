"""The patch by which a thing gets another definition: those of its model, missing values, and what the client wants.

Which models there are is in `wot`; conditions of parts of the patch are in `preconditions`. Upstream documentation:
HTTP API, "migrateDefinition".
"""

from __future__ import annotations

import re

from penstock.twins.reasons import ModelInvalid, PlaceholderUnknown, TwinRefusal
from penstock.twins.twin import Document
from penstock.twins.wot.model import ModelBook
from penstock.twins.wot.validation import ModelRules
from penstock.wire.ditto.document import Json, text_of
from penstock.wire.ditto.migration import Migration
from penstock.wire.ditto.pointer import Absent, BadPointer, get, keys_of

# A value of the thing, in a text of the patch.
_VALUE = re.compile(r"\{\{\s*thing-json:([^\s{}]+)\s*\}\}|\$\{\s*thing-json:([^\s{}]+)\s*\}")


def migration_patch(
    migration: Migration, wanted: Json, thing: Document, readable: Json, rules: ModelRules, book: ModelBook
) -> Document:
    """The merge patch. `wanted` is the client's part, without what its conditions exclude.

    `readable` is the thing as far as the client may read it: its values may be in the patch.
    """
    skeleton = rules.skeleton(migration.definition, book)
    if skeleton is None:
        raise TwinRefusal(ModelInvalid(migration.definition))
    patch: Document = _missing(skeleton, thing) if migration.is_filled else _definitions(skeleton)
    patch = {**patch, "definition": migration.definition}
    return _laid_over(patch, _resolved(wanted, readable))


def _definitions(skeleton: Document) -> Document:
    features = {name: {"definition": each["definition"]} for name, each in skeleton.get("features", {}).items()}
    return {"definition": skeleton["definition"], **({"features": features} if features else {})}


def _missing(defaults: Document, there: Document) -> Document:
    """What is not there yet; definitions are always replaced."""
    found: Document = {}
    for name, value in defaults.items():
        if name == "definition" or name not in there:
            found[name] = value
        elif type(value) is dict and type(there[name]) is dict:
            inside = _missing(value, there[name])
            if inside:
                found[name] = inside
    return found


def _laid_over(below: Document, patch: Json) -> Document:
    """Both patches in one: unlike in a merge, a null stays, because it is to delete something."""
    result = dict(below)
    for name, value in patch.items():
        old = result.get(name)
        result[name] = _laid_over(old, value) if type(old) is dict and type(value) is dict else value
    return result


def _resolved(value: Json, thing: Json) -> Json:
    if type(value) is dict:
        return {name: _resolved(each, thing) for name, each in value.items()}
    if type(value) is list:
        return [_resolved(each, thing) for each in value]
    if type(value) is not str or "thing-json:" not in value:
        return value
    whole = _VALUE.fullmatch(value)
    if whole is not None:
        return _value(whole, thing)

    def text(found: re.Match[str]) -> str:
        inside = _value(found, thing)
        return inside if type(inside) is str else text_of(inside)

    return _VALUE.sub(text, value)


def _value(found: re.Match[str], thing: Json) -> Json:
    pointer = found[1] or found[2]
    try:
        value = get(thing, keys_of(pointer))
    except BadPointer:
        raise TwinRefusal(PlaceholderUnknown(found[0], is_of_model=False)) from None
    if isinstance(value, Absent):
        raise TwinRefusal(PlaceholderUnknown(found[0], is_of_model=False))
    return value
