"""The items: `payloads/DOMAIN/ID` (DISTINCT), `controller/DOMAIN/ID` (MERGE), `sessions[/DOMAIN]` (COMMAND).

Session tokens are never in them; a session is known by its public id. The metadata adapter decides who may see what.
The data comes from `board`. Fields: docs/tlex.md.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING

from penstock.adapters.api import DataAdapter
from penstock.kernel.ports import Event
from penstock.wire.tlex.payloads import BODY_AT, BODY_HEAD_SIZE, IDENTIFIED_BODY_AT

if TYPE_CHECKING:
    from penstock.adapters.tlex.board import Board
    from penstock.exchange.ports import PayloadBatch
    from penstock.exchange.registry import Controller
    from penstock.exchange.session import HubSession

PAYLOADS = "payloads"
CONTROLLER = "controller"
SESSIONS = "sessions"

# Fields of a controller.
FIGURES = (
    "connected",
    "rate",
    "throughput",
    "payloads",
    "down_rate",
    "down_payloads",
    "latency",
    "clock_difference",
    "last_seen",
    "brokers",
    "monitors",
)

# Domain and identifier.
ControllerKey = tuple[str, str]


class TlexAdapter(DataAdapter):
    """Made by the configuration, introduced to the board by the server."""

    quick = True

    def __init__(self) -> None:
        self.board: Board | None = None
        # Items that somebody wants.
        self._payloads: dict[ControllerKey, str] = {}
        # With what was published last.
        self._controllers: dict[ControllerKey, tuple[str, Event]] = {}
        # By domain, None for all; with what was published last, by session.
        self._sessions: dict[str | None, tuple[str, dict[str, Event]]] = {}

    def start(self) -> None:
        self._hub().add(self)

    def check_start(self) -> None:
        self._hub()

    def _hub(self) -> Board:
        if self.board is None or not self.board.is_on:
            raise RuntimeError("there is no TLEX hub to show: tlex.enabled is false")
        return self.board

    def stop(self) -> None:
        if self.board is not None:
            self.board.remove(self)

    def subscribe(self, item: str) -> None:
        assert self.board is not None
        kind, _, rest = item.partition("/")
        domain, _, identifier = rest.rpartition("/")
        if kind == PAYLOADS and domain:
            self._payloads[domain, identifier] = item
            for each in self.board.last(domain, identifier):
                self.update(item, _payload(each.publisher, each.frame, each.received), snapshot=True)
        elif kind == CONTROLLER and domain:
            figures = _figures(self.board.controller(domain, identifier))
            self._controllers[domain, identifier] = item, figures
            self.update(item, figures, snapshot=True)
            return
        elif kind == SESSIONS:
            self._begin_sessions(item, rest or None)
        # Also for an unknown item: nobody must wait for its snapshot.
        self.end_of_snapshot(item)

    def unsubscribe(self, item: str) -> None:
        self._payloads = {place: each for place, each in self._payloads.items() if each != item}
        self._controllers = {place: each for place, each in self._controllers.items() if each[0] != item}
        self._sessions = {domain: each for domain, each in self._sessions.items() if each[0] != item}

    # -- payloads -------------------------------------------------------------------------------------------------

    def wants_payloads(self, place: ControllerKey) -> bool:
        return place in self._payloads

    def payloads_came(self, batch: PayloadBatch) -> None:
        item = self._payloads.get((batch.publisher.domain, batch.identifier))
        if item is not None:
            self.updates([(item, _payload(batch.publisher, frame, batch.received)) for frame in batch.frames])

    # -- controllers ----------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Figures may have changed."""
        assert self.board is not None
        for place, (item, before) in self._controllers.items():
            figures = _figures(self.board.controller(*place))
            self._controllers[place] = item, figures
            changed = {name: value for name, value in figures.items() if before.get(name) != value}
            if changed:
                self.update(item, changed)
        for domain in self._sessions:
            for session in self.board.sessions.values():
                if domain in (None, session.domain):
                    self._update_session(domain, session)

    # -- sessions -------------------------------------------------------------------------------------------------

    def _begin_sessions(self, item: str, domain: str | None) -> None:
        assert self.board is not None
        shown: dict[str, Event] = {}
        self._sessions[domain] = item, shown
        for session in self.board.sessions.values():
            if domain in (None, session.domain):
                shown[session.id] = _session(session)
                self.update(item, {"key": session.id, "command": "ADD", **shown[session.id]}, snapshot=True)

    def session_opened(self, session: HubSession) -> None:
        for domain in (None, session.domain):
            if domain in self._sessions:
                item, shown = self._sessions[domain]
                shown[session.id] = _session(session)
                self.update(item, {"key": session.id, "command": "ADD", **shown[session.id]})

    def session_changed(self, session: HubSession) -> None:
        for domain in (None, session.domain):
            if domain in self._sessions:
                self._update_session(domain, session)

    def session_ended(self, session: HubSession) -> None:
        for domain in (None, session.domain):
            if domain in self._sessions:
                item, shown = self._sessions[domain]
                if shown.pop(session.id, None) is not None:
                    self.update(item, {"key": session.id, "command": "DELETE"})

    def _update_session(self, domain: str | None, session: HubSession) -> None:
        item, shown = self._sessions[domain]
        before, after = shown.get(session.id), _session(session)
        if before is not None and before != after:
            shown[session.id] = after
            changed = {name: value for name, value in after.items() if before[name] != value}
            self.update(item, {"key": session.id, "command": "UPDATE", **changed})


def _payload(publisher: HubSession, frame: bytes, received: int) -> Event:
    at = BODY_AT if publisher.is_singleplex else IDENTIFIED_BODY_AT
    data = frame[at + BODY_HEAD_SIZE :]
    return {
        "received": str(received),
        "origin": str(int.from_bytes(frame[at + 1 : at + BODY_HEAD_SIZE], "big")),
        "type": f"{frame[at]:02x}",
        "size": str(len(data)),
        "from": publisher.type.value,
        "session": publisher.id,
        "payload": b2a_base64(data, newline=False).decode(),
    }


def _figures(controller: Controller | None) -> Event:
    """Nothing is known of a controller that is not registered."""
    if controller is None:
        return dict.fromkeys(FIGURES)
    clock = controller.clock
    return {
        "connected": "0" if clock is None else "1",
        "rate": f"{controller.up.rate:.1f}",
        "throughput": f"{controller.up.throughput:.0f}",
        "payloads": str(controller.up.payloads),
        "down_rate": f"{controller.down.rate:.1f}",
        "down_payloads": str(controller.down.payloads),
        "latency": None if clock is None or clock.latency is None else f"{clock.latency:.0f}",
        "clock_difference": None if clock is None or clock.difference is None else f"{clock.difference:.0f}",
        "last_seen": str(controller.last_seen) if controller.last_seen else None,
        "brokers": str(len(controller.brokers)),
        "monitors": str(len(controller.monitors)),
    }


def _session(session: HubSession) -> Event:
    counters = session.counters
    return {
        "type": session.type.value,
        "protocol": session.protocol.value,
        "security": session.security.value,
        "domain": session.domain,
        "account": session.account,
        "identifiers": " ".join(session.identifiers),
        "state": str(session.state.value),
        "created": str(session.created),
        "connected": None if session.connected is None else str(session.connected),
        "received": str(counters.received),
        "received_bytes": str(counters.received_bytes),
        "sent": str(counters.sent),
        "dropped": str(counters.dropped),
        "oversized": str(counters.oversized),
        "out_of_scope": str(counters.out_of_scope),
        "reserved": str(counters.reserved),
        "unrouted": str(counters.unrouted),
    }
