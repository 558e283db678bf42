"""An item as a thing: what its records in the journal are as events, and the thing that they make.

The fields of an item are the thing's attributes. Where rows come with a key and a command, the keys are features and
the other fields their properties. Values are texts, and a field that is null is absent. Names: `wire.ditto.items`.

    first record ever                created, /, the thing
    fields                           merged, /attributes, the fields that came; null removes
    row ADD or UPDATE of key k       merged, /features, {k: {"properties": fields}}
    row DELETE of key k              merged, /features, {k: null}
    clear                            modified, /, the thing with nothing in it

Records do not show in which mode an item is subscribed, because that differs by client: all fields that came stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from penstock.twins.record import Record
from penstock.twins.twin import Change, Document, Twin
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.pointer import MISSING

UPDATE = "update"
SNAPSHOT = "snapshot"
CLEAR = "clear"

_ROW = ("ADD", "UPDATE", "DELETE")
_DECODER = msgspec.json.Decoder(dict[str, str | None])


class _Row(msgspec.Struct):
    properties: dict[str, msgspec.Raw]


class _Told(msgspec.Struct):
    attributes: dict[str, msgspec.Raw] = {}
    features: dict[str, _Row | None] = {}


_ATTRIBUTES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FEATURES = msgspec.json.Decoder(_Told)


def change_of_item(thing_id: str, record: Record) -> Change | None:
    """The change of the thing by a record of the item; None if there is none."""
    if record.kind == CLEAR:
        return Change(Action.MODIFIED, (), empty(thing_id))
    if record.kind not in (UPDATE, SNAPSHOT) or record.value is None:
        return None
    try:
        fields = _DECODER.decode(record.value)
    except msgspec.DecodeError:
        return None
    name, patch = _part(fields)
    if record.revision == 1:
        return Change(Action.CREATED, (), {**empty(thing_id), name: merge(MISSING, patch)})
    return Change(Action.MERGED, (name,), patch)


def fields_in(record: Record) -> list[str]:
    """The fields of the item that a record has."""
    if record.kind not in (UPDATE, SNAPSHOT) or record.value is None:
        return []
    try:
        return list(_DECODER.decode(record.value))
    except msgspec.DecodeError:
        return []


def fields_told(path: str, value: str | None) -> list[str]:
    """The fields of the item in an event of its thing, from the path and the text that `change_of_item` made."""
    if value is None:
        return []
    if path == "/attributes":
        return list(_ATTRIBUTES.decode(value))
    told = _FEATURES.decode(f'{{"features":{value}}}' if path == "/features" else value)
    fields = list(told.attributes)
    if told.features:
        fields += ("key", "command")
    for row in told.features.values():
        if row is not None:
            fields += row.properties
    return fields


def _part(fields: dict[str, str | None]) -> tuple[str, Json]:
    """What of the thing the fields are about, and the merge patch for it."""
    key, command = fields.get("key"), fields.get("command")
    if key is None or command not in _ROW:
        return "attributes", fields
    if command == "DELETE":
        return "features", {key: None}
    rest = {name: value for name, value in fields.items() if name not in ("key", "command")}
    return "features", {key: {"properties": rest}}


def empty(thing_id: str) -> Document:
    """The thing of an item of which nothing is known."""
    return {"thingId": thing_id}


def base_of(thing_id: str, timestamp: int = 0) -> Twin:
    """What the history of an item begins with, also where its first records are gone: for `Moment.fold`."""
    return Twin(empty(thing_id), 0, timestamp, timestamp)


def changes_of_item(thing_id: str, records: Iterable[Record]) -> Iterator[tuple[Record, Change | None]]:
    """For `Moment.fold`."""
    return ((record, change_of_item(thing_id, record)) for record in records)
