"""Sessions that have ended, on their way into the database.

It gathers and writes from time to time, because ending a session must not wait for a disk. What an entry contains is in
`descriptions`.
"""

from __future__ import annotations

import time

from penstock.doors.tlex.descriptions import log_entry
from penstock.exchange.session import HubSession
from penstock.log import get
from penstock.store.records import SessionLog
from penstock.store.thread import StoreThread

log = get(__name__)

# Entries that wait while the database does not answer; beyond it the oldest are lost.
MAX_WAITING = 100_000

DAY_MILLIS = 86_400_000

# Counters that the log shows if not zero: payloads that did not reach their receivers, and unknown datagrams.
COUNTED = (
    "dropped",
    "discarded",
    "oversized",
    "out_of_scope",
    "reserved",
    "unrouted",
    "unknown",
    "forbidden",
    "withheld",
)


class SessionLogWriter:
    """A `Watcher`."""

    def __init__(self, store: StoreThread, days: int) -> None:
        """Entries are kept for some `days`; 0: for ever."""
        self._store = store
        self._days = days
        self._waiting: list[SessionLog] = []
        self.lost = 0

    def opened(self, session: HubSession) -> None: ...
    def connected(self, session: HubSession) -> None: ...
    def changed(self, session: HubSession) -> None: ...

    def ended(self, session: HubSession) -> None:
        counters = session.counters
        counts = {name: getattr(counters, name) for name in COUNTED}
        log.info(
            "tlex session ended",
            session=session.id,
            reason=None if session.end_reason is None else session.end_reason.value,
            received=counters.received,
            sent=counters.sent,
            **{name: count for name, count in counts.items() if count},
        )
        self._waiting.append(log_entry(session))
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[0]
            self.lost += 1

    async def write(self) -> None:
        """Write all that wait; if the database fails, they keep waiting."""
        if self._waiting:
            entries, self._waiting = self._waiting, []
            try:
                await self._store.call(self._store.store.log_sessions, entries)
            except BaseException:
                self._waiting = entries + self._waiting
                raise

    async def forget(self) -> None:
        if self._days:
            before = time.time_ns() // 1_000_000 - self._days * DAY_MILLIS
            forgotten = await self._store.call(self._store.store.forget_sessions, before)
            if forgotten:
                log.info("old session log entries deleted", entries=forgotten)
