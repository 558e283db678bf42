"""The connection of a remote adapter, from the listening port to its loss, and to the next one: one owner of its state.

    WAITING       the port is open. A peer of an allowed address gives its credentials, if any are wanted, and is taken;
                  an adapter with two connections is complete when both are there
    INITIALISING  the first request has been sent; its answer names the version
    READY         the owner may ask, and hears all notifications, until the link is lost: back to WAITING

A peer that is refused gets the reason in a CLOSE, and is only logged. One adapter at a time: a second one is refused,
unless the first has been silent for longer than allowed.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence
from enum import Enum
from functools import partial
from typing import Protocol

from penstock.adapters.api import Adapter
from penstock.adapters.remote.calls import CallOutcome, Calls, TakeOutcome, Unanswered, Why
from penstock.adapters.remote.connection import RemoteConnection
from penstock.adapters.remote.settings import ConnectionSettings
from penstock.certificates import Certificate
from penstock.log import get
from penstock.transport.listener import Listener
from penstock.wire.ari.errors import BadAriStream, BadPacket
from penstock.wire.ari.notifications import AdapterFailure, AriUpdate
from penstock.wire.ari.packets import AriKeepAlive, AriStream, Credentials, Packet, parse_packet
from penstock.wire.ari.replies import Failed, Initialised, Reply
from penstock.wire.ari.requests import Pairs, Request, encode_request
from penstock.wire.ari.version import NEWEST, Version

log = get(__name__)

# How long a refused peer that has not introduced itself may take to do so: only then is it known to understand CLOSE.
GRACE_SECONDS = 1.0

# Lines that cannot be parsed: how many are logged in a minute, and at how many the connection is closed.
LOGGED_BAD_LINES = 10
MAX_BAD_LINES = 100
BAD_LINES_SECONDS = 60.0

# Silence after which a second adapter may take the place of the first, where no keep-alive hint is configured: the
# interval that the published SDKs then use.
USUAL_KEEPALIVE_SECONDS = 10.0


class Phase(Enum):
    WAITING = "waiting"
    INITIALISING = "initialising"
    READY = "ready"


class RemoteUnavailable(Exception):
    """A remote adapter was not there in time for the server's start; the text says which and why."""


class Owner(Protocol):
    """The adapter that the link is for."""

    def initialisation(self, common: Pairs) -> Request:
        """The first request, with these parameters and the owner's own."""

    def ready(self) -> None: ...
    def lost(self) -> None: ...

    def updated(self, updates: Sequence[AriUpdate]) -> None:
        """Hot path: those that came in one go."""

    def notified(self, packet: Packet) -> None:
        """Any other notification or request."""

    def answered_late(self, reply: Reply) -> None:
        """An answer that nobody waits for any more."""


