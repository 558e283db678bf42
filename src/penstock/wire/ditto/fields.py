"""Field selectors: `thingId,attributes(a,b/c),features/*/properties`, and the part of a document that they select.

A selector is a list of JSON pointers; parentheses share what is before them. A star is any feature.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.errors import FIELD_SELECTOR_INVALID, DittoError
from penstock.wire.ditto.pointer import Pointer, parse_pointer

# Characters of a selector, levels of parentheses, and the number of pointers that it may expand to.
MAX_LENGTH = 8192
MAX_DEPTH = 16
MAX_POINTERS = 512


@dataclass(frozen=True, slots=True)
class Fields:
    """The pointers of a selector, in its order, each once."""

    pointers: tuple[Pointer, ...]

    def names(self, name: str) -> bool:
        """Whether a field of the whole is asked for: those whose names begin with `_` are shown only then."""
        return any(pointer[0] == name for pointer in self.pointers)

    def select(self, document: Json) -> Json:
        """The document with only these fields, in its own order; missing fields are left out."""
        chosen = _Tree()
        for pointer in self.pointers:
            chosen.add(pointer)
        return _selected(document, chosen, 0) if type(document) is dict else document


class _Tree:
    """The pointers as one tree, so that each part of a document is visited once."""

    def __init__(self) -> None:
        self.whole = False
        self.below: dict[str, _Tree] = {}

    def add(self, pointer: Pointer) -> None:
        tree = self
        for key in pointer:
            tree = tree.below.setdefault(key, _Tree())
        tree.whole = True


class _Nothing:
    """The type of the result when none of the fields is there."""


_NOTHING = _Nothing()


def _selected(value: Json, chosen: _Tree, depth: int) -> Json:
    if chosen.whole:
        return value
    if type(value) is not dict:
        return _NOTHING
    result: dict[str, Json] = {}
    for key, inside in value.items():
        trees = [chosen.below[key]] if key in chosen.below else []
        if depth == 1 and "*" in chosen.below and key != "*":
            trees.append(chosen.below["*"])
        for tree in trees:
            part = _selected(inside, tree, depth + 1)
            if not isinstance(part, _Nothing):
                result[key] = _union(result[key], part) if key in result else part
    return result if result or depth == 0 else _NOTHING


def _union(one: Json, other: Json) -> Json:
    """Two selections of the same value, combined."""
    if type(one) is not dict or type(other) is not dict:
        return one
    result = dict(one)
    for key, value in other.items():
        result[key] = _union(result[key], value) if key in result else value
    return result


def parse_fields(text: str) -> Fields:
    """Raises `json.fieldselector.invalid`."""
    if len(text) > MAX_LENGTH:
        raise _invalid(text, f"It has {len(text)} characters, allowed: {MAX_LENGTH}.")
    found: dict[Pointer, None] = {}
    for pointer in _parse(text, text, 1):
        found[pointer] = None
        if len(found) > MAX_POINTERS:
            raise _invalid(text, f"It selects more than {MAX_POINTERS} fields.")
    return Fields(tuple(found))


def _parse(text: str, whole: str, depth: int) -> list[Pointer]:
    if depth > MAX_DEPTH:
        raise _invalid(whole, f"It has more than {MAX_DEPTH} levels of parentheses.")
    pointers: list[Pointer] = []
    for part in _split(text, whole):
        before, parenthesis, inside = part.partition("(")
        try:
            pointer = parse_pointer(before.strip())
        except DittoError as error:
            raise _invalid(whole, error.description or error.message) from None
        if not pointer:
            raise _invalid(whole, "It has a field without a name.")
        if not parenthesis:
            pointers.append(pointer)
        elif not inside.endswith(")"):
            raise _invalid(whole, f"After the parentheses of '{before[:60]}' a comma is expected.")
        else:
            pointers.extend([pointer + inner for inner in _parse(inside[:-1], whole, depth + 1)])
    return pointers


def _split(text: str, whole: str) -> list[str]:
    """At the commas outside of parentheses."""
    parts: list[str] = []
    start = depth = 0
    for at, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth < 0:
                raise _invalid(whole, None)
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    if depth:
        raise _invalid(whole, None)
    parts.append(text[start:].strip())
    return parts


def _invalid(text: str, description: str | None) -> DittoError:
    return FIELD_SELECTOR_INVALID.of(text, description=description)
