"""Registered controllers, by domain: which sessions have claimed each, and which of those are connected.

A claim is made by requesting a session, and is valid before its peer connects; payloads go to connected sessions.
Whether a claim is allowed is decided in `claims`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.exchange.counters import Traffic
from penstock.wire.tlex.vocabulary import SessionType, Tlc, TlcType

if TYPE_CHECKING:
    from penstock.exchange.clockwatch import ClockReading
    from penstock.exchange.ports import PayloadReceiver
    from penstock.exchange.session import ClaimKey, HubSession


class Controller:
    """One controller. Hot: payloads are routed by the three tuples, which are replaced as a whole."""

    __slots__ = ("brokers", "claims", "down", "key", "live", "monitors", "owners", "tlc", "up")

    def __init__(self, tlc: Tlc) -> None:
        self.tlc = tlc
        # The identifier as it is in frames.
        self.key = tlc.identifier.encode()
        # One session for each key: a controller's own sessions all have the same.
        self.claims: dict[ClaimKey, HubSession] = {}
        self.live: dict[ClaimKey, HubSession] = {}
        # The controller's own session, if it takes payloads: none or one.
        self.owners: tuple[PayloadReceiver, ...] = ()
        self.brokers: tuple[PayloadReceiver, ...] = ()
        self.monitors: tuple[PayloadReceiver, ...] = ()
        # From the controller, and from brokers for it.
        self.up = Traffic()
        self.down = Traffic()

    @property
    def owner(self) -> HubSession | None:
        """The controller's own session, if it is connected."""
        return next((each for each in self.live.values() if each.type is SessionType.TLC), None)

    @property
    def clock(self) -> ClockReading | None:
        """Latency and clock difference of the controller's own session, if it is connected."""
        owner = self.owner
        return None if owner is None or owner.conversation is None else owner.conversation.clock

    @property
    def last_seen(self) -> int:
        """When anything last came from the controller, in milliseconds since 1970; 0: never."""
        owner = self.owner
        return self.up.last_seen if owner is None or owner.conversation is None else owner.conversation.last_seen

    def join(self, session: HubSession) -> HubSession | None:
        """Add a connected session; returns the one that it replaces."""
        before = self.live.get(session.claim_key)
        self.live[session.claim_key] = session
        self._rewire()
        return before if before is not session else None

    def leave(self, session: HubSession) -> None:
        if self.live.get(session.claim_key) is session:
            del self.live[session.claim_key]
            self._rewire()

    def release(self, session: HubSession) -> None:
        if self.claims.get(session.claim_key) is session:
            del self.claims[session.claim_key]

    def measure(self, now: float) -> None:
        self.up.measure(now)
        self.down.measure(now)

    def _rewire(self) -> None:
        # V-Log has nothing that could be sent to a controller.
        self.owners = () if self.tlc.type is TlcType.VLOG else self._receivers(SessionType.TLC)
        self.brokers = self._receivers(SessionType.BROKER)
        self.monitors = self._receivers(SessionType.MONITOR)

    def _receivers(self, type: SessionType) -> tuple[PayloadReceiver, ...]:
        return tuple([each.receiver for each in self.live.values() if each.type is type and each.receiver is not None])


class ControllerRegistry:
    """All of them."""

    def __init__(self) -> None:
        self._domains: dict[str, dict[str, Controller]] = {}
        self._by_uuid: dict[str, Controller] = {}

    @property
    def count(self) -> int:
        return len(self._by_uuid)

    def __iter__(self) -> Iterator[Controller]:
        return iter(self._by_uuid.values())

    def add(self, tlc: Tlc) -> Controller:
        """Add one; the identifier must be free in its domain."""
        domain = self._domains.setdefault(tlc.domain, {})
        if tlc.identifier in domain:
            raise ValueError(f"{tlc.identifier!r} is already registered in domain {tlc.domain!r}")
        controller = Controller(tlc)
        domain[tlc.identifier] = controller
        self._by_uuid[tlc.uuid] = controller
        return controller

    def remove(self, uuid: str) -> Controller | None:
        controller = self._by_uuid.pop(uuid, None)
        if controller is not None:
            domain = self._domains[controller.tlc.domain]
            del domain[controller.tlc.identifier]
            if not domain:
                del self._domains[controller.tlc.domain]
        return controller

    def by_uuid(self, uuid: str) -> Controller | None:
        return self._by_uuid.get(uuid)

    def find(self, domain: str, identifier: str) -> Controller | None:
        found = self._domains.get(domain)
        return None if found is None else found.get(identifier)
