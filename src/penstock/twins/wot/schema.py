"""Whether a value is one that a data schema of a Thing Model describes.

The terms of WoT's data schemas, with the rest of JSON Schema that models use: `additionalProperties`. Other terms, also
`format`, are not checked. Specification: WoT Thing Description 1.1, "Data Schema Vocabulary Definitions".
"""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.wire.ditto.document import Json, same, text_of
from penstock.wire.ditto.patch_keys import MAX_KEY, quick_pattern

# Complaints about one value; a longer list helps nobody.
MAX_COMPLAINTS = 20

# Values that are compared with a schema, each with every schema that it is compared with.
MAX_COMPARISONS = 20_000

_Complain = Callable[[str, str], None]


def complaints(value: Json, schema: Json) -> list[str]:
    """What is wrong with a value, as `PLACE: {TERM=TEXT}`; the place is empty for the value itself."""
    check = _Check()
    check.value(value, schema, "")
    return check.found


class _Check:
    def __init__(self) -> None:
        self.found: list[str] = []
        self._left = MAX_COMPARISONS

    def value(self, value: Json, schema: Json, place: str) -> None:
        if type(schema) is not dict:
            return
        self._left -= 1
        if self._left < 0 or len(self.found) >= MAX_COMPLAINTS:
            if self._left == -1:
                self.found.append(f"{place}: {{size=more than {MAX_COMPARISONS} values to check}}")
            return

        def complain(term: str, text: str) -> None:
            if len(self.found) < MAX_COMPLAINTS:
                self.found.append(f"{place}: {{{term}={text}}}")

        kind = schema.get("type")
        kinds = kind if type(kind) is list else [kind] if type(kind) is str else []
        if kinds and not any(_is(value, each) for each in kinds):
            complain("type", f"{_name(value)} found, {', '.join(map(str, kinds))} expected")
            return
        if "const" in schema and not same(value, schema["const"]):
            complain("const", f"must be the constant value {_shown(schema['const'])}")
        allowed = schema.get("enum")
        if type(allowed) is list and not any(same(value, each) for each in allowed):
            complain("enum", f"does not have a value in the enumeration {_shown(allowed)}")
        if type(value) in (int, float):
            _check_number(value, schema, complain)
        elif type(value) is str:
            _check_text(value, schema, complain)
        elif type(value) is list:
            self._array(value, schema, place, complain)
        elif type(value) is dict:
            self._object(value, schema, place, complain)
        choices = schema.get("oneOf")
        if type(choices) is list and choices:
            fitting = sum(self._fits(value, each) for each in choices)
            if fitting != 1:
                complain("oneOf", f"must be valid to one and only one schema, but {fitting} are valid")

    def _fits(self, value: Json, schema: Json) -> bool:
        check = _Check()
        check._left = self._left
        check.value(value, schema, "")
        self._left = check._left
        return not check.found

    def _array(self, value: list[Json], schema: dict[str, Json], place: str, complain: _Complain) -> None:
        _check_count(len(value), schema, "minItems", "maxItems", "items", complain)
        items = schema.get("items")
        if type(items) is list:
            for index, (each, inside) in enumerate(zip(value, items, strict=False)):
                self.value(each, inside, f"{place}/{index}")
        elif type(items) is dict:
            for index, each in enumerate(value):
                self.value(each, items, f"{place}/{index}")

    def _object(self, value: dict[str, Json], schema: dict[str, Json], place: str, complain: _Complain) -> None:
        required = schema.get("required")
        missing = [name for name in (required if type(required) is list else ()) if name not in value]
        if missing:
            absent = [f"required property '{name}' not found" for name in missing]
            complain("required", f"[{', '.join(absent)}]")
        inside = schema.get("properties")
        known = inside if type(inside) is dict else {}
        for name, each in value.items():
            if name in known:
                self.value(each, known[name], f"{place}/{name}")
            elif schema.get("additionalProperties") is False:
                told = f"property '{name}' is not defined in the schema"
                complain("additionalProperties", f"{told} and the schema does not allow additional properties")
            else:
                self.value(each, schema.get("additionalProperties"), f"{place}/{name}")


def _check_number(value: int | float, schema: dict[str, Json], complain: _Complain) -> None:
    least, most = number_in(schema, "minimum"), number_in(schema, "maximum")
    above, below = number_in(schema, "exclusiveMinimum"), number_in(schema, "exclusiveMaximum")
    if least is not None and value < least:
        complain("minimum", f"must have a minimum value of {text_of(least)}")
    if most is not None and value > most:
        complain("maximum", f"must have a maximum value of {text_of(most)}")
    if above is not None and value <= above:
        complain("exclusiveMinimum", f"must have an exclusive minimum value of {text_of(above)}")
    if below is not None and value >= below:
        complain("exclusiveMaximum", f"must have an exclusive maximum value of {text_of(below)}")
    step = number_in(schema, "multipleOf")
    if step is not None and step > 0 and not _is_multiple(value, step):
        complain("multipleOf", f"must be multiple of {text_of(step)}")


def number_in(schema: dict[str, Json], term: str) -> float | None:
    """The number that a schema has for a term; None if it has none."""
    value = schema.get(term)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_multiple(value: float, step: float) -> bool:
    try:
        parts = value / step
    except OverflowError:
        return False
    return math.isfinite(parts) and abs(parts - round(parts)) <= 1e-9 * max(1.0, abs(parts))


def _check_text(value: str, schema: dict[str, Json], complain: _Complain) -> None:
    _check_count(len(value), schema, "minLength", "maxLength", "characters", complain)
    text = schema.get("pattern")
    pattern = quick_pattern(text) if type(text) is str else None
    if pattern is not None and (len(value) > MAX_KEY or pattern.search(value) is None):
        complain("pattern", f"does not match the regex pattern {text}, in at most {MAX_KEY} characters")


def _check_count(count: int, schema: dict[str, Json], least: str, most: str, what: str, complain: _Complain) -> None:
    if type(schema.get(least)) is int and count < schema[least]:
        complain(least, f"must have at least {schema[least]} {what} but found {count}")
    if type(schema.get(most)) is int and count > schema[most]:
        complain(most, f"must have at most {schema[most]} {what} but found {count}")


def _is(value: Json, kind: Json) -> bool:
    if kind == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    if kind == "number":
        return type(value) in (int, float)
    return bool(_name(value) == kind)


def _name(value: Json) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]


def _shown(value: Json) -> str:
    text = text_of(value)
    return text if len(text) <= 200 else text[:200] + "…"
