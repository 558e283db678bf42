"""Triggers that compare one field with a constant, sorted, so that an update costs what fires and not what waits.

An update that passes none of a million thresholds is a few comparisons. Any other trigger is evaluated one by
one: `trigger`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.push.trigger.failure import NoResult
from penstock.push.trigger.numbers import parse_double, parse_int, parse_long
from penstock.push.trigger.strings import MAX_LENGTH


class Reading(Enum):
    """How the field becomes a number."""

    DOUBLE = "Double.parseDouble"
    INT = "Integer.parseInt"
    LONG = "Long.parseLong"


class Relation(Enum):
    """The field is on the left side."""

    GREATER = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="
    EQUAL = "=="


@dataclass(frozen=True, slots=True)
class Threshold:
    # Position in the update's values, from 0.
    field: int
    reading: Reading
    comparison: Relation
    # Never NaN: no comparison with it is true.
    constant: float


_PARSERS = {Reading.DOUBLE: parse_double, Reading.INT: parse_int, Reading.LONG: parse_long}

# One that is alone at its constant stands there itself, because a container for each would be most of the memory.
_Bucket = str | dict[str, None]


class _Ladder:
    """Thresholds of one field that are compared in the same way."""

    __slots__ = ("_buckets", "_comparison", "_constants", "_new")

    def __init__(self, comparison: Relation) -> None:
        self._comparison = comparison
        # Each constant once, sorted, but for the new ones: many that come at once are sorted at once.
        self._constants: list[float] = []
        self._new: list[float] = []
        self._buckets: dict[float, _Bucket] = {}

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def add(self, identifier: str, constant: float) -> None:
        there = self._buckets.get(constant)
        if there is None:
            self._buckets[constant] = identifier
            self._new.append(constant)
        elif isinstance(there, str):
            self._buckets[constant] = {there: None, identifier: None}
        else:
            there[identifier] = None

    def remove(self, identifier: str, constant: float) -> None:
        there = self._buckets[constant]
        if isinstance(there, dict):
            del there[identifier]
            if there:
                return
        del self._buckets[constant]
        self._sort()
        del self._constants[bisect_left(self._constants, constant)]

    def fired(self, value: float) -> Iterator[str]:
        if value != value:
            return
        self._sort()
        constants = self._constants
        match self._comparison:
            case Relation.GREATER:
                reached = constants[: bisect_left(constants, value)]
            case Relation.AT_LEAST:
                reached = constants[: bisect_right(constants, value)]
            case Relation.LESS:
                reached = constants[bisect_right(constants, value) :]
            case Relation.AT_MOST:
                reached = constants[bisect_left(constants, value) :]
            case Relation.EQUAL:
                reached = [value] if value in self._buckets else []
        for constant in reached:
            there = self._buckets[constant]
            if isinstance(there, str):
                yield there
            else:
                yield from there

    def _sort(self) -> None:
        if not self._new:
            return
        if len(self._new) * 8 < len(self._constants):
            for constant in self._new:
                insort(self._constants, constant)
        else:
            self._constants += self._new
            self._constants.sort()
        self._new.clear()


class Thresholds:
    """Those of one flow. An id is there at most once."""

    def __init__(self) -> None:
        self._of: dict[str, Threshold] = {}
        self._ladders: dict[tuple[int, Reading], dict[Relation, _Ladder]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def add(self, identifier: str, threshold: Threshold) -> None:
        assert identifier not in self._of
        self._of[identifier] = threshold
        ladders = self._ladders.setdefault((threshold.field, threshold.reading), {})
        if threshold.comparison not in ladders:
            ladders[threshold.comparison] = _Ladder(threshold.comparison)
        ladders[threshold.comparison].add(identifier, threshold.constant)

    def remove(self, identifier: str) -> None:
        """Nothing happens if it is not there."""
        threshold = self._of.pop(identifier, None)
        if threshold is None:
            return
        ladders = self._ladders[threshold.field, threshold.reading]
        ladder = ladders[threshold.comparison]
        ladder.remove(identifier, threshold.constant)
        if not ladder:
            del ladders[threshold.comparison]
            if not ladders:
                del self._ladders[threshold.field, threshold.reading]

    def fired(self, values: Sequence[str | None]) -> list[str]:
        """The ids whose comparison is true for these values; they stay until they are removed."""
        found: list[str] = []
        for (field, reading), ladders in self._ladders.items():
            value = values[field]
            if value is None or len(value) > MAX_LENGTH:
                continue
            try:
                number = _PARSERS[reading](value)
            except NoResult:
                continue
            for ladder in ladders.values():
                found += ladder.fired(number)
        return found
