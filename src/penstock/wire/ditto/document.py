"""JSON texts and the values they hold, within limits that no honest message reaches.

Paths into a document are in `pointer`, changes by patch in `merge`, choosing fields in `fields`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.wire.ditto.errors import JSON_INVALID, wrong_type

# A value of any JSON type, as Python represents it. What is inside is checked by those who use it.
Json = Any

# Levels of objects and arrays. Deeper texts are refused as not JSON, so that code may recurse into any document.
MAX_DEPTH = 128

# Bytes of a thing, and of a policy, as compact UTF-8: 100 kB, with the k that error texts count in. More is error 413.
MAX_ENTITY_BYTES = 100 * 1024

MAX_LONG = 2**63 - 1
MIN_LONG = -(2**63)

_TYPES = {dict: "JsonObject", list: "JsonArray", str: "String", bool: "Boolean", int: "Long", float: "Double"}


class NotJson(ValueError):
    """A text that is not JSON, or has too many levels; the text of the exception says what is wrong with it."""


def parse(text: str | bytes) -> Json:
    """The value of a JSON text; raises NotJson."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise NotJson(str(error)) from None
    brackets = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if brackets > MAX_DEPTH and is_deep(value):
        raise NotJson(f"more than {MAX_DEPTH} levels")
    return value


def decode(text: str | bytes) -> Json:
    """The value of a JSON text that a client sent; raises `json.invalid`."""
    try:
        return parse(text)
    except NotJson as error:
        start = text[:60] if isinstance(text, str) else text[:60].decode("utf-8", "replace")
        told = f"Failed to parse JSON string '{start}{'…' if len(text) > 60 else ''}'! {error}"
        raise JSON_INVALID.of(told) from None


def is_deep(value: Json) -> bool:
    """Whether there are more levels than allowed. Does not recurse."""
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Json] = []
        for each in level:
            if type(each) is dict:
                below.extend(each.values())
            elif type(each) is list:
                below.extend(each)
        # What is left are scalar values, or one level more.
        level = [each for each in below if type(each) is dict or type(each) is list]
        if not level:
            return False
    return True


def encode(value: Json) -> bytes:
    """The compact UTF-8 text of a value; `msgspec.Raw` inside it stands for itself."""
    return msgspec.json.encode(value)


def text_of(value: Json) -> str:
    """The compact text of a value, for error messages and for the journal."""
    return msgspec.json.encode(value).decode()


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON. In Python itself 1 and true are equal."""
    if type(one) is bool or type(other) is bool:
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(same(a, b) for a, b in zip(one, other, strict=True))
        )
    return bool(one == other)


def expect(value: Json, kind: type, pointer: str) -> Json:
    """The value, if it is exactly of this type: a boolean is not a number. Raises `json.invalid` naming the place."""
    if type(value) is not kind:
        raise wrong_type(text_of(value), pointer, _TYPES[kind])
    return value


def expect_long(value: Json, pointer: str) -> int:
    """An integer, however written; one beyond 64 bits becomes the largest or smallest that there is."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise wrong_type(text_of(value), pointer, "Long")
    return max(MIN_LONG, min(MAX_LONG, value))
