"""The door: the hub with its ports, its clock, its database and its journal, from start to shutdown.

No rules here: those are in `exchange`. `penstock.server` makes one, mounts `rest` and starts and stops it.
"""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING
from uuid import uuid4

from starlette.types import ASGIApp

from penstock.config import Config
from penstock.doors.errors import DoorError
from penstock.doors.tlex.listener import Listeners, instant
from penstock.doors.tlex.messages import TlexMessages
from penstock.doors.tlex.nodes import TellNode, TlexNodes
from penstock.doors.tlex.ports import TlexPorts, announced_host
from penstock.doors.tlex.rest import Rest
from penstock.doors.tlex.session_log import SessionLogWriter
from penstock.doors.tlex.settings import settings_of
from penstock.exchange.hub import MEASURE_SECONDS, TICK_SECONDS, Hub
from penstock.exchange.places import Places, TlexPlace
from penstock.exchange.ports import Display, PayloadRecorder, Watcher
from penstock.exchange.session import HubSession, SessionState
from penstock.kernel.ledger import Ledger
from penstock.log import get
from penstock.store.errors import CannotOpen
from penstock.store.opening import UNANSWERED, open_store, reason
from penstock.store.store import TOKEN_BYTES, StoreFence, StoreVersion
from penstock.store.thread import StoreThread
from penstock.transport.listener import ListenError
from penstock.wire.tlex.forms import PayloadForms

if TYPE_CHECKING:
    from penstock.doors.tlex.payload_recorder import JournalPayloadRecorder
    from penstock.journal.gatherer import Gatherer

log = get(__name__)

# Seconds for which payloads gather before they go to the journal.
GATHERING = 0.005

# Seconds between two deletions of old session log entries.
FORGET_PAUSE = 3_600.0

# Seconds that the last connections have to read Bye when the server shuts down.
LAST_BYES = 1.0

# The place that is this process's own, among those of nodes.
OWN = ""


class _Chance:
    def token(self) -> str:
        return token_urlsafe(TOKEN_BYTES)

    def uuid(self) -> str:
        return str(uuid4())


