"""Audiences: sets of edges that get the same payloads, each with a subject of its own, so that NATS copies them.

Pure: the hub's side of it, with the time as an argument. An audience is used when all of its members have said that
they are subscribed; until then, and beyond the limit, each edge is sent to by itself. What is sent is up to `nats`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

# More sets of edges than this are sent to one by one: each is a subscription at every member.
MAX_AUDIENCES = 1_000

# An audience that nothing was sent to for this long is forgotten.
UNUSED_SECONDS = 60.0

Edges: TypeAlias = frozenset[str]


@dataclass(slots=True)
class Audience:
    """`missing` have not confirmed yet."""

    number: int
    members: Edges
    used: float
    missing: set[str] = field(default_factory=set)


class Audiences:
    """Numbers are never used again."""

    def __init__(self) -> None:
        self._found: dict[Edges, Audience] = {}
        self._by_number: dict[int, Audience] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._found)

    def of(self, edges: Edges, now: float) -> tuple[Audience | None, bool]:
        """The audience of these edges, and whether it is new, so that they have to be told. None beyond the limit."""
        found = self._found.get(edges)
        if found is not None:
            found.used = now
            return found, False
        if len(self._found) >= MAX_AUDIENCES:
            return None, False
        self._last += 1
        found = Audience(self._last, edges, now, set(edges))
        self._found[edges] = self._by_number[found.number] = found
        return found, True

    def confirm(self, edge: str, number: int) -> bool:
        """False if there is no such audience with this edge: it is to leave."""
        found = self._by_number.get(number)
        if found is None or edge not in found.members:
            return False
        found.missing.discard(edge)
        return True

    def waiting(self) -> list[Audience]:
        """Those of which somebody has not confirmed."""
        return [each for each in self._found.values() if each.missing]

    def without(self, edge: str) -> list[Audience]:
        """Forget those that the edge is part of; returns them."""
        return self._forget([each for each in self._found.values() if edge in each.members])

    def expire(self, now: float) -> list[Audience]:
        """Forget those that are not used any more; returns them."""
        return self._forget([each for each in self._found.values() if now - each.used > UNUSED_SECONDS])

    def _forget(self, gone: list[Audience]) -> list[Audience]:
        for each in gone:
            del self._found[each.members], self._by_number[each.number]
        return gone
