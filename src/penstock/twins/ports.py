"""What twins need from the world, as protocols: where changes become durable, and where the past is read.

Implementations: `doors.ditto.change_log` on the journal, `penstock.history.reader.History` on journal and lake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol


class NewRecord(NamedTuple):
    """A change to be made durable: `timestamp` is in microseconds since 1970, `value` and `headers` are JSON texts."""

    entity: str
    timestamp: int
    kind: str
    path: str
    value: str | None
    headers: str | None


class Appended(NamedTuple):
    """Records that were accepted: sequences from `first` on, and a revision for each."""

    first: int
    revisions: list[int]


class ChangeLog(Protocol):
    """For the thread of the registry."""

    @property
    def committed(self) -> int:
        """The sequence of the last record, of whatever entity, that is durable."""

    def revision(self, entity: str) -> int:
        """The last revision that was given to an entity; 0 if there is none."""

    def append(self, records: Sequence[NewRecord], settled: Callable[[bool], None]) -> Appended | None:
        """Accept all of these, or none: then None is returned.

        `settled` is called once, later, on the thread of the registry and in the order of sequences: with True when
        they are durable, with False when they never will be.
        """


class Archive(Protocol):
    """The past of entities. Blocks: not for an event loop."""

    def read(self, entity: str, *, first: int | None = None, last: int | None = None) -> Iterator[Any]:
        """Arrow tables with the journal's columns, by ascending revision, each once; both revisions are included."""

    def last_revision(self, entity: str, until: int | None = None) -> int:
        """Of the last event, in the order of revisions, before a time in microseconds since 1970; 0 if none is."""


class WholeArchive(Archive, Protocol):
    """An archive that knows what it has."""

    def check_whole(self) -> None:
        """Raises an exception of its own if something is missing between its beginning and its end."""

    def summary(self) -> Any:
        """An Arrow table with a row for each entity, with its name and its last revision."""
