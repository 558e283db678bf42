"""Fields of a thing as an item: which place each means, and the text that a value is sent as.

`/attributes/x` and `attributes/x` are the value there, `/` is the whole thing; `_revision` and `_modified` are those of
the HTTP API. Texts are sent as they are, everything else as JSON; what is missing, or null, is null.
"""

from __future__ import annotations

from penstock.twins.access import Scope
from penstock.twins.preconditions import special_fields
from penstock.twins.twin import Twin
from penstock.wire.ditto.document import Json, text_of
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.pointer import Absent, get, parse_pointer, print_pointer

SPECIAL = ("_revision", "_created", "_modified")


def field_of(text: str) -> str | None:
    """The one name that a field goes by, however it was written; None if it names no place."""
    if text in SPECIAL:
        return text
    try:
        return print_pointer(parse_pointer(text))
    except DittoError:
        return None


def may_read(scope: Scope, field: str) -> bool:
    """Whether all of a field may be read."""
    if field in SPECIAL or field == "/thingId":
        return scope.touches(())
    return scope.covers_all(parse_pointer(field))


def value_of(twin: Twin | None, field: str) -> Json:
    """The value of a field; None if there is none."""
    if twin is None:
        return None
    if field in SPECIAL:
        return special_fields(twin)[field]
    found = get(twin.document, parse_pointer(field))
    return None if isinstance(found, Absent) else found


def written(value: Json) -> str | None:
    """The text that a value is sent as."""
    if value is None or type(value) is str:
        return value
    return text_of(value)


def has_parts(value: Json) -> bool:
    """Whether a change of the value can be told as the difference of two JSON documents."""
    return type(value) is dict or type(value) is list
