"""What recorders have written down gathers here and goes to the journal in one append; what is lost is counted.

One `Gatherer` for each server; it belongs to the event loop. Not here: what is recorded (`recorder`, and recorders of
doors), how records reach the disk (`journal`). Read next: docs/journal.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import msgspec

from penstock import log
from penstock.journal.errors import BadRecord, DiskFailed, JournalError
from penstock.journal.journal import Journal, Policy, Receipt
from penstock.journal.long import LongAppend, LongReceipt
from penstock.journal.record import Columns

_log = log.get(__name__)

Event = Mapping[str, str | None]

_JSON = msgspec.json.Encoder()


class Gatherer:
    """Collects what happens in a loop turn and appends it once, for each policy. Nothing here waits or raises into the
    kernel: what the journal refuses is lost, counted, and told once when it begins and once when it ends.
    """

    def __init__(
        self,
        journal: Journal,
        defer: Callable[[Callable[[], None]], object],
        now: Callable[[], int],
        later: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """`defer` calls a function at the end of the loop turn; `now` is the time in microseconds since 1970.

        `later` does so a few milliseconds later. Nobody waits for records that are not of policy ACK: so they gather,
        because an append of one costs as much as one of a hundred. By default it is `defer`.
        """
        self.journal = journal
        self.now = now
        self._pending = {policy: Pending(self, policy, later or defer, now) for policy in Policy}
        self._pending[Policy.ACK] = Pending(self, Policy.ACK, defer, now)
        # Records that the journal did not take.
        self._refused = 0
        # How many were lost when the present outage began, and why it did; None when all is well.
        self._outage: int | None = None
        # The latest append's future, if that was one with a future: it covers all that came before.
        self._latest: Future[None] | None = None
        # How many had been lost at the last `committed`.
        self._reported = 0
        # Told of each append, on the loop, when its records are numbered: before they are on the disk.
        self.listeners: list[Callable[[Columns, Receipt], None]] = []

    @property
    def lost_records(self) -> int:
        """Refused by the journal, and taken but not written by it."""
        return self._refused + self.journal.lost_records

    def pending(self, policy: Policy) -> Pending:
        """Where recorders put events of this policy."""
        return self._pending[policy]

    def flush(self) -> None:
        """Append what has been collected so far."""
        for pending in self._pending.values():
            pending.flush()

    def append(self, columns: Columns, policy: Policy = Policy.ACK) -> Receipt:
        """Records that stand or fall together, in one append, after everything recorded before.

        With ACK, `await asyncio.wrap_future(receipt.done)`. Raises what `Journal.append` raises: nothing was appended.
        """
        self.flush()
        receipt = self._append(columns, policy)
        self._latest = receipt.done
        return receipt

    def append_long(self, records: LongAppend) -> LongReceipt:
        """The same for records that are too many for one append. Whoever appends them calls `tell` for each piece."""
        self.flush()
        receipt = self.journal.append_long(records)
        self._latest = receipt.done
        return receipt

    def _append(self, columns: Columns, policy: Policy) -> Receipt:
        receipt = self.journal.append(columns, policy)
        self.tell(columns, receipt)
        return receipt

    def tell(self, columns: Columns, receipt: Receipt) -> None:
        for listener in self.listeners:
            listener(columns, receipt)

    def on_disk(self) -> Future[None]:
        """Done when everything recorded so far is on the disk, or was refused. Raises DiskFailed, JournalClosed."""
        self.flush()
        latest = self._latest
        # One that has ended may have failed, and that for somebody else.
        return latest if latest is not None and not latest.done() else self.journal.flush()

    async def committed(self, lost: int | None = None) -> None:
        """Returns when everything recorded so far is on the disk.

        Raises DiskFailed, Overload or JournalClosed if some of it was lost: since `lost_records` was `lost`, or since
        the last call. Whoever shares this with others takes `lost_records` before recording and hands it in.
        """
        if lost is None:
            lost = self._reported
        try:
            await asyncio.wrap_future(self.on_disk())
        finally:
            lost_by_now = self._reported = self.lost_records
        if lost_by_now > lost:
            raise DiskFailed(f"{lost_by_now - lost} records could not be journaled", None)

    def take(self, columns: Columns, policy: Policy) -> None:
        """Append what has gathered. What the journal refuses is counted; halves of what is too big are tried alone."""
        try:
            self._latest = self._append(columns, policy).done
        except BadRecord as bad:
            if len(columns) > 1:
                for half in _halves(columns):
                    self.take(half, policy)
                return
            self.lose(1, f"{columns.entities[0][:60]!r}: {bad}")
        except JournalError as error:
            self.lose(len(columns), str(error))
        else:
            self._recover()

    def lose(self, count: int, reason: str) -> None:
        if self._outage is None:
            self._outage = self.lost_records
            _log.error("events are not journaled", reason=reason)
        self._refused += count

    def _recover(self) -> None:
        if self._outage is not None:
            lost, self._outage = self.lost_records - self._outage, None
            _log.warning("events are journaled again", lost_records=lost)


class Pending:
    """What has been recorded under one policy and is not yet appended."""

    def __init__(
        self,
        gatherer: Gatherer,
        policy: Policy,
        defer: Callable[[Callable[[], None]], object],
        now: Callable[[], int],
    ) -> None:
        self.now = now
        # Entity, time, kind and event. They become columns all at once, because that is faster than one by one.
        self.records: list[tuple[str, int, str, Event | None]] = []
        # Whether `flush` will be called.
        self.deferred = False
        self._gatherer = gatherer
        self._policy = policy
        self._defer = defer

    def begin(self) -> None:
        self.deferred = True
        self._defer(self._end)

    def _end(self) -> None:
        self.deferred = False
        self.flush()

    def flush(self) -> None:
        if self.records:
            records, self.records = self.records, []
            try:
                columns = _columns(records)
            except Exception:
                columns = self._sensible(records)
            if columns.entities:
                self._gatherer.take(columns, self._policy)

    def _sensible(self, records: list[tuple[str, int, str, Event | None]]) -> Columns:
        """Without records that cannot be written. They come from a trusted producer with a bug, because the kernel
        checks all others.
        """
        columns = Columns()
        for entity, timestamp, kind, event in records:
            try:
                columns.add(entity, timestamp, kind, "", value_of(event))
            except Exception as error:
                self._gatherer.lose(1, f"{entity[:60]!r}: {error}")
        return columns


def value_of(event: Event | None) -> str | None:
    """The value of a record: the fields as a compact JSON object; of no event there is none."""
    return None if event is None else _JSON.encode(event).decode()


def _columns(records: list[tuple[str, int, str, Event | None]]) -> Columns:
    entities, timestamps, kinds, events = map(list, zip(*records, strict=True))
    # JSON has no line breaks of its own: all of them are made and taken apart in one go.
    values: list[str | None] = list(_JSON.encode_lines(events).decode().split("\n"))
    del values[-1]
    if None in events:
        values = [None if event is None else value for event, value in zip(events, values, strict=True)]
    count = len(entities)
    return Columns(entities, timestamps, kinds, [""] * count, values, [None] * count)


def _halves(columns: Columns) -> tuple[Columns, Columns]:
    middle = len(columns) // 2
    lists = [getattr(columns, name) for name in columns.__slots__]
    return Columns(*[one[:middle] for one in lists]), Columns(*[one[middle:] for one in lists])