class RemoteLink:
    """Made on the event loop. The first of the streams is the one for requests."""

    def __init__(
        self, settings: ConnectionSettings, ports: dict[AriStream, int], owner: Owner, adapter_set: str, adapter: str
    ) -> None:
        self.phase = Phase.WAITING
        self.version: Version | None = None
        self._settings = settings
        self._wanted_ports = ports
        self._owner = owner
        self._names = {"adapter_set": adapter_set, "adapter": adapter}
        self._loop = asyncio.get_running_loop()
        self._calls = Calls(settings.timeout, self._deaf)
        self._requests = next(iter(ports))
        self._listeners: dict[AriStream, Listener] = {}
        self._connections: set[RemoteConnection] = set()
        self._taken: dict[AriStream, RemoteConnection] = {}
        self._closing = False
        self._watch: asyncio.TimerHandle | None = None
        self._first: asyncio.Future[None] = self._loop.create_future()
        self._bad_since = 0.0
        self._bad_count = 0

    # -- the port -------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Listen; raises ListenError. After `close` it may be opened again."""
        self._closing = False
        self._first = self._loop.create_future()
        certificate = self._settings.certificate
        try:
            for stream, port in self._wanted_ports.items():
                self._listeners[stream] = await Listener.listen(
                    partial(RemoteConnection, self, stream, self._settings.max_line_bytes),
                    self._settings.host,
                    port,
                    tls=None if certificate is None else certificate.context,
                    handshake_seconds=self._settings.timeout,
                )
        except BaseException:
            await self.close()
            raise
        log.info("waiting for a remote adapter", host=self._settings.host, ports=self.ports, **self._names)

    async def wait_for_first(self) -> None:
        """As long as is configured; raises RemoteUnavailable, and is closed then."""
        patience = self._settings.first_connection_timeout
        if patience == 0:
            return
        port = self.ports[0]
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._first)
        except TimeoutError:
            await self.close()
            raise RemoteUnavailable(
                f"no remote adapter has connected to {self._settings.host}:{port} within {patience} s"
            ) from None
        except RemoteUnavailable:
            await self.close()
            raise

    @property
    def ports(self) -> list[int]:
        """Those that are open, which are others than those configured where these are 0."""
        return [listener.port for listener in self._listeners.values()]

    async def close(self) -> None:
        """No more connections, and none of those there are."""
        self._closing = True
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        self.lose("the server is shutting down")
        for connection in list(self._connections):
            connection.close(None)
        for connection in list(self._connections):
            await connection.ended.wait()

    # -- peers ----------------------------------------------------------------------------------------------------

    def connected(self, connection: RemoteConnection) -> None:
        self._connections.add(connection)
        if self._closing:
            self._drop(connection)
        elif not self._settings.allows(connection.address):
            # Peers with other addresses get no answer.
            self._log_refusal(connection, "its address is not one of allowed_addresses")
            self._drop(connection)
        elif self._settings.wants_credentials:
            connection.within(
                self._settings.timeout, partial(self._refuse, connection, "it has not sent any credentials in time")
            )
        else:
            self._take(connection)

    def received(self, connection: RemoteConnection, lines: Sequence[str]) -> None:
        """Lines, in order; updates are handed on together."""
        stream = connection.stream
        updates: list[AriUpdate] = []
        for line in lines:
            try:
                packet = parse_packet(line, stream, self.version if connection.taken else None)
            except BadPacket as bad:
                self._flush(updates)
                self._complain(connection, bad)
            else:
                if type(packet) is AriUpdate:
                    updates.append(packet)
                    continue
                self._flush(updates)
                self._handle(connection, packet)
            if connection.closed:
                return
        self._flush(updates)

    def _flush(self, updates: list[AriUpdate]) -> None:
        if updates:
            self._owner.updated(updates)
            updates.clear()

    def _handle(self, connection: RemoteConnection, packet: Packet) -> None:
        if isinstance(packet, AriKeepAlive):
            return
        if isinstance(packet, Credentials):
            self._introduce(connection, packet)
        elif not connection.taken:
            self._refuse(connection, "its first line is not its credentials")
        elif isinstance(packet, Reply):
            if not self._calls.answer(packet):
                log.debug("late or repeated answer", method=packet.method, peer=connection.peer, **self._names)
                self._owner.answered_late(packet)
        elif isinstance(packet, AdapterFailure):
            log.error("remote adapter has failed", reason=packet.message, peer=connection.peer, **self._names)
            self.lose("the adapter has reported a failure")
        else:
            self._owner.notified(packet)

    def _introduce(self, connection: RemoteConnection, given: Credentials) -> None:
        if connection.introduced:
            return
        connection.introduced = True
        connection.enables_close = given.enables_close
        settings = self._settings
        if connection.refused is not None:
            self._refuse(connection, connection.refused)
        elif not (_same(settings.user, given.user) and _same(settings.password, given.password)):
            self._refuse(connection, "wrong credentials")
        elif not connection.taken:
            connection.in_time()
            self._take(connection)

    def _take(self, connection: RemoteConnection) -> None:
        present = self._taken.get(connection.stream)
        if present is not None:
            if present.silence() <= (self._settings.keepalive_hint or USUAL_KEEPALIVE_SECONDS):
                self._refuse(connection, "another adapter is connected")
                return
            self.lose("another adapter has connected, and this one has been silent")
        connection.taken = True
        self._taken[connection.stream] = connection
        if len(self._taken) == len(self._wanted_ports):
            self._initialise()
        else:
            connection.within(
                self._settings.timeout, partial(self._lose_incomplete, "its second connection has not come in time")
            )

    def _lose_incomplete(self, reason: str) -> None:
        for connection in list(self._taken.values()):
            self._log_refusal(connection, reason)
        self.lose(reason)

    def _refuse(self, connection: RemoteConnection, reason: str) -> None:
        """Close with a reason; a peer that may yet tell that it understands CLOSE is given the time."""
        if connection.introduced or connection.refused is not None:
            reason = connection.refused or reason
            self._log_refusal(connection, reason)
            self._drop(connection, reason if connection.enables_close else None)
        else:
            connection.refused = reason
            connection.within(GRACE_SECONDS, partial(self._refuse, connection, reason))

    def _log_refusal(self, connection: RemoteConnection, reason: str) -> None:
        log.warning("remote adapter refused", peer=connection.peer, reason=reason, **self._names)

    def _drop(self, connection: RemoteConnection, reason: str | None = None) -> None:
        connection.close(reason)
        if connection.taken and self._taken.get(connection.stream) is connection:
            self.lose("one of its connections was refused")

    # -- the life of an adapter -----------------------------------------------------------------------------------

    def _initialise(self) -> None:
        self.phase = Phase.INITIALISING
        for connection in self._taken.values():
            connection.in_time()
        hint = self._settings.keepalive_hint
        common: list[tuple[str, str | None]] = []
        if hint:
            common.append(("keepalive_hint.millis", str(round(hint * 1000))))
        common += [("adapters_conf.id", self._names["adapter_set"]), *self._settings.remote_parameters]
        request = self._owner.initialisation(tuple(common))
        self._send(encode_request(self._calls.add(request, self._initialised), request, NEWEST))

    def _initialised(self, outcome: CallOutcome) -> None:
        if isinstance(outcome, Initialised):
            self.version = outcome.version
            self.phase = Phase.READY
            peer = self._taken[self._requests].peer
            log.info("remote adapter ready", peer=peer, version=str(outcome.version), **self._names)
            self._watch_over()
            if not self._first.done():
                self._first.set_result(None)
            self._owner.ready()
        elif isinstance(outcome, Failed):
            reason = f"its initialisation has failed: {outcome.message}"
            if not self._first.done():
                self._first.set_exception(RemoteUnavailable(f"the remote adapter was there, but {reason}"))
                # Where nobody waits, the log is enough.
                self._first.exception()
            self._lose_incomplete(reason)
        elif isinstance(outcome, Unanswered) and outcome.why is not Why.LOST:
            self._lose_incomplete(f"no initialisation: {outcome.why.value}")

    def _watch_over(self) -> None:
        """Give up an adapter one of whose connections has been silent for too long."""
        limit = self._settings.keepalive_timeout
        if not limit:
            return
        silence = max([connection.silence() for connection in self._taken.values()])
        if silence >= limit:
            self.lose(f"nothing heard for {limit} s")
        else:
            self._watch = self._loop.call_later(limit - silence, self._watch_over)

    def ask(self, request: Request, done: TakeOutcome) -> str:
        """Send a request, `done` is called with its outcome; the identifier. Only when READY."""
        assert self.version is not None
        identifier = self._calls.add(request, done)
        self._send(encode_request(identifier, request, self.version))
        return identifier

    def tell(self, line: bytes) -> None:
        """Send an answer to a request of the adapter's."""
        self._send(line)

    def _send(self, line: bytes) -> None:
        self._taken[self._requests].write(line)

    def lose(self, reason: str) -> None:
        """Give up the adapter that is connected, if one is, and tell it why."""
        taken, self._taken = self._taken, {}
        phase, self.phase = self.phase, Phase.WAITING
        version, self.version = self.version, None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        for stream, connection in taken.items():
            knows_close = connection.enables_close or (version is not None and version.has_close_packet)
            connection.close(reason if knows_close and stream is self._requests else None)
        self._calls.lose()
        if phase is Phase.READY:
            log.warning("remote adapter lost", reason=reason, **self._names)
            self._owner.lost()

    def _deaf(self) -> None:
        self.lose("it has left several requests in a row unanswered")

    # -- what goes wrong ------------------------------------------------------------------------------------------

    def _complain(self, connection: RemoteConnection, bad: BadPacket) -> None:
        if not connection.taken:
            self._refuse(connection, f"it has sent an invalid line: {bad}")
            return
        now = self._loop.time()
        if now - self._bad_since > BAD_LINES_SECONDS:
            self._bad_since, self._bad_count = now, 0
        self._bad_count += 1
        if self._bad_count <= LOGGED_BAD_LINES:
            log.warning("line of a remote adapter dropped", reason=str(bad), peer=connection.peer, **self._names)
        if bad.request is not None:
            self._calls.garble(bad.request)
        if self._bad_count >= MAX_BAD_LINES:
            self._bad_count = 0
            self.lose(f"{MAX_BAD_LINES} lines within {BAD_LINES_SECONDS:.0f} s were invalid")

    def broken(self, connection: RemoteConnection, error: BadAriStream) -> None:
        self._fail(connection, str(error))

    def stuck(self, connection: RemoteConnection) -> None:
        # Not at once: whoever is sending is in the middle of something.
        self._loop.call_soon(self._fail, connection, "it does not read what it is sent")

    def gone(self, connection: RemoteConnection, reason: str) -> None:
        self._connections.discard(connection)
        self._fail(connection, reason)

    def _fail(self, connection: RemoteConnection, reason: str) -> None:
        if self._taken.get(connection.stream) is connection:
            if self.phase is not Phase.READY:
                self._log_refusal(connection, reason)
            self.lose(reason)
        elif not connection.closed:
            # Never taken.
            self._log_refusal(connection, reason)
            connection.close(reason if connection.enables_close else None)


def _same(wanted: str | None, given: str | None) -> bool:
    """Compared in constant time; if none is configured, anything is accepted."""
    return wanted is None or hmac.compare_digest(wanted.encode(), (given or "").encode("utf-8", "replace"))


class Linked(Adapter):
    """What both kinds of adapters do with their link."""

    link: RemoteLink
    _settings: ConnectionSettings

    async def start(self) -> None:
        await self.link.open()

    async def wait_until_ready(self) -> None:
        await self.link.wait_for_first()

    async def stop(self) -> None:
        await self.link.close()

    def listener_certificate(self) -> Certificate | None:
        return self._settings.certificate

    @property
    def ports(self) -> list[int]:
        return self.link.ports

    @property
    def connected(self) -> bool:
        return self.link.phase is Phase.READY

    @property
    def trouble(self) -> str | None:
        return None if self.connected else "no remote adapter is connected"
