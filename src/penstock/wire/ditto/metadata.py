"""Metadata of things: what clients put beside values, get and delete, by headers with paths in which `*` is any key.

    put-metadata: [{"key": "/features/lamp/properties/color/unit", "value": "RGB"}, {"key": "*/by", "value": "me"}]
    get-metadata, delete-metadata: features/lamp/properties/*/unit, */by

Paths begin at the part of the thing that the command is about. Metadata has the form of the thing, with more keys.
Upstream documentation: "Metadata".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.wire.ditto.document import Json, NotJson, expect, parse, text_of
from penstock.wire.ditto.envelope import Headers, text_header
from penstock.wire.ditto.errors import FIELD_MISSING, HEADER_INVALID, HEADER_UNSUPPORTED
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.pointer import MISSING, Absent, Pointer, get, parse_pointer, put

PUT: Final = "put-metadata"
GET: Final = "get-metadata"
DELETE: Final = "delete-metadata"
NAMES: Final = (PUT, GET, DELETE)

# The header in which metadata is returned.
RETURNED: Final = "ditto-metadata"

# Paths in one header.
MAX_PATHS: Final = 100

_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class MetadataWish:
    """What a command wants of metadata: one of the three."""

    put: tuple[tuple[Pointer, Json], ...] = ()
    get: tuple[Pointer, ...] = ()
    delete: tuple[Pointer, ...] = ()


def metadata_wish(action: Action, headers: Headers) -> MetadataWish | None:
    """What the headers of a command ask for; raises `header.invalid`, `header.notsupported`."""
    given = [name for name in NAMES if name in headers]
    if not given:
        return None
    if len(given) > 1:
        told = f"Use only one of {', '.join(NAMES)} with a command."
        raise HEADER_UNSUPPORTED.of(_text(headers[given[1]]), given[1], description=told)
    (name,) = given
    allowed = (Action.RETRIEVE,) if name == GET else (Action.CREATE, Action.MODIFY, Action.MERGE)
    if action not in allowed:
        told = f"It is for these commands: {', '.join(allowed)}."
        raise HEADER_UNSUPPORTED.of(_text(headers[name]), name, description=told)
    if name == PUT:
        return MetadataWish(put=_entries(headers[PUT]))
    paths = _paths(text_header(headers, name) or "", name)
    return MetadataWish(get=paths) if name == GET else MetadataWish(delete=paths)


def _entries(given: Json) -> tuple[tuple[Pointer, Json], ...]:
    value = given
    if type(given) is str:
        try:
            value = parse(given)
        except NotJson:
            raise HEADER_INVALID.of(given, PUT, "JSON array of objects with key and value") from None
    entries = expect(value, list, PUT)
    if len(entries) > MAX_PATHS:
        raise HEADER_INVALID.of(f"{len(entries)} entries", PUT, f"list of at most {MAX_PATHS} entries")
    found: list[tuple[Pointer, Json]] = []
    for each in entries:
        entry = expect(each, dict, PUT)
        for member in ("key", "value"):
            if member not in entry:
                raise FIELD_MISSING.of(f"{PUT}/{member}")
        pointer = parse_pointer(expect(entry["key"], str, f"{PUT}/key"))
        if not pointer or pointer[-1] == _ANY:
            raise HEADER_INVALID.of(entry["key"], PUT, "key: a path whose last part is a name")
        found.append((pointer, entry["value"]))
    return tuple(found)


def _paths(text: str, name: str) -> tuple[Pointer, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not 0 < len(parts) <= MAX_PATHS:
        raise HEADER_INVALID.of(text, name, f"list of 1 to {MAX_PATHS} paths")
    return tuple([parse_pointer(part) for part in parts])


def _text(value: Json) -> str:
    return value if type(value) is str else text_of(value)


# -- trees -------------------------------------------------------------------------------------------------------------


def put_patch(wish: tuple[tuple[Pointer, Json], ...], value: Json | Absent) -> Json:
    """The merge patch that puts metadata beside a value. A star goes over the keys that the value has."""
    patch: Json = {}
    for pointer, given in wish:
        if len(pointer) == 2 and pointer[0] == _ANY:
            places = list(_leaves(value, ()))
        else:
            places = list(_expanded(value, pointer[:-1], ()))
        for place in places:
            patch = put(patch, (*place, pointer[-1]), given)
    return patch


def delete_patch(wish: tuple[Pointer, ...], metadata: Json | Absent) -> Json:
    """The merge patch that deletes metadata."""
    patch: Json = {}
    for pointer in wish:
        for place in _found(metadata, pointer):
            patch = put(patch, place, None) if place else dict.fromkeys(metadata if type(metadata) is dict else ())
    return patch


def selected_metadata(wish: tuple[Pointer, ...], metadata: Json | Absent) -> Json:
    """What of metadata is asked for."""
    result: Json = {}
    for pointer in wish:
        for place in _found(metadata, pointer):
            value = get(metadata, place)
            result = merge(result, value if not place else put({}, place, value))
    return result


def _found(metadata: Json | Absent, pointer: Pointer) -> Iterator[Pointer]:
    """The places in metadata that a path names."""
    if pointer == (_ANY,):
        if type(metadata) is dict:
            yield ()
    elif len(pointer) == 2 and pointer[0] == _ANY:
        yield from _with_key(metadata, pointer[1], ())
    else:
        for place in _expanded(metadata, pointer, ()):
            if get(metadata, place) is not MISSING:
                yield place


def _with_key(value: Json | Absent, key: str, place: Pointer) -> Iterator[Pointer]:
    if type(value) is dict:
        for name, inside in value.items():
            if name == key:
                yield (*place, name)
            else:
                yield from _with_key(inside, key, (*place, name))


def _leaves(value: Json | Absent, place: Pointer) -> Iterator[Pointer]:
    if type(value) is dict:
        for key, inside in value.items():
            if not key.startswith("_"):
                yield from _leaves(inside, (*place, key))
    elif not isinstance(value, Absent):
        yield place


def _expanded(value: Json | Absent, pointer: Pointer, place: Pointer) -> Iterator[Pointer]:
    """The places that a path with stars names, whether or not anything is there."""
    if not pointer:
        yield place
        return
    known: dict[str, Json] = value if type(value) is dict else {}
    keys = list(known) if pointer[0] == _ANY else [pointer[0]]
    for key in keys:
        yield from _expanded(known.get(key, MISSING), pointer[1:], (*place, key))
