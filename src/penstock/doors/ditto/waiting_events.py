"""Live events that wait for a slow client, and how many were lost because it was too slow.

The client is told by `live` or `sse`, the operator by the log and by a counter for the monitor. Read next:
docs/ditto.md, "Live events".
"""

from __future__ import annotations

from penstock.kernel.ledger import Ledger
from penstock.log import get

log = get(__name__)

# Live events that may wait for one client. Beyond it the newer ones are lost, and it is told how many.
MAX_WAITING_EVENTS = 200


class Losses:
    """Losses of all clients together; only grows. `ledger` counts what waits for clients of every door."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.events = 0
        self.ledger = Ledger() if ledger is None else ledger


class WaitingEvents:
    """What waits for one client. `reader` is its name in the log."""

    def __init__(self, losses: Losses, reader: str) -> None:
        self._losses = losses
        self._reader = reader
        self._messages: list[bytes] = []
        self._size = 0
        self._lost = 0

    @property
    def is_full(self) -> bool:
        """Whether further events are lost."""
        return len(self._messages) >= MAX_WAITING_EVENTS

    def put(self, message: bytes) -> None:
        self._messages.append(message)
        self._size += len(message)
        self._losses.ledger.hold(self)

    def holds(self) -> int:
        return self._size

    def cut(self) -> None:
        """Too much waits for all clients together: what waits here is lost, and the client is told how much."""
        self.lose(len(self._messages))
        self._messages, self._size = [], 0

    def lose(self, count: int = 1) -> None:
        self._lost += count
        self._losses.events += count

    def take(self) -> tuple[list[bytes], int]:
        """All that waits, and how many events were lost after it. Nothing waits afterwards."""
        messages, lost = self._messages, self._lost
        self._messages, self._size, self._lost = [], 0, 0
        if messages:
            self._losses.ledger.release(self)
        if lost:
            log.warning("live events were lost", reader=self._reader, events=lost, of_all=self._losses.events)
        return messages, lost
