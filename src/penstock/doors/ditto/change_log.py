"""Changes of things and policies on their way into the journal: implements the ChangeLog of `twins`.

Each is on the disk before anybody is told of it. Read next: docs/journal.md, "Policies".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from penstock.journal.errors import DiskFailed, JournalClosed, Overload
from penstock.journal.journal import Journal, Policy
from penstock.journal.record import Columns
from penstock.twins.ports import Appended, NewRecord


class JournalChangeLog:
    """`defer` runs a call on the registry's thread, and may be called from any thread: `loop.call_soon_threadsafe`.

    The journal must outlive the registry, and the loop the journal.
    """

    def __init__(self, journal: Journal, defer: Callable[[Callable[[], None]], object]) -> None:
        self._journal = journal
        self._defer = defer

    @property
    def committed(self) -> int:
        return self._journal.committed

    def revision(self, entity: str) -> int:
        return self._journal.revision(entity)

    def append(self, records: Sequence[NewRecord], settled: Callable[[bool], None]) -> Appended | None:
        columns = Columns()
        for record in records:
            columns.add(*record)
        try:
            receipt = self._journal.append(columns, Policy.ACK)
        except (Overload, DiskFailed, JournalClosed):
            return None
        assert receipt.done is not None

        def settle(done: Future[None]) -> None:
            self._defer(lambda: settled(done.exception() is None))

        receipt.done.add_done_callback(settle)
        return Appended(receipt.first, receipt.revisions)
