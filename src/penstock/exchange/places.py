"""Where peers are told to connect: the ports of this process, and those of nodes that have offered theirs.

Any node takes any token, so a place is advice; it spreads sessions. Who offers what is in `outposts`.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from penstock.exchange.session import HubSession
from penstock.wire.tlex.vocabulary import SecurityMode


class TlexPlace(NamedTuple):
    # Empty: the one that the client has asked at.
    host: str
    port: int
    # None: there is no TLS.
    tls_port: int | None = None

    def port_for(self, security: SecurityMode) -> int | None:
        return self.tls_port if security is SecurityMode.TLS else self.port


class Places:
    """A `Watcher`: it counts the sessions of each place. Several nodes may offer the same one."""

    def __init__(self) -> None:
        self._offers: dict[str, TlexPlace] = {}
        self._sessions: Counter[TlexPlace] = Counter()

    @property
    def are_none(self) -> bool:
        return not self._offers

    def offer(self, name: str, place: TlexPlace) -> TlexPlace | None:
        """Returns what was offered under this name before."""
        before = self._offers.get(name)
        self._offers[name] = place
        return before

    def withdraw(self, name: str) -> TlexPlace | None:
        """Returns what was offered."""
        return self._offers.pop(name, None)

    def is_offered(self, place: TlexPlace) -> bool:
        return place in self._offers.values()

    def choose(self, security: SecurityMode) -> TlexPlace | None:
        """The one with the fewest sessions; of several the one that was offered first. None: nobody has such a port."""
        found = [each for each in dict.fromkeys(self._offers.values()) if each.port_for(security) is not None]
        return min(found, key=self._sessions.__getitem__, default=None)

    def opened(self, session: HubSession) -> None:
        if session.place is not None:
            self._sessions[session.place] += 1

    def connected(self, session: HubSession) -> None: ...
    def changed(self, session: HubSession) -> None: ...

    def ended(self, session: HubSession) -> None:
        if session.place is not None:
            self._sessions[session.place] -= 1
            if not self._sessions[session.place]:
                del self._sessions[session.place]
