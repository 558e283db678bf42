"""What a command's headers demand of the state it meets: `if-match`, `if-none-match`, `if-equal`, `condition`.

A whole entity is tagged by its revision, a part by a hash of what the caller may read of it: a tag tells nothing that
its holder could not see. Upstream documentation: "Conditional requests".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

import msgspec

from penstock.twins.access import Scope
from penstock.twins.twin import Twin
from penstock.wire.ditto.document import Json, same
from penstock.wire.ditto.envelope import Headers, text_header
from penstock.wire.ditto.errors import (
    CONDITION_FAILED,
    CONDITION_NOT_READABLE,
    HEADER_INVALID,
    NOT_MODIFIED,
    POLICY_EQUAL,
    POLICY_NOT_MODIFIED,
    POLICY_PRECONDITION_FAILED,
    PRECONDITION_FAILED,
    THING_EQUAL,
    DittoError,
    Entry,
)
from penstock.wire.ditto.instant import NANOS_PER_MICRO, print_instant
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.pointer import Missing, parse_pointer
from penstock.wire.ditto.predicate import matches
from penstock.wire.ditto.rql import And, Not, Or, Query, parse_rql
from penstock.wire.ditto.topic import Group

_TAG = re.compile(r'\s*(\*|(?:W/)?"[^"]*")\s*(?:,|$)')

# Bytes of a hash: enough that two values of one part never share it.
_HASH_BYTES = 8


def revision_tag(revision: int) -> str:
    """The tag of a whole thing or policy."""
    return f'"rev:{revision}"'


def value_tag(value: Json) -> str:
    """The tag of a part; the order of its keys is of no account."""
    text = msgspec.json.encode(value, order="deterministic")
    return f'"hash:{blake2b(text, digest_size=_HASH_BYTES).hexdigest()}"'


@dataclass(frozen=True, slots=True)
class Current:
    """What is at the place of a command: whether anything is, and its tag, if the caller may know it."""

    exists: bool
    tag: str | None


NOTHING = Current(False, None)


def asks_for_tags(headers: Headers) -> bool:
    """Whether `check_tags` would look at the current one at all."""
    return "if-match" in headers or "if-none-match" in headers


def check_tags(group: Group, headers: Headers, current: Current, *, reading: bool) -> None:
    """Raises 412, or 304 for a reader who has the current value already; `header.invalid` for what are no tags."""
    given = text_header(headers, "if-match")
    if given is not None and not _matched(_tags(given, "if-match"), current, weak=False):
        raise _failed(group).of("if-match", given, current.tag or "null")
    given = text_header(headers, "if-none-match")
    if given is not None and _matched(_tags(given, "if-none-match"), current, weak=True):
        if reading:
            raise (POLICY_NOT_MODIFIED if group is Group.POLICIES else NOT_MODIFIED).of(given, current.tag)
        raise _failed(group).of("if-none-match", given, current.tag or "null")


def _failed(group: Group) -> Entry:
    return POLICY_PRECONDITION_FAILED if group is Group.POLICIES else PRECONDITION_FAILED


def _tags(text: str, name: str) -> list[str]:
    tags: list[str] = []
    at = 0
    while at < len(text):
        found = _TAG.match(text, at)
        if found is None:
            raise HEADER_INVALID.of(text, name, "list of entity-tags")
        tags.append(found[1])
        at = found.end()
    if not tags:
        raise HEADER_INVALID.of(text, name, "list of entity-tags")
    return tags


def _matched(tags: list[str], current: Current, *, weak: bool) -> bool:
    if not current.exists:
        return False
    # Ours are all strong. A weak one is equal only where weakness is allowed.
    return any(tag == "*" or (tag.removeprefix("W/") if weak else tag) == current.tag for tag in tags)


# -- if-equal ----------------------------------------------------------------------------------------------------------


class IfEqual(StrEnum):
    """What becomes of a command that would change nothing."""

    UPDATE = "update"
    SKIP = "skip"
    SKIP_MINIMIZING_MERGE = "skip-minimizing-merge"


def if_equal(headers: Headers) -> IfEqual:
    """Raises `header.invalid`."""
    text = text_header(headers, "if-equal")
    try:
        return IfEqual.UPDATE if text is None else IfEqual(text)
    except ValueError:
        raise HEADER_INVALID.of(text, "if-equal", f"word: one of {', '.join(IfEqual)}") from None


def equal(group: Group) -> DittoError:
    """Nothing was changed, as was wished."""
    return (POLICY_EQUAL if group is Group.POLICIES else THING_EQUAL).of()


def changes_nothing(current: Json | Missing, patch: Json) -> bool:
    """Whether a merge patch leaves a value as it is."""
    if isinstance(current, Missing):
        return patch is None
    return patch is not None and same(merge(current, patch), current)


def minimal(current: Json | Missing, patch: Json) -> Json:
    """The patch without what is so already."""
    if type(patch) is not dict or type(current) is not dict:
        return patch
    result: dict[str, Json] = {}
    for key, value in patch.items():
        if key in current and not changes_nothing(current[key], value):
            result[key] = minimal(current[key], value)
        elif key not in current and value is not None:
            result[key] = value
    return result


# -- condition ---------------------------------------------------------------------------------------------------------


def check_condition(headers: Headers, twin: Twin, readable: Scope, now: int) -> None:
    """Raises 412 unless the expression in the header is true of the thing; `rql.expression.invalid`.

    `now` is in microseconds since 1970.
    """
    text = text_header(headers, "condition")
    if text is None:
        return
    query = parse_rql(text)
    if not all(_may_ask(each, readable) for each in _properties(query)):
        raise CONDITION_NOT_READABLE.of()
    if not matches(query, {**twin.document, **special_fields(twin)}, now):
        raise CONDITION_FAILED.of()


def special_fields(twin: Twin) -> dict[str, Json]:
    """The fields that every entity has, and that are shown only to those who ask for them."""
    return {
        "_revision": twin.revision,
        "_created": print_instant(twin.created * NANOS_PER_MICRO),
        "_modified": print_instant(twin.modified * NANOS_PER_MICRO),
    }


def _properties(query: Query) -> Iterator[str]:
    if isinstance(query, Not):
        yield from _properties(query.query)
    elif isinstance(query, And | Or):
        for each in query.queries:
            yield from _properties(each)
    else:
        yield query.property


def _may_ask(path: str, readable: Scope) -> bool:
    pointer = parse_pointer(path)
    if "*" in pointer:
        pointer = pointer[: pointer.index("*")]
    if pointer and (pointer[0] == "thingId" or pointer[0].startswith("_")):
        return readable.touches(())
    return readable.covers_all(pointer)