class TlexDoor:
    """Opened by `open`, closed by `stop`."""

    def __init__(
        self,
        config: Config,
        store: StoreThread,
        display: Display | None = None,
        gatherer: Gatherer | None = None,
        max_strangers: int | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        tlex = config.tlex
        self._loop = asyncio.get_running_loop()
        self._tlex = tlex
        self._display = display
        self._payload_recorder = self._recorder_with(gatherer)
        self.store = store
        self.session_log = SessionLogWriter(store, tlex.session_log_days)
        # Where clients are told to connect.
        self.places = Places()
        watchers: list[Watcher] = [self.session_log, self.places]
        if display is not None:
            watchers.append(display)
        recorders: list[PayloadRecorder] = [each for each in (self._payload_recorder, display) if each is not None]
        settings = settings_of(tlex)
        self.hub = Hub(settings, _Chance(), PayloadForms(), TlexMessages(), self._wake, watchers, recorders, ledger)
        self.ports = TlexPorts(self.hub, tlex, max_strangers)
        # Other processes that peers are connected to; None if there are none.
        self.nodes: TlexNodes | None = None
        self.rest: ASGIApp = Rest(self).application
        self._tasks: list[asyncio.Task[None]] = []
        self._ticks: asyncio.TimerHandle | None = None
        self._refreshed_at = 0.0
        self._trouble = False
        # At the last look that has read controllers and tokens: the version of the database, and how many sessions
        # there had been.
        self._read: tuple[StoreVersion | None, int] | None = None

    @property
    def listeners(self) -> Listeners:
        return self.ports.listeners

    @property
    def is_database_away(self) -> bool:
        """Whether the database does not answer at present; sessions go on without it, new ones are refused."""
        return self._trouble

    @classmethod
    async def open(
        cls,
        config: Config,
        data_dir: Path | None,
        display: Display | None = None,
        gatherer: Gatherer | None = None,
        max_strangers: int | None = None,
        ledger: Ledger | None = None,
        fence: StoreFence | None = None,
        listens: bool = True,
        tell: TellNode | None = None,
    ) -> TlexDoor:
        """Open the database and the ports; raises DoorError. `max_strangers` overrides the configuration.

        With `tell` peers may be connected to nodes, which are told by it; without `listens` to no others.
        """
        try:
            store = StoreThread(await asyncio.to_thread(open_store, config.tlex.store, data_dir, fence))
        except CannotOpen as error:
            raise DoorError(f"tlex.store: {error}") from error
        door = cls(config, store, display, gatherer, max_strangers, ledger)
        try:
            await door.synchronize()
            if listens:
                door.places.offer(OWN, await door.ports.listen())
        except (ListenError, *UNANSWERED) as error:
            await door._abandon()
            raise DoorError(reason(error)) from error
        except BaseException:
            await door._abandon()
            raise
        if tell is not None:
            door.nodes = TlexNodes(door.hub, door.places, tell)
        door._begin()
        return door

    def _recorder_with(self, gatherer: Gatherer | None) -> JournalPayloadRecorder | None:
        if gatherer is None or not self._tlex.journal:
            return None
        from penstock.doors.tlex.payload_recorder import (
            JournalPayloadRecorder,  # loaded with the journal, on its thread
        )

        later = functools.partial(self._loop.call_later, GATHERING)
        return JournalPayloadRecorder(gatherer, self._tlex.journal_policy, later)

    def _begin(self) -> None:
        self._tick()
        self._tasks = [self._loop.create_task(self._poll()), self._loop.create_task(self._forget())]

    # -- where clients are sent -----------------------------------------------------------------------------------

    def address_of(self, session: HubSession, asked: str | None) -> tuple[str, int]:
        """Where its client is told to connect to, given the host it has asked at."""
        place = session.place or TlexPlace(announced_host(self._tlex), self.ports.port, self.ports.tls_port)
        return place.host or asked or self._tlex.host, place.port_for(session.security) or 0

    # -- time -----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._loop.call_soon(self._run_turn)

    def _run_turn(self) -> None:
        self.hub.turn.run(instant())

    def _tick(self) -> None:
        self._ticks = self._loop.call_later(TICK_SECONDS, self._tick)
        now = instant()
        self.hub.tick(now)
        if self._display is not None and now.elapsed >= self._refreshed_at + MEASURE_SECONDS:
            self._refreshed_at = now.elapsed
            self._display.refresh(self.hub.registry)

    async def _poll(self) -> None:
        """The database is changed by others as well: by commands, and by other servers."""
        while True:
            await asyncio.sleep(self._tlex.poll_millis / 1000)
            try:
                await self.look()
            except UNANSWERED as error:
                if not self._trouble:
                    log.error("the database does not answer; sessions go on", reason=reason(error))
                self._trouble = True
            else:
                if self._trouble:
                    log.info("the database answers again")
                self._trouble = False

    async def look(self) -> None:
        """Read controllers and good tokens from the database if it may have changed; write sessions that have ended."""
        version = await self.store.call(self.store.store.version)
        # A session that has come since then may have been asked for with a token that was revoked meanwhile.
        read = version, self.hub.created
        if version is None or read != self._read:
            self._read = None
            await self.synchronize()
            known = self.hub.credentials()
            if known:
                current = await self.store.call(self.store.store.good_tokens, known)
                self.hub.recheck(known, current, instant())
            self._read = read
        await self.session_log.write()

    async def synchronize(self) -> None:
        """Nothing may come between answer and use: the store answers in the order of the requests."""
        tlcs = await self.store.call(self.store.store.tlcs)
        self.hub.synchronize(tlcs, instant())

    async def _forget(self) -> None:
        while True:
            try:
                await self.session_log.forget()
            except UNANSWERED as error:
                log.error("old session log entries cannot be deleted", reason=reason(error))
            await asyncio.sleep(FORGET_PAUSE)

    # -- what an administrator does -------------------------------------------------------------------------------

    def find_session(self, id: str) -> HubSession | None:
        """By the identifier that logs show."""
        return self.hub.find(id, instant())

    def end_session(self, session: HubSession) -> None:
        self.hub.end(session, instant())

    def ask_to_reconnect(self, session: HubSession) -> bool:
        """Ask the peer to come again with a new session; False if it is not there, or has been asked already."""
        if session.state is not SessionState.LIVE:
            return False
        self.hub.reconnect(session, instant())
        return True

    # -- shutdown -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Ask all peers to reconnect, wait for a while, and disconnect the rest."""
        self.listeners.close()
        self.hub.go_down(instant())
        await self._wait_for_peers(self._tlex.reconnect_millis / 1000)
        self.hub.shut(instant())
        await self.listeners.wait(LAST_BYES)
        if self.nodes is not None:
            self.nodes.flush()
            self.nodes = None
        self.listeners.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        if self._payload_recorder is not None:
            self._payload_recorder.flush()
        try:
            await self.session_log.write()
        except UNANSWERED as error:
            log.error("the last session log entries are lost", reason=reason(error))
        await self._abandon()

    async def _wait_for_peers(self, seconds: float) -> None:
        """Until all are gone, here and at nodes, but not longer than this."""
        if self.nodes is None:
            await self.listeners.wait(seconds)
        else:
            await asyncio.gather(self.listeners.wait(seconds), self.nodes.wait(seconds))

    async def _abandon(self) -> None:
        if self._ticks is not None:
            self._ticks.cancel()
        self.listeners.close()
        await self.store.close()
