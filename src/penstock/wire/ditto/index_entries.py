"""A document as entries of a search index, and the ranges of entries that can satisfy a filter.

An entry is a path and a key. Keys of values are compared as bytes, and are ordered as the values are: null, booleans,
numbers, texts, objects, arrays. A range may contain too much, never too little, because keys are cut and rounded:
whether a document matches is decided by `predicate`. Parsing is in `rql`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import blake2b

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.pointer import escape, keys_of, print_pointer
from penstock.wire.ditto.rql import And, Comparison, Empty, FieldExists, In, Literal, Not, Or, Placeholder, Query

# Bytes of a text, and characters of a path, that an entry has: what is longer is found by its beginning, or its hash.
MAX_TEXT = 128
MAX_PATH = 400

_NULL, _BOOLEAN, _NUMBER, _TEXT, _OBJECT, _ARRAY, _END = b"\x10", b"\x20", b"\x30", b"\x40", b"\x50", b"\x60", b"\x70"

Entry = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Entries of one path with keys from `low` to before `high`. With `exact` there is one key, `low`."""

    path: str
    low: bytes
    high: bytes
    exact: bool = False


@dataclass(frozen=True, slots=True)
class AllOf:
    nodes: tuple[RangeTree, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    nodes: tuple[RangeTree, ...]


RangeTree = KeyRange | AllOf | AnyOf


def entries_of(document: Json) -> set[Entry]:
    """All entries of a document. Elements of an array are at the path of the array; `features/*` is any feature."""
    entries: set[Entry] = set()
    if type(document) is dict:
        for name, value in document.items():
            path = f"/{escape(name)}"
            _add(value, path, entries)
            if name == "features" and type(value) is dict:
                for feature in value.values():
                    _add(feature, f"{path}/*", entries)
    return entries


def _add(value: Json, path: str, entries: set[Entry]) -> None:
    if type(value) is dict:
        entries.add((path_of(path), _OBJECT))
        for name, inside in value.items():
            _add(inside, f"{path}/{escape(name)}", entries)
    elif type(value) is list:
        entries.add((path_of(path), _ARRAY))
        for each in value:
            _add(each, path, entries)
    else:
        entries.add((path_of(path), key_of(value)))


def path_of(path: str) -> str:
    """The path as entries have it."""
    if len(path) <= MAX_PATH:
        return path
    return f"{path[:MAX_PATH]}~{blake2b(path.encode(), digest_size=16).hexdigest()}"


def key_of(value: Json) -> bytes:
    """The key of a value that is neither an object nor an array."""
    if value is None:
        return _NULL
    if type(value) is bool:
        return _BOOLEAN + (b"\x01" if value else b"\x00")
    if type(value) is int or type(value) is float:
        return _NUMBER + _number(value)
    return _TEXT + str(value).encode("utf-8", "surrogatepass")[:MAX_TEXT]


def _number(value: int | float) -> bytes:
    """Eight bytes whose order is that of the numbers."""
    try:
        # Adding zero makes one of the two zeros.
        bits: int = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))[0]
    except OverflowError:
        bits = 0x7FEFFFFFFFFFFFFF if value > 0 else 0xFFEFFFFFFFFFFFFF
    return int(bits ^ 0xFFFFFFFFFFFFFFFF if bits >> 63 else bits | 0x8000000000000000).to_bytes(8, "big")


def ranges_of(query: Query) -> RangeTree | None:
    """Where the entries of a matching document must be; None if that says nothing, and all documents must be looked at.

    A negation says nothing: to those who may not read a property it looks missing.
    """
    if isinstance(query, And):
        some = [node for node in map(ranges_of, query.queries) if node is not None]
        return None if not some else some[0] if len(some) == 1 else AllOf(tuple(some))
    if isinstance(query, Or):
        nodes = [ranges_of(each) for each in query.queries]
        known = [node for node in nodes if node is not None]
        return None if len(known) < len(nodes) else known[0] if len(known) == 1 else AnyOf(tuple(known))
    if isinstance(query, Not | Empty):
        return None
    path = path_of(print_pointer(keys_of(query.property)))
    if isinstance(query, FieldExists):
        return KeyRange(path, _NULL, _END)
    if isinstance(query, In):
        ranges = tuple([_compared("eq", path, value) for value in query.values])
        return ranges[0] if len(ranges) == 1 else AnyOf(ranges)
    return _compared(query.operator, path, query.value)


def _compared(operator: str, path: str, value: Literal) -> KeyRange:
    if operator == "ne":
        # What is missing is not found by it: see `for_search`.
        return KeyRange(path, _NULL, _END)
    if isinstance(value, Placeholder):
        return KeyRange(path, _NUMBER, _OBJECT)
    if operator in ("like", "ilike"):
        return _like(operator, path, str(value))
    key = key_of(value)
    if operator == "eq":
        return KeyRange(path, key, key, exact=True)
    kind = key[:1]
    if operator in ("gt", "ge"):
        return KeyRange(path, key, bytes((kind[0] + 0x10,)))
    return KeyRange(path, kind, key + b"\xff")


def _like(operator: str, path: str, pattern: str) -> KeyRange:
    if operator == "ilike":
        return KeyRange(path, _TEXT, _OBJECT)
    stars = [at for at in (pattern.find("*"), pattern.find("?")) if at >= 0]
    if not stars:
        key = key_of(pattern)
        return KeyRange(path, key, key, exact=True)
    key = key_of(pattern[: min(stars)])
    return KeyRange(path, key, key + b"\xff")


def for_search(query: Query) -> Query:
    """As a search understands an expression: `ne` finds only documents that have the property."""
    if isinstance(query, And):
        return And(tuple(map(for_search, query.queries)))
    if isinstance(query, Or):
        return Or(tuple(map(for_search, query.queries)))
    if isinstance(query, Not):
        return Not(for_search(query.query))
    if isinstance(query, Comparison) and query.operator == "ne":
        return And((FieldExists(query.property), query))
    return query
