"""Whether a document matches an RQL expression. Expressions are parsed in `rql`.

Values of different types are neither equal nor ordered, as in upstream's documentation. An array matches if any of its
elements does; an object is equal to nothing. `time:now` is compared with texts as times, whatever notation they use;
with `_epoch_millis` it is compared with numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.instant import NANOS_PER_MICRO, NANOS_PER_MILLI, parse_instant
from penstock.wire.ditto.placeholder import Moment, moment_of
from penstock.wire.ditto.pointer import Pointer, keys_of
from penstock.wire.ditto.rql import And, Comparison, Empty, FieldExists, In, Literal, Not, Placeholder, Query

# What is known besides the document when an expression is evaluated: `topic:action`, `resource:path` and so on.
Known = Mapping[str, Json]

_NOTHING: Known = {}


def matches(query: Query, document: Json, now: int, known: Known = _NOTHING) -> bool:
    """Whether the expression is true of the document. `ne` is true if the property is missing, like `not(eq)`.

    `now` is in microseconds since 1970.
    """
    if isinstance(query, Comparison):
        value = _resolved(query.value, now)
        values = values_at(query.property, document, known)
        if query.operator == "ne":
            return not any(_equal(each, value) for each in values)
        return any(_compares(query.operator, each, value) for each in values)
    if isinstance(query, In):
        wanted = [_resolved(value, now) for value in query.values]
        values = values_at(query.property, document, known)
        return any(_equal(each, value) for each in values for value in wanted)
    if isinstance(query, FieldExists):
        return bool(_found(query.property, document, known))
    if isinstance(query, Empty):
        return all(each is None or each in ("", [], {}) for each in _found(query.property, document, known))
    if isinstance(query, Not):
        return not matches(query.query, document, now, known)
    if isinstance(query, And):
        return all(matches(each, document, now, known) for each in query.queries)
    return any(matches(each, document, now, known) for each in query.queries)


def _resolved(value: Literal, now: int) -> Json:
    return moment_of(value.name, now * NANOS_PER_MICRO) if isinstance(value, Placeholder) else value


def values_at(path: str, document: Json, known: Known = _NOTHING) -> list[Json]:
    """What can be compared at a property: the values there, and those in arrays there."""
    values: list[Json] = []
    for each in _found(path, document, known):
        _flatten(each, values)
    return values


def _flatten(value: Json, into: list[Json]) -> None:
    if type(value) is list:
        for each in value:
            _flatten(each, into)
    elif type(value) is not dict:
        into.append(value)


def _found(path: str, document: Json, known: Known) -> list[Json]:
    """The values at a property: none, one, or several where arrays or `features/*` are on the way."""
    pointer = _pointer(path)
    found: list[Json] = []
    _collect(document, pointer, 0, found)
    if not found:
        if path in known:
            return [known[path]]
        if pointer == ("_namespace",) and type(document) is dict and type(document.get("thingId")) is str:
            return [document["thingId"].partition(":")[0]]
    return found


@lru_cache(maxsize=1024)
def _pointer(path: str) -> Pointer:
    # One expression is evaluated on very many documents.
    return keys_of(path)


def _collect(value: Json, pointer: Pointer, depth: int, into: list[Json]) -> None:
    if depth == len(pointer):
        into.append(value)
    elif type(value) is list:
        for each in value:
            _collect(each, pointer, depth, into)
    elif type(value) is dict:
        key = pointer[depth]
        if key in value:
            _collect(value[key], pointer, depth + 1, into)
        elif key == "*" and depth == 1 and pointer[0] == "features":
            for each in value.values():
                _collect(each, pointer, depth + 1, into)


def _compares(operator: str, found: Json, value: Json) -> bool:
    if operator == "eq":
        return _equal(found, value)
    if operator in ("like", "ilike"):
        if type(found) is not str or type(value) is not str:
            return False
        return is_like(found, value) if operator == "like" else is_like(found.casefold(), value.casefold())
    if isinstance(value, Moment):
        instant = _instant(found, value)
        if instant is None:
            return False
        found, value = instant, value.nanos
    if not _is_ordered(found, value):
        return False
    if operator == "gt":
        return bool(found > value)
    if operator == "ge":
        return bool(found >= value)
    if operator == "lt":
        return bool(found < value)
    return bool(found <= value)


def _equal(found: Json, value: Json) -> bool:
    if found is None or value is None:
        return found is value
    if isinstance(value, Moment):
        return _instant(found, value) == value.nanos
    return _is_ordered(found, value) and bool(found == value)


def _instant(found: Json, moment: Moment) -> int | float | None:
    """The value in nanoseconds since 1970; None if it is not a time, or not of the kind that is compared."""
    if moment.is_millis:
        is_number = type(found) is int or type(found) is float
        return found * NANOS_PER_MILLI if is_number else None
    return parse_instant(found) if type(found) is str else None


def _is_ordered(found: Json, value: Json) -> bool:
    """Both numbers, both texts or both booleans."""
    if type(found) is bool or type(value) is bool:
        return type(found) is type(value)
    if type(found) is str or type(value) is str:
        return type(found) is type(value)
    return isinstance(found, int | float) and isinstance(value, int | float)


def is_like(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern in which `*` stands for any number of characters and `?` for one.

    Not by a regular expression, because with several stars its time is polynomial in the length.
    """
    at = place = 0
    star = resume = -1
    while at < len(text):
        if place < len(pattern) and pattern[place] == "*":
            # Let it match nothing first, and one character more whenever the rest does not match.
            star, resume = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("?", text[at]):
            at += 1
            place += 1
        elif star >= 0:
            resume += 1
            at, place = resume, star + 1
        else:
            return False
    return not pattern[place:].strip("*")
