"""The TLEX door of a node whose hub is another process: ports, the clock, and an `Outpost` behind them.

REST, database and journal are at the hub; this has connections. Words go to the hub as bytes, once in a turn, by
whoever has a way to it (`penstock.services.cluster.tlex`). The other end is `nodes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from penstock.config import TlexSection
from penstock.doors.errors import DoorError
from penstock.doors.tlex.listener import instant
from penstock.doors.tlex.messages import TlexMessages
from penstock.doors.tlex.ports import TlexPorts
from penstock.doors.tlex.settings import settings_of
from penstock.exchange.hub import TICK_SECONDS
from penstock.exchange.outpost import Outpost
from penstock.kernel.ledger import Ledger
from penstock.log import get
from penstock.transport.listener import ListenError
from penstock.wire.fabric.tlex import decode_hub_words, encode_words
from penstock.wire.tlex.forms import PayloadForms

log = get(__name__)

# Seconds without a word from the hub after which sessions end. Less than a hub waits for a word of a node before it
# gives the controllers of that node's sessions to others, which is four seconds at the least.
HUB_SILENCE = 3.5

# Bytes that the hub has not confirmed: beyond it all sessions end, because it does not keep up.
MAX_UNCONFIRMED = 16 << 20

# Seconds that the last connections have to read Bye when the node shuts down.
LAST_BYES = 1.0

# Takes what the hub is to be told, and what to call when it has confirmed that, or never will.
TellHub = Callable[[bytes, Callable[[], None]], None]


class TlexAnnex:
    """Opened by `open`, closed by `stop`. `silence` is how many seconds ago the hub has said anything."""

    def __init__(
        self,
        tlex: TlexSection,
        tell: TellHub,
        silence: Callable[[], float],
        max_strangers: int,
        ledger: Ledger,
        shared: bool,
    ) -> None:
        """`shared`: other workers of this server listen on the same ports."""
        self._loop = asyncio.get_running_loop()
        self._tlex = tlex
        self._tell = tell
        self._silence = silence
        self._shared = shared
        self.outpost = Outpost(settings_of(tlex), PayloadForms(), TlexMessages(), self._wake, ledger)
        self.ports = TlexPorts(self.outpost, tlex, max_strangers)
        self._unconfirmed = 0
        self._ticks: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Raises DoorError."""
        try:
            place = await self.ports.listen(self._shared)
        except ListenError as error:
            self.ports.listeners.close()
            raise DoorError(str(error)) from error
        self.outpost.offer(place)
        self._tick()

    # -- the hub --------------------------------------------------------------------------------------------------

    def welcomed(self, is_new: bool) -> None:
        """A hub has said Welcome: another one than before, or the same again."""
        if is_new:
            if self.outpost.sessions:
                log.warning("the hub was replaced; ending TLEX sessions", sessions=self.outpost.sessions)
            self.outpost.renew(instant())
        else:
            self.outpost.welcome()

    def hear(self, body: bytes) -> None:
        """Raises a FabricError."""
        self.outpost.hear(decode_hub_words(body), instant())

    # -- time -----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._loop.call_soon(self._run_turn)

    def _run_turn(self) -> None:
        self.outpost.turn.run(instant())
        words = self.outpost.take()
        if not words:
            return
        payload = encode_words(words)
        self._unconfirmed += len(payload)
        self._tell(payload, partial(self._confirmed, len(payload)))
        if self._unconfirmed > MAX_UNCONFIRMED:
            self.cut_off("the hub does not keep up")

    def _confirmed(self, size: int) -> None:
        self._unconfirmed -= size

    def _tick(self) -> None:
        self._ticks = self._loop.call_later(TICK_SECONDS, self._tick)
        if self._silence() > HUB_SILENCE:
            self.cut_off("no message from the hub")
        self.outpost.tick(instant())

    def cut_off(self, why: str) -> None:
        """End all sessions, because what they promise cannot be kept."""
        if self.outpost.sessions:
            log.warning("ending TLEX sessions", reason=why, sessions=self.outpost.sessions)
            self.outpost.cut_off(instant())

    # -- shutdown -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Ask all peers to reconnect, wait for a while, and disconnect the rest."""
        listeners = self.ports.listeners
        listeners.close()
        self.outpost.go_down(instant())
        await listeners.wait(self._tlex.reconnect_millis / 1000)
        self.outpost.shut(instant())
        await listeners.wait(LAST_BYES)
        listeners.abort()
        if self._ticks is not None:
            self._ticks.cancel()
        self._run_turn()
