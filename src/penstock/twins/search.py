"""Whether a thing is a result of a search, what of it its reader gets, and in which order results stand.

Everything is decided on what the reader may see: a property that is hidden looks missing. Which things are looked at is
up to the index, see `wire.ditto.index_entries`. Read next: docs/ditto.md, "Search".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from penstock.twins.access import Rights, readable
from penstock.twins.preconditions import special_fields
from penstock.twins.retrieval import seen, selected
from penstock.twins.twin import Document, Twin
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.fields import Fields
from penstock.wire.ditto.index_entries import Entry, entries_of
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.predicate import matches, values_at
from penstock.wire.ditto.rql import Query


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Properties to sort by, each with whether it is descending. The last one is the ID."""

    keys: tuple[tuple[str, bool], ...]

    @property
    def is_by_id(self) -> bool:
        """Whether the ID alone decides, ascending."""
        return self.keys == (("/thingId", False),)

    def values(self, document: Json) -> tuple[Json, ...]:
        """What a thing is sorted by: of an array the smallest, or the largest if it is descending."""
        found: list[Json] = []
        for path, descending in self.keys:
            values = values_at(path, document)
            if not values:
                found.append(None)
            elif len(values) == 1:
                found.append(values[0])
            else:
                found.append((max if descending else min)(values, key=_ORDERED))
        return tuple(found)

    def compare(self, one: Sequence[Json], other: Sequence[Json]) -> int:
        for (_, descending), a, b in zip(self.keys, one, other, strict=True):
            result = _compare(a, b)
            if result:
                return -result if descending else result
        return 0

    def key(self, values: Sequence[Json]) -> Any:
        """For `sorted` and the like."""
        return cmp_to_key(self.compare)(values)


def _rank(value: Json) -> int:
    """Values of different types: missing and null first, then numbers, texts, everything else, booleans."""
    if value is None:
        return 0
    if type(value) is bool:
        return 4
    if type(value) is int or type(value) is float:
        return 1
    return 2 if type(value) is str else 3


def _compare(one: Json, other: Json) -> int:
    ranks = _rank(one), _rank(other)
    if ranks[0] != ranks[1]:
        return -1 if ranks[0] < ranks[1] else 1
    if ranks[0] in (0, 3) or one == other:
        return 0
    return -1 if one < other else 1


_ORDERED = cmp_to_key(_compare)


@dataclass(frozen=True, slots=True)
class Search:
    """`fields` is None for whole things. `now` is in microseconds since 1970."""

    query: Query | None
    order: SortOrder
    fields: Fields | None
    now: int

    def look(self, twin: Twin, rights: Rights) -> Document | None:
        """What can be seen of a thing, with its special fields, if it is a result."""
        if not readable(EntityGroup.THINGS, rights).touches(()):
            return None
        document = {**seen(EntityGroup.THINGS, twin, rights), **special_fields(twin)}
        if self.query is not None and not matches(self.query, document, self.now):
            return None
        return document

    def result(self, twin: Twin, rights: Rights, policy: Document | None) -> Json:
        """A result as it is sent."""
        return selected(EntityGroup.THINGS, twin, rights, policy, self.fields)


def indexed(twin: Twin) -> set[Entry]:
    """The entries of a thing in the index."""
    namespace = twin.document["thingId"].partition(":")[0]
    return entries_of({**twin.document, **special_fields(twin), "_namespace": namespace})
