"""The TCP ports: a `TlexLink` for each connection, a thin shell around its `Interpreter`.

It knows bytes, sockets and TLS; what the bytes mean is in `interpreter`. Specification: 6.1 and 6.2.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from penstock.certificates import CertificateFiles
from penstock.doors.tlex.interpreter import Interpreter, TlexReception
from penstock.exchange.instant import Instant
from penstock.monitor.figures import Family, counter
from penstock.transport.closing import close_gently
from penstock.transport.listener import Listener, room_of
from penstock.transport.tls import server_context
from penstock.wire.tlex.vocabulary import SecurityMode

if TYPE_CHECKING:
    from penstock.exchange.conversation import Conversation

# The only cipher suite of the specification; it belongs to TLS 1.2.
CIPHERS = "ECDHE-RSA-AES128-GCM-SHA256"

# Bytes that may wait in the transport. Few, because its queue decides what is dropped for a slow peer.
HIGH_WATER = 65_536
LOW_WATER = 16_384

# Seconds that a peer has to read the last bytes, including Bye.
CLOSE_PATIENCE = 5.0


def instant() -> Instant:
    """Now."""
    return Instant(time.monotonic(), time.time_ns() // 1_000_000)


class Listeners:
    """Opened by `listen`; `close` refuses newcomers, `wait` lets the others leave, `abort` breaks the rest."""

    def __init__(self, hub: TlexReception, max_strangers: int, handshake_seconds: float) -> None:
        self.hub = hub
        self.crowded_out = 0
        self._max_strangers = max_strangers
        self._handshake_seconds = handshake_seconds
        self._listeners: list[Listener] = []
        self._links: set[TlexLink] = set()
        # In the order in which they came.
        self._strangers: dict[TlexLink, None] = {}
        self._all_gone = asyncio.Event()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None, shared: bool = False) -> int:
        """Open a port, and return which one it is; raises ListenError. `shared`: with other processes."""
        security = SecurityMode.NONE if tls is None else SecurityMode.TLS
        listener = await Listener.listen(
            lambda: TlexLink(self, security),
            host,
            port,
            tls=tls,
            handshake_seconds=self._handshake_seconds,
            room=room_of(self._max_strangers, tls is not None),
            shared=shared,
        )
        self._listeners.append(listener)
        return listener.port

    def joined(self, link: TlexLink) -> None:
        self._links.add(link)
        self._strangers[link] = None
        if len(self._strangers) > self._max_strangers:
            # The oldest, not the newest: a peer that only holds connections open must not keep others out.
            self.crowded_out += 1
            next(iter(self._strangers)).give_up()

    def known(self, link: TlexLink) -> None:
        """It has presented a token, or is gone."""
        self._strangers.pop(link, None)

    def left(self, link: TlexLink) -> None:
        self.known(link)
        self._links.discard(link)
        if not self._links:
            self._all_gone.set()

    def figures(self) -> Iterable[Family]:
        return (
            counter(
                "penstock_tlex_crowded_out",
                "Connections closed to make room for others before they had presented a token.",
                self.crowded_out,
            ),
        )

    def close(self) -> None:
        """Accept no more connections, and close those that have not presented a token."""
        for listener in self._listeners:
            listener.close()
        for link in list(self._strangers):
            link.give_up()

    async def wait(self, seconds: float) -> None:
        """Wait until all connections are closed, but not longer than this."""
        if self._links:
            self._all_gone.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), seconds)

    def abort(self) -> None:
        for link in list(self._links):
            link.abort()


class TlexLink(asyncio.Protocol):
    """One connection; also the hub's `PeerChannel` to it."""

    __slots__ = ("_conversation", "_interpreter", "_listeners", "_patience", "_security", "_transport")

    _interpreter: Interpreter
    _conversation: Conversation
    _transport: asyncio.Transport

    def __init__(self, listeners: Listeners, security: SecurityMode) -> None:
        self._listeners = listeners
        self._security = security
        self._patience: asyncio.TimerHandle | None = None

    # -- what asyncio calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # TCP_NODELAY is what both loops set by themselves.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        self._interpreter = Interpreter(self._listeners.hub, self, self._security, instant())
        self._conversation = self._interpreter.conversation
        self._conversation.resumed = self._resumed
        self._listeners.joined(self)

    def data_received(self, data: bytes) -> None:
        conversation = self._conversation
        was_stranger = conversation.session is None
        self._interpreter.received(data, instant())
        if was_stranger and conversation.session is not None:
            self._listeners.known(self)
        elif conversation.awaiting and conversation.open:
            # One piece is kept for the session, and no more.
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._conversation.set_writable(False)

    def resume_writing(self) -> None:
        self._conversation.set_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._conversation.lost(error is not None, instant())
        self._listeners.left(self)

    # -- what the hub calls ---------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        self._listeners.known(self)
        if self._conversation.session is None:
            # It is sent nothing, so there are no last bytes to lose.
            self._transport.close()
            self._patience = asyncio.get_running_loop().call_later(CLOSE_PATIENCE, self.abort)
        else:
            self._patience = close_gently(self._transport, CLOSE_PATIENCE)

    def _resumed(self, now: Instant) -> None:
        """The hub is another process, and has found the session."""
        self._listeners.known(self)
        self._interpreter.resume(now)
        if self._conversation.open:
            self._transport.resume_reading()

    # -- what the listeners call ----------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Close a connection that has not shown a token."""
        self._conversation.lost(False, instant())
        self.abort()

    def abort(self) -> None:
        self._transport.abort()


def tls_context(files: CertificateFiles) -> ssl.SSLContext:
    """TLS 1.2 with the one cipher suite, server side; clients present no certificate."""
    context = server_context(files)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    return context
