"""Which records a reader wants: by entity pattern, kind and time. The cheap tests come first and only say "perhaps".

In a pattern `*` stands for any characters, also none, and `?` for one; everything else stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.journal.arrays import numbers, text
from penstock.journal.segment import kind_bits

_WILD = re.compile(r"[*?]")


class Extent(Protocol):
    """What is known of a frame, or of a block of them, without decoding it."""

    @property
    def earliest(self) -> int: ...
    @property
    def latest(self) -> int: ...
    @property
    def kinds(self) -> int: ...


@dataclass(frozen=True)
class EventSelection:
    """An empty tuple asks for all. `since` is inclusive, `until` is not; both are microseconds since 1970."""

    entities: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None

    @property
    def is_everything(self) -> bool:
        return not self.entities and not self.kinds and self.since is None and self.until is None

    @property
    def bounds_frames(self) -> bool:
        """Whether `test` may say no."""
        return bool(self.kinds) or self.since is not None or self.until is not None

    def touches_time(self, earliest: int, latest: int) -> bool:
        return (self.since is None or latest >= self.since) and (self.until is None or earliest < self.until)

    def test(self) -> Callable[[Extent], bool]:
        """Whether a frame or a block may hold something wanted."""
        bits = kind_bits(frozenset(self.kinds))

        def perhaps(extent: Extent) -> bool:
            return self.touches_time(extent.earliest, extent.latest) and (not bits or bool(extent.kinds & bits))

        return perhaps

    def names(self) -> tuple[bytes, ...] | None:
        """The entities as the bytes they are stored as; None if there are patterns among them, or all are wanted."""
        if not self.entities or any(_WILD.search(pattern) for pattern in self.entities):
            return None
        return tuple(name.encode() for name in self.entities)

    def matches(self, names: Any) -> Any:
        """A mask over an array of entity names."""
        exact = [pattern for pattern in self.entities if not _WILD.search(pattern)]
        masks = [pc.is_in(names, value_set=text(exact))] if exact else []
        for pattern in self.entities:
            if not _WILD.search(pattern):
                continue
            if not _WILD.search(pattern[:-1]) and pattern.endswith("*"):
                masks.append(pc.starts_with(names, pattern[:-1]))
            else:
                masks.append(pc.match_substring_regex(names, _expression(pattern)))
        mask = masks[0]
        for other in masks[1:]:
            mask = pc.or_(mask, other)
        return mask

    def apply(self, batch: Any) -> Any:
        """The wanted records of a batch, in order."""
        masks = []
        if self.since is not None or self.until is not None:
            times = batch.column("timestamp").cast(pa.int64())
            if self.since is not None:
                masks.append(pc.greater_equal(times, _scalar(self.since)))
            if self.until is not None:
                masks.append(pc.less(times, _scalar(self.until)))
        if self.kinds:
            masks.append(pc.is_in(batch.column("kind"), value_set=text(list(self.kinds))))
        if self.entities:
            masks.append(self.matches(batch.column("entity")))
        if not masks:
            return batch
        mask = masks[0]
        for other in masks[1:]:
            mask = pc.and_(mask, other)
        return batch.filter(mask)


EVERYTHING = EventSelection()


def _scalar(value: int) -> Any:
    """A number as an Arrow scalar: given a Python number, Arrow would import pandas first."""
    return numbers((value,), pa.int64())[0]


def _expression(pattern: str) -> str:
    """For Arrow's regular expressions, which know \\x{…} for any character."""
    parts = []
    for character in pattern:
        if character == "*":
            parts.append(".*")
        elif character == "?":
            parts.append(".")
        elif character.isalnum() and character.isascii():
            parts.append(character)
        else:
            parts.append(f"\\x{{{ord(character):X}}}")
    return f"(?s)^{''.join(parts)}$"
