"""What a connection counts and remembers, for those who look: messages by address, and its last troubles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

# Entries of a connection's log.
MAX_ENTRIES = 100


def instant(micros: int) -> str:
    then = datetime.fromtimestamp(micros / 1_000_000, UTC)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class AddressTally:
    """Messages of one address, since the server started or the counters were reset."""

    __slots__ = ("dropped", "failed", "last", "repeated", "succeeded")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        # Known from before a crash, and skipped.
        self.repeated = 0
        # Lost, because the broker could not be reached for too long.
        self.dropped = 0
        self.last: int | None = None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"success": self.succeeded, "failure": self.failed}
        if self.repeated:
            found["repeated"] = self.repeated
        if self.dropped:
            found["dropped"] = self.dropped
        if self.last is not None:
            found["lastMessageAt"] = instant(self.last)
        return found


class ConnectionTally:
    """`now` returns microseconds since 1970."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.inbound: dict[str, AddressTally] = {}
        self.outbound: dict[str, AddressTally] = {}
        self._entries: deque[dict[str, Any]] = deque(maxlen=MAX_ENTRIES)

    def reset(self) -> None:
        self.inbound.clear()
        self.outbound.clear()

    def reset_log(self) -> None:
        self._entries.clear()

    def came(self, address: str, success: bool, count: int = 1) -> None:
        self._count(self.inbound, address, success, count)

    def went(self, address: str, success: bool, count: int = 1) -> None:
        self._count(self.outbound, address, success, count)

    def _count(self, where: dict[str, AddressTally], address: str, success: bool, count: int) -> None:
        one = where.setdefault(address, AddressTally())
        one.last = self._now()
        if success:
            one.succeeded += count
        else:
            one.failed += count

    def note(self, level: str, kind: str, message: str, address: str = "", correlation: str | None = None) -> None:
        entry = {"timestamp": instant(self._now()), "level": level, "category": kind, "message": message}
        if address:
            entry["address"] = address
        if correlation is not None:
            entry["correlationId"] = correlation
        self._entries.append(entry)

    def log(self) -> list[dict[str, Any]]:
        return list(self._entries)

    def total(self, side: str, member: str) -> int:
        found: dict[str, AddressTally] = getattr(self, side)
        return sum(getattr(each, member) for each in found.values())

    def metrics(self) -> dict[str, Any]:
        return {
            "inbound": {address: each.as_json() for address, each in sorted(self.inbound.items())},
            "outbound": {address: each.as_json() for address, each in sorted(self.outbound.items())},
        }
