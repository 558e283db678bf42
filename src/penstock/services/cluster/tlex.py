"""The TLEX ports of an edge as a service, if they are enabled: connections are here, everything else is at the hub.

What it does is in `penstock.doors.tlex.annex`, which takes its time to load: imported only where it is wanted. The
hub's part is in `penstock.services.tlex`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from penstock.cluster.calling import Answered
from penstock.cluster.edge_calls import FOR_EVER
from penstock.cluster.refusals import CallUnanswered
from penstock.config import Config
from penstock.config.address import address_of
from penstock.kernel.ledger import Ledger
from penstock.log import get
from penstock.monitor.figures import Family, counter
from penstock.services.cluster.link import HubLinkService
from penstock.services.service import Service, Shown
from penstock.wire.fabric.calls import encode_body
from penstock.wire.fabric.messages import CallRefused
from penstock.wire.fabric.tlex import TLEX

if TYPE_CHECKING:
    from penstock.doors.tlex.annex import TlexAnnex

log = get(__name__)


class TlexAnnexService(Service):
    """Opened when there is a hub."""

    name = "tlex"
    renewed = frozenset({"tlex.certificate", "tlex.private_key"})

    def __init__(
        self, config: Config, link: HubLinkService, max_strangers: int, ledger: Ledger, *, is_shared: bool
    ) -> None:
        """`is_shared`: the other workers of this server have the same ports."""
        self._config = config
        self._link = link
        self._max_strangers = max_strangers
        self._ledger = ledger
        self._is_shared = is_shared
        # There once it is open, if it is enabled.
        self.annex: TlexAnnex | None = None

    async def open(self) -> None:
        if not self._config.tlex.enabled:
            return
        from penstock.doors.tlex.annex import TlexAnnex

        annex = TlexAnnex(
            self._config.tlex, self._tell, self._silence, self._max_strangers, self._ledger, self._is_shared
        )
        self.annex = annex
        self._link.calls.methods[TLEX] = self._hear
        self._link.when_welcomed = annex.welcomed
        await annex.open()

    async def drain(self) -> None:
        if self.annex is not None:
            await self.annex.stop()

    # -- the hub --------------------------------------------------------------------------------------------------

    def _tell(self, words: bytes, confirmed: Callable[[], None]) -> None:
        done = partial(self._told, confirmed)
        self._link.calls.start(TLEX, Raw(words), done, TLEX, repeatable=False, patience=FOR_EVER)

    def _told(self, confirmed: Callable[[], None], answered: Answered) -> None:
        confirmed()
        if isinstance(answered, CallRefused):
            log.warning("the hub refuses TLEX connections", reason=answered.text)
        elif isinstance(answered, CallUnanswered) and self.annex is not None:
            # Most of the time another hub is there.
            self.annex.cut_off("messages to the hub may be lost")

    async def _hear(self, body: Raw) -> bytes:
        """Never waits, because what the hub says is done in order."""
        assert self.annex is not None
        self.annex.hear(bytes(body))
        return encode_body(None)

    def _silence(self) -> float:
        return time.monotonic() - self._link.heard

    # -- its part in the server -----------------------------------------------------------------------------------

    def figures(self) -> Iterable[Family]:
        if self.annex is None:
            return ()
        annex = self.annex
        return (
            counter(
                "penstock_tlex_turned_away",
                "Connections refused because of a missing or wrong token.",
                annex.outpost.turned_away,
            ),
            *annex.ports.listeners.figures(),
        )

    def addresses(self) -> list[str]:
        if self.annex is None:
            return []
        return [f"tlex={address_of(self._config.tlex.host, self.annex.ports.port)}"]

    def certificates(self, config: Config) -> list[Shown]:
        if self.annex is None or self.annex.ports.certificate is None or not config.tlex.certificate:
            return []
        from penstock.doors.tlex.ports import certificate_files  # loaded by the annex already

        return [Shown("tlex", self.annex.ports.certificate, certificate_files(config.tlex))]
