"""JSON pointers as Ditto writes them, and reading, writing and deleting what is at them.

As in RFC 6901, but the first slash may be missing, a last one means nothing, and a tilde before anything but 0 and 1
stands for itself. An element of an array has no pointer: arrays are values.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.wire.ditto.document import MAX_DEPTH, Json
from penstock.wire.ditto.errors import KEY_INVALID, POINTER_INVALID

# The keys on the way from the root; empty for the root itself.
Pointer = tuple[str, ...]

ROOT: Pointer = ()

# What a key in a thing must not contain: what upstream counts as control characters, and the slash.
_NOT_IN_KEYS = frozenset([*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0)), "/"])


class Absent:
    """The type of `MISSING`: there is no value at a pointer, not even null."""


MISSING = Absent()


class BadPointer(ValueError):
    """A text that is not a pointer."""

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        # In words for a client; None for what the catalogue of errors says anyway.
        self.reason = reason


def parse_pointer(text: str) -> Pointer:
    """The keys of a pointer that a client sent; raises `json.pointer.invalid`."""
    try:
        return keys_of(text)
    except BadPointer as bad:
        raise POINTER_INVALID.of(text, description=bad.reason) from None


def keys_of(text: str) -> Pointer:
    """The keys of a pointer; raises BadPointer for consecutive slashes and for more keys than levels.

    For pointers in policies and queries, which were checked when they came: no client is told of an error in them.
    """
    if "//" in text:
        raise BadPointer(text)
    if text.count("/") > MAX_DEPTH:
        raise BadPointer(text, f"More than {MAX_DEPTH} slashes in a JSON pointer are not supported.")
    stripped = text.strip("/")
    if not stripped:
        return ROOT
    keys = stripped.split("/")
    if "~" in stripped:
        keys = [unescape(key) for key in keys]
    return tuple(keys)


def print_pointer(pointer: Iterable[str]) -> str:
    """The text of a pointer; a single slash for the root."""
    return "/" + "/".join([escape(key) for key in pointer])


def escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def unescape(key: str) -> str:
    # In this order, because "~01" would become a slash otherwise.
    return key.replace("~1", "/").replace("~0", "~")


def get(document: Json, pointer: Pointer) -> Json | Absent:
    """The value at a pointer, or MISSING."""
    for key in pointer:
        if type(document) is not dict or key not in document:
            return MISSING
        document = document[key]
    return document


def put(document: Json, pointer: Pointer, value: Json) -> Json:
    """A document with the value at the pointer. Only what is on the path is copied.

    Missing objects on the path are made; a value on the path that is not an object is replaced by one.
    """
    if not pointer:
        return value
    copy = dict(document) if type(document) is dict else {}
    copy[pointer[0]] = put(copy.get(pointer[0]), pointer[1:], value)
    return copy


def delete(document: Json, pointer: Pointer) -> Json | Absent:
    """A document without what is at the pointer; the same document if there is nothing, MISSING for the root."""
    if not pointer:
        return MISSING
    if type(document) is not dict or pointer[0] not in document:
        return document
    rest = delete(document[pointer[0]], pointer[1:])
    copy = dict(document)
    if isinstance(rest, Absent):
        del copy[pointer[0]]
    else:
        copy[pointer[0]] = rest
    return copy


def check_keys(value: Json) -> None:
    """Refuse (`json.key.invalid`) to store a value whose keys no pointer of Ditto could name."""
    if type(value) is dict:
        for key, inside in value.items():
            check_key(key)
            check_keys(inside)
    elif type(value) is list:
        for inside in value:
            check_keys(inside)


def check_key(key: str) -> None:
    if not key or not _NOT_IN_KEYS.isdisjoint(key):
        raise KEY_INVALID.of(key)
