"""Tables of parameters turned into structs; a mistake becomes one line with the place, the key and what is allowed.

Not here: what the keys mean (rules, tokens, metadata). Read next: docs/access.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from penstock.config.toml import one_line, written

S = TypeVar("S", bound=msgspec.Struct)

# Characters of a wrong value that are repeated: enough to recognise it, and the line stays readable.
VALUE_SHOWN = 80


class AccessError(ValueError):
    """A parameter or a file cannot be used; the text is one line for the operator."""

    def __init__(self, problem: str) -> None:
        super().__init__(one_line(problem))


def allowed(words: str) -> msgspec.Meta:
    """What a value may be, to be read after the word "expected"."""
    return msgspec.Meta(extra={"allowed": words})


def wrong(place: str, key: str, value: object, expected: str) -> AccessError:
    shown = written(value)
    if len(shown) > VALUE_SHOWN:
        shown = shown[:VALUE_SHOWN] + "…"
    return AccessError(f"{place}: {key} = {shown}: expected {expected}")


def read(struct: type[S], table: object, place: str) -> S:
    """A struct whose every field is annotated with `allowed`, from a table as TOML has them."""
    if not isinstance(table, Mapping):
        raise AccessError(f"{place}: expected a table, not {type(table).__name__}")
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    for key, value in table.items():
        field = fields.get(key)
        if field is None:
            raise AccessError(f"{place}: {key}: unknown key; allowed here: {', '.join(fields)}")
        try:
            msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            raise wrong(place, key, value, _words(field.type)) from None
    for name, field in fields.items():
        if field.required and name not in table:
            raise AccessError(f"{place}: {name} is missing: expected {_words(field.type)}")
    return msgspec.convert(dict(table), struct)


def _words(annotated: Any) -> str:
    """The last words win: a type may say in general what a key says more exactly."""
    found = [meta.extra["allowed"] for meta in annotated.__metadata__ if meta.extra]
    return str(found[-1])
