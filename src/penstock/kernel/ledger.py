"""The ledger: how many bytes wait for all clients together, and who loses data when there are too many.

Each session has limits of its own (`limits`); many sessions at theirs would need more memory than a machine has. What
is counted: events and notifications that wait, lines that the last connection did not carry, lines kept for recovery,
and what transports hold for peers that do not read. Read next: docs/decisions.md, "Limits of what waits".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.kernel.recovery import RecoveryLog
    from penstock.kernel.session import Session

# Stands for no limit.
UNLIMITED = 1 << 62

# A full ledger is relieved down to this share, not byte by byte: finding those that hold most means a scan of all.
RELIEF = 7 / 8

# Lines kept for recovery may take this share of a full ledger: the rest is for what clients have not received yet.
LOG_SHARE = 1 / 2


class Reserve(Protocol):
    """Something outside the kernel that holds bytes for a client, such as a transport that cannot write."""

    def holds(self) -> int:
        """How many bytes it holds now."""

    def cut(self) -> None:
        """Release them; `Ledger.release` has been called."""


class Ledger:
    """The one per kernel. Bytes are added and taken away by those who hold them."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit or UNLIMITED
        # What waits for clients, and what is kept for their recovery; bytes that many share are counted once.
        self.waiting = 0
        self.logged = 0
        # What relief has done since the start: how often, sessions that lost events, logs emptied, reserves and
        # sessions cut.
        self.reliefs = 0
        self.shed_sessions = 0
        self.emptied_logs = 0
        self.cut_reserves = 0
        self.cut_sessions = 0
        self._reserves: dict[Reserve, int] = {}

    @property
    def total(self) -> int:
        return self.waiting + self.logged

    def is_full(self) -> bool:
        return self.waiting + self.logged > self.limit

    # -- transports -----------------------------------------------------------------------------------------------

    def hold(self, reserve: Reserve) -> None:
        """Count what it holds now, in place of what it held before."""
        size = reserve.holds()
        self.waiting += size - self._reserves.get(reserve, 0)
        self._reserves[reserve] = size

    def release(self, reserve: Reserve) -> None:
        """The reserve holds nothing any more."""
        self.waiting -= self._reserves.pop(reserve, 0)

    # -- relief ---------------------------------------------------------------------------------------------------

    def relieve(self, sessions: list[Session], logs: list[RecoveryLog]) -> None:
        """Make room: the sessions for which most waits lose data first, and no others once there is enough.

        Old recovery lines are dropped if they take more than their share; then sessions lose events, all but the latest
        of each item; then the connections that hold most are cut, and sessions closed.
        """
        self.reliefs += 1
        enough = int(self.limit * RELIEF)
        for reserve in list(self._reserves):
            self.hold(reserve)
        self._empty_logs(logs, int(enough * LOG_SHARE))
        self._shed(sessions, enough)
        self._cut(sessions, enough)

    def _empty_logs(self, logs: list[RecoveryLog], enough: int) -> None:
        if self.logged <= self.limit * LOG_SHARE:
            return
        for log in sorted(logs, key=_log_size, reverse=True):
            if self.logged <= enough:
                return
            log.clear()
            self.emptied_logs += 1

    def _shed(self, sessions: list[Session], enough: int) -> None:
        for session in sorted(sessions, key=_held, reverse=True):
            if self.total <= enough or not session.held:
                return
            if session.shed():
                self.shed_sessions += 1

    def _cut(self, sessions: list[Session], enough: int) -> None:
        reserves = sorted(self._reserves.items(), key=_reserved, reverse=True)
        closable = sorted([session for session in sessions if session.waiting()], key=_waiting, reverse=True)
        while self.total > enough and (reserves or closable):
            if reserves and (not closable or reserves[0][1] >= closable[0].waiting()):
                reserve, _ = reserves.pop(0)
                self.release(reserve)
                reserve.cut()
                self.cut_reserves += 1
            else:
                closable.pop(0).give_up()
                self.cut_sessions += 1


def _log_size(log: RecoveryLog) -> int:
    return log.size


def _held(session: Session) -> int:
    return session.held


def _waiting(session: Session) -> int:
    return session.waiting()


def _reserved(entry: tuple[Reserve, int]) -> int:
    return entry[1]
