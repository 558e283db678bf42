"""Where the hub writes what happens, and the adapters read it: active sessions, last payloads, figures.

It belongs to the event loop and never raises into the hub. How items look is in `adapter`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from penstock.adapters.api import DataAdapter
from penstock.adapters.tlex.adapter import TlexAdapter
from penstock.exchange.ports import PayloadBatch
from penstock.exchange.registry import Controller, ControllerRegistry
from penstock.exchange.session import HubSession
from penstock.log import get

log = get(__name__)

# Of a controller's last payloads: how many are kept for those who come later, and of how many bytes.
KEPT = 20
KEPT_BYTES = 65_536


class KeptFrame(NamedTuple):
    """A frame with the session that published it, and when it came: milliseconds since 1970."""

    frame: bytes
    publisher: HubSession
    received: int


class Board:
    """The hub's `Display`. `is_on` says whether there is a hub at all."""

    def __init__(self, is_on: bool) -> None:
        self.is_on = is_on
        # By their public ids.
        self.sessions: dict[str, HubSession] = {}
        self._registry: ControllerRegistry | None = None
        self._adapters: list[TlexAdapter] = []
        self._last: dict[tuple[str, str], deque[KeptFrame]] = {}

    def introduce(self, adapter: DataAdapter) -> None:
        """A TLEX adapter gets to know the board."""
        if isinstance(adapter, TlexAdapter):
            adapter.board = self

    def add(self, adapter: TlexAdapter) -> None:
        self._adapters.append(adapter)

    def remove(self, adapter: TlexAdapter) -> None:
        if adapter in self._adapters:
            self._adapters.remove(adapter)

    # -- what adapters ask for ------------------------------------------------------------------------------------

    def controller(self, domain: str, identifier: str) -> Controller | None:
        return None if self._registry is None else self._registry.find(domain, identifier)

    def last(self, domain: str, identifier: str) -> Sequence[KeptFrame]:
        """Payloads of a controller and for it, the oldest first."""
        return tuple(self._last.get((domain, identifier), ()))

    # -- what the hub tells ---------------------------------------------------------------------------------------

    def opened(self, session: HubSession) -> None:
        self.sessions[session.id] = session
        self._tell(lambda adapter: adapter.session_opened(session))

    def connected(self, session: HubSession) -> None:
        self._tell(lambda adapter: adapter.session_changed(session))

    def changed(self, session: HubSession) -> None:
        self._tell(lambda adapter: adapter.session_changed(session))

    def ended(self, session: HubSession) -> None:
        self.sessions.pop(session.id, None)
        self._tell(lambda adapter: adapter.session_ended(session))

    def record(self, batches: Sequence[PayloadBatch]) -> None:
        if not self._adapters:
            return
        for batch in batches:
            publisher, received = batch.publisher, batch.received
            place = publisher.domain, batch.identifier
            kept = self._last.get(place)
            if kept is None:
                kept = self._last[place] = deque(maxlen=KEPT)
            kept.extend([KeptFrame(frame, publisher, received) for frame in batch.frames[-KEPT:]])
            while len(kept) > 1 and sum([len(each.frame) for each in kept]) > KEPT_BYTES:
                kept.popleft()
            for adapter in self._adapters:
                if adapter.wants_payloads(place):
                    self._tell(partial(_publish, batch=batch))
                    break

    def refresh(self, registry: ControllerRegistry) -> None:
        self._registry = registry
        for place in [each for each in self._last if registry.find(*each) is None]:
            del self._last[place]
        self._tell(lambda adapter: adapter.refresh())

    def _tell(self, what: Callable[[TlexAdapter], None]) -> None:
        for adapter in self._adapters:
            try:
                what(adapter)
            except Exception:
                log.exception("the data adapter of the TLEX hub has failed")


def _publish(adapter: TlexAdapter, batch: PayloadBatch) -> None:
    adapter.payloads_came(batch)
