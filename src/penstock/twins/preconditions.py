"""What a command demands of the current state: tags that must match or must not, a condition, an actual change.

A whole entity is tagged by its revision, a part by a hash of what the caller may read of it: a tag reveals nothing that
its holder could not see. How clients write conditions is up to the doors. Upstream documentation: "Conditional
requests".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import blake2b
from typing import TypeVar

import msgspec

from penstock.twins.access import Rights, Scope, readable
from penstock.twins.reasons import (
    ConditionFailed,
    ConditionHidden,
    ConditionUnreadable,
    TagCurrent,
    TagMismatch,
    TwinRefusal,
)
from penstock.twins.twin import Twin
from penstock.wire.ditto.document import Json, same
from penstock.wire.ditto.instant import NANOS_PER_MICRO, print_instant
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.merge import merge
from penstock.wire.ditto.pointer import Absent, Pointer, delete, get, keys_of
from penstock.wire.ditto.predicate import matches
from penstock.wire.ditto.rql import And, Not, Or, Query

# Bytes of a hash: enough that two values of one part never share it.
_HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags that a value may have, as `revision_tag` and `value_tag` make them. Ours are all strong.

    One that came as weak is compared only where weakness is allowed. `text` is how the sender wrote them all. With
    `is_any` every value matches, but not a missing one.
    """

    text: str
    strong: tuple[str, ...]
    weak: tuple[str, ...] = ()
    is_any: bool = False


class IfEqual(Enum):
    """What to do with a command that would change nothing."""

    UPDATE = auto()
    SKIP = auto()
    SKIP_MINIMIZING_MERGE = auto()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A condition that its door could not parse.

    It is refused only when the rules evaluate it: an error must not reveal whether something exists to those who may
    not know.
    """

    problem: Exception


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that a command demands; None where it demands nothing."""

    if_match: Tags | Unreadable | None = None
    if_none_match: Tags | Unreadable | None = None
    if_equal: IfEqual | Unreadable = IfEqual.UPDATE
    condition: Query | Unreadable | None = None
    # Conditions for parts of a merge patch.
    parts: tuple[tuple[Pointer, Query], ...] | Unreadable = ()

    @property
    def has_tags(self) -> bool:
        """Whether `check_tags` needs the current tag."""
        return self.if_match is not None or self.if_none_match is not None


NO_CONDITIONS = Conditions()

T = TypeVar("T")


def read(condition: T | Unreadable) -> T:
    """The condition; raises ConditionUnreadable."""
    if isinstance(condition, Unreadable):
        raise TwinRefusal(ConditionUnreadable(condition.problem))
    return condition


# -- tags --------------------------------------------------------------------------------------------------------------


def revision_tag(revision: int) -> str:
    """The tag of a whole thing or policy."""
    return f"rev:{revision}"


def value_tag(value: Json) -> str:
    """The tag of a part; the order of its keys does not matter."""
    text = msgspec.json.encode(value, order="deterministic")
    return f"hash:{blake2b(text, digest_size=_HASH_BYTES).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Current:
    """What is at the place of a command: whether anything is, and its tag, if the caller may know it."""

    exists: bool
    tag: str | None


NOTHING = Current(False, None)


def current(group: EntityGroup, twin: Twin, rights: Rights, pointer: Pointer) -> Current:
    """What a command meets at its place, for its preconditions."""
    if not pointer:
        return Current(True, revision_tag(twin.revision))
    value = get(twin.document, pointer)
    if isinstance(value, Absent):
        return NOTHING
    visible = readable(group, rights).visible(value, pointer)
    return Current(True, None if isinstance(visible, Absent) else value_tag(visible))


def check_tags(group: EntityGroup, conditions: Conditions, current: Current, *, reading: bool) -> None:
    """Raises TagMismatch, or TagCurrent for a reader who has the current value already; ConditionUnreadable."""
    is_policy = group is EntityGroup.POLICIES
    given = read(conditions.if_match)
    if given is not None and not _matched(given, given.strong, current):
        raise TwinRefusal(TagMismatch(is_policy, False, given.text, current.tag))
    given = read(conditions.if_none_match)
    if given is not None and _matched(given, given.strong + given.weak, current):
        if reading:
            raise TwinRefusal(TagCurrent(is_policy, given.text, current.tag))
        raise TwinRefusal(TagMismatch(is_policy, True, given.text, current.tag))


def _matched(given: Tags, compared: tuple[str, ...], current: Current) -> bool:
    return current.exists and (given.is_any or current.tag in compared)


# -- changes that are none ---------------------------------------------------------------------------------------------


def changes_nothing(current: Json | Absent, patch: Json) -> bool:
    """Whether a merge patch leaves a value as it is."""
    if isinstance(current, Absent):
        return patch is None
    return patch is not None and same(merge(current, patch), current)


def minimal(current: Json | Absent, patch: Json) -> Json:
    """The patch without what would not change anything."""
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


def check_condition(condition: Query | Unreadable | None, twin: Twin, readable: Scope, now: int) -> None:
    """Raises ConditionFailed unless the condition is true of the thing; ConditionHidden, ConditionUnreadable.

    `now` is in microseconds since 1970.
    """
    query = read(condition)
    if query is None:
        return
    if not all(_may_ask(each, readable) for each in _properties(query)):
        raise TwinRefusal(ConditionHidden())
    if not matches(query, {**twin.document, **special_fields(twin)}, now):
        raise TwinRefusal(ConditionFailed())


def allowed_patch(conditions: Conditions, patch: Json, twin: Twin | None, readable: Scope, now: int) -> Json:
    """A merge patch without the parts whose conditions are not true of the thing; raises as `check_condition` does."""
    document = {} if twin is None else {**twin.document, **special_fields(twin)}
    for pointer, query in read(conditions.parts):
        # Of a new thing everybody knows that nothing is there.
        if twin is not None and not all(_may_ask(each, readable) for each in _properties(query)):
            raise TwinRefusal(ConditionHidden())
        if not matches(query, document, now):
            rest = delete(patch, pointer)
            if isinstance(rest, Absent):
                raise TwinRefusal(ConditionFailed())
            patch = rest
    return patch


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
    pointer = keys_of(path)
    if "*" in pointer:
        pointer = pointer[: pointer.index("*")]
    if pointer and (pointer[0] == "thingId" or pointer[0].startswith("_")):
        return readable.touches(())
    return readable.covers_all(pointer)
