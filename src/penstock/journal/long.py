"""Records that stand or fall together and are too many for one append: they are read piece by piece while written.

Their numbers are given beforehand, so it must be known how many there are, and of which entities. Not here: what of
them survives a crash (`unfinished`, `writer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from penstock.journal.record import numbered
from penstock.journal.writer import BatchGroup, group_of_batch


@dataclass(frozen=True, slots=True)
class LongAppend:
    """`counts` says how many records of each entity `pieces` will give, in pieces such as `record.arrays` makes.

    `pieces` is called on the journal's thread. Whatever it raises, nothing is committed.
    """

    counts: Mapping[str, int]
    pieces: Callable[[], Iterator[list[Any]]]

    @property
    def count(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class LongReceipt:
    """The first sequence, the last revision of each entity before this append, and when it is on the disk."""

    first: int
    before: Mapping[str, int]
    done: Future[None]


class RevisionCounter:
    """The revisions of a long append, in the order of its records."""

    def __init__(self, before: Mapping[str, int]) -> None:
        self._last = dict(before)

    def next(self, entities: list[str]) -> list[int]:
        last = self._last
        revisions = []
        for entity in entities:
            revision = last[entity] + 1
            last[entity] = revision
            revisions.append(revision)
        return revisions


def numbered_groups(records: LongAppend, receipt: LongReceipt) -> Iterator[BatchGroup]:
    """One for each piece. Raises OSError if the pieces cannot be read, or are not what was said of them."""
    first, counter = receipt.first, RevisionCounter(receipt.before)
    try:
        for piece in records.pieces():
            entities = piece[0].to_pylist()
            yield group_of_batch(numbered(piece, first, counter.next(entities)))
            first += len(entities)
    except OSError:
        raise
    except Exception as error:
        # The journal's thread must outlive a piece that is damaged.
        raise OSError(f"a long append cannot be read: {type(error).__name__}: {error}") from error
