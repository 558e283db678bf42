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

from penstock.certificates import Certificate, CertificateFiles
from penstock.config import Config, TlexLimitsSection, TlexSection
from penstock.config.checks import EVERY_INTERFACE
from penstock.doors.errors import DoorError
from penstock.doors.tlex.listener import Listeners, instant, tls_context
from penstock.doors.tlex.messages import TlexMessages
from penstock.doors.tlex.rest import Rest
from penstock.doors.tlex.session_log import SessionLogWriter
from penstock.exchange.hub import MEASURE_SECONDS, TICK_SECONDS, Hub
from penstock.exchange.ports import Display, PayloadRecorder
from penstock.exchange.session import HubSession, SessionState
from penstock.exchange.settings import HubLimits, HubSettings
from penstock.kernel.ledger import Ledger
from penstock.log import get
from penstock.store.errors import CannotOpen
from penstock.store.opening import UNANSWERED, open_store, reason
from penstock.store.store import TOKEN_BYTES, Fence
from penstock.store.thread import StoreThread
from penstock.transport.listener import ListenError
from penstock.wire.tlex.forms import PayloadForms
from penstock.wire.tlex.vocabulary import SecurityMode

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
        watchers = [self.session_log] if display is None else [self.session_log, display]
        recorders: list[PayloadRecorder] = [each for each in (self._payload_recorder, display) if each is not None]
        settings = settings_of(tlex)
        self.hub = Hub(settings, _Chance(), PayloadForms(), TlexMessages(), self._wake, watchers, recorders, ledger)
        strangers = tlex.max_strangers if max_strangers is None else max_strangers
        self.listeners = Listeners(self.hub, strangers, tlex.handshake_millis / 1000)
        self.port = 0
        # Both are None without a certificate.
        self.certificate: Certificate | None = None
        self.tls_port: int | None = None
        self.rest: ASGIApp = Rest(self).application
        self._tasks: list[asyncio.Task[None]] = []
        self._ticks: asyncio.TimerHandle | None = None
        self._refreshed_at = 0.0
        self._trouble = False

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
        fence: Fence | None = None,
    ) -> TlexDoor:
        """Open the database and the ports; raises DoorError. `max_strangers` overrides the configuration."""
        try:
            store = StoreThread(await asyncio.to_thread(open_store, config.tlex.store, data_dir, fence))
        except CannotOpen as error:
            raise DoorError(f"tlex.store: {error}") from error
        door = cls(config, store, display, gatherer, max_strangers, ledger)
        try:
            await door.synchronize()
            await door._listen()
        except (ListenError, *UNANSWERED) as error:
            await door._abandon()
            raise DoorError(reason(error)) from error
        except BaseException:
            await door._abandon()
            raise
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

    async def _listen(self) -> None:
        tlex = self._tlex
        self.port = await self.listeners.listen(tlex.host, tlex.port, None)
        if tlex.certificate:
            self.certificate = Certificate(certificate_files(tlex), tls_context)
            self.tls_port = await self.listeners.listen(tlex.host, tlex.tls_port, self.certificate.context)
        log.info("TLEX listens", host=tlex.host, port=self.port, tls_port=self.tls_port)

    def _begin(self) -> None:
        self._tick()
        self._tasks = [self._loop.create_task(self._poll()), self._loop.create_task(self._forget())]

    # -- where clients are sent -----------------------------------------------------------------------------------

    def host_for(self, asked: str | None) -> str:
        """The address that a client is told to connect to, given the host it has asked at."""
        if self._tlex.announced_host:
            return self._tlex.announced_host
        return asked if asked and self._tlex.host in EVERY_INTERFACE else self._tlex.host

    def port_for(self, security: SecurityMode) -> int:
        return self.tls_port or 0 if security is SecurityMode.TLS else self.port

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
        """Read controllers and valid tokens from the database; write sessions that have ended."""
        await self.synchronize()
        known = self.hub.credentials()
        if known:
            good = await self.store.call(self.store.store.good_tokens, known)
            for credential in known - good:
                self.hub.revoke(credential, instant())
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
        await self.listeners.wait(self._tlex.reconnect_millis / 1000)
        self.hub.shut(instant())
        await self.listeners.wait(LAST_BYES)
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

    async def _abandon(self) -> None:
        if self._ticks is not None:
            self._ticks.cancel()
        self.listeners.close()
        await self.store.close()


def certificate_files(tlex: TlexSection) -> CertificateFiles:
    return CertificateFiles(tlex.certificate, tlex.private_key)


def settings_of(tlex: TlexSection) -> HubSettings:
    """The hub's settings, in its units."""
    return HubSettings(
        tlc=_limits(tlex.tlc),
        broker=_limits(tlex.broker),
        monitor=_limits(tlex.monitor),
        token_seconds=tlex.token_millis / 1000,
        handshake_seconds=tlex.handshake_millis / 1000,
        timestamps_seconds=tlex.timestamps_millis / 1000,
        reconnect_grace_seconds=tlex.reconnect_millis / 1000,
        queue_frames=tlex.queue_frames,
        queue_bytes=tlex.queue_bytes,
    )


def _limits(limits: TlexLimitsSection) -> HubLimits:
    return HubLimits(
        keep_alive_seconds=limits.keep_alive_millis / 1000,
        clock_difference_millis=limits.clock_difference_millis,
        clock_difference_window_seconds=limits.clock_difference_seconds,
        payloads_per_second=limits.payloads_per_second,
        payloads_window_seconds=limits.payloads_seconds,
        kilobytes_per_second=limits.kilobytes_per_second,
        kilobytes_window_seconds=limits.kilobytes_seconds,
        max_identifiers=limits.max_identifiers,
    )
