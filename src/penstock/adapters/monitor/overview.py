"""The port through which the MONITOR adapter sees the server. Who is behind it: `penstock.services.overview`.

Everything is called on the event loop and answers at once; tables are walked a few rows at a time, so they may change
on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

from penstock.log import LogLine

# Fields and their values; None where nothing is known.
Row: TypeAlias = dict[str, str | None]

# The key of a row, and the row.
Keyed: TypeAlias = tuple[str, Row]

# Walks over the rows of a table as they are now. It remembers the last walk, because rows have rates.
Table: TypeAlias = Callable[[], Iterator[Keyed]]

# Ends what was asked for.
Stop: TypeAlias = Callable[[], None]


class Overview(Protocol):
    """The whole server, to be looked at."""

    def statistics(self) -> Row:
        """The latest sample."""

    def history(self) -> Sequence[Row]:
        """The samples of the last hour, the oldest first."""

    def each_sample(self, told: Callable[[], None]) -> Stop:
        """Be told when there is a new sample, about once a second."""

    def each_point(self, told: Callable[[Row], None]) -> Stop:
        """Be told of every sample that `history` gets."""

    def each_log_line(self, told: Callable[[LogLine], None]) -> Stop:
        """Be told of every line of the log, from another thread."""

    def identification(self) -> Row: ...
    def details(self) -> Row: ...
    def libraries(self) -> Iterable[Keyed]: ...

    def socket(self, name: str) -> Row | None:
        """A listener by its name."""

    def table(self, name: str) -> Table | None:
        """One of those that change all the time: sessions, items, adapters, queries, nodes, configuration."""
