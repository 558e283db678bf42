"""One WebSocket, for any protocol: frames in and out, limits, pressure, idle timeouts, and how it ends.

What messages mean is up to the subclass; all doors use this class, so that all are equally strict. Frames are read and
built in `wire.websocket`. Read next: `[limits]` in docs/configuration.md. Specification: RFC 6455.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from penstock.transport.closing import close_gently
from penstock.transport.departure import depart
from penstock.transport.http import HttpConnection
from penstock.transport.origins import allows
from penstock.transport.outlet import OutletProtocol
from penstock.transport.parcel import Parcel
from penstock.transport.peer import principal_of
from penstock.transport.port import HttpPort
from penstock.transport.pressure import Patience, socket_of
from penstock.transport.secured import seal_of
from penstock.wire import websocket
from penstock.wire.http1 import HttpError, HttpRequest
from penstock.wire.websocket import Acceptance, FrameReader, client_message

# Why a socket is closed. RFC 6455, section 7.4.1.
NORMAL = 1000
GOING_AWAY = 1001
POLICY_VIOLATION = 1008

# Bytes of answers and pongs that a client may leave unread; beyond it nothing more is read from that client.
MAX_UNREAD = 1_048_576

# Bytes that are read at once from a client that may compress: they may expand a thousandfold.
PIECE_BYTES = 8_192

# Pings within the timeout of a silent client: it has that many chances to answer.
PINGS_A_TIMEOUT = 2


def handshake(
    port: HttpPort, request: HttpRequest, subprotocol: str | None = None, may_compress: bool = False
) -> Acceptance:
    """The handshake for this request; raises HttpError."""
    origin = request.headers.get("origin")
    if (
        origin is not None
        and not allows(port.config.stream.allow_websocket_origins, origin)
        and not port.origins.is_neighbour(origin, request.headers.get("host"))
    ):
        raise HttpError(403, f"Origin {origin} may not open a WebSocket here")
    return websocket.accept(request, subprotocol, may_compress)


class WebSocket(OutletProtocol):
    """Made for a connection with a valid handshake; `start` takes the connection over."""

    __slots__ = (
        "_closing",
        "_heard",
        "_patience",
        "_paused",
        "_reader",
        "_reads",
        "_socket",
        "_timer",
        "_unread",
        "_vouched_principal",
        "address",
        "client_port",
        "entrance",
        "http_port",
        "lost",
        "outlet",
    )

    # Bytes that may wait to be sent before the door is told; 0 if the door can hold and merge what is to be sent.
    high_water = 0

    # Whether binary messages are ignored; else they close the socket.
    skips_binary = False

    # Whether a silent client is sent pings. If not, a socket that is not in use is closed.
    pings = False

    def __init__(self, connection: HttpConnection, acceptance: Acceptance, max_message: int) -> None:
        """`max_message` is in bytes; a longer one closes the socket."""
        super().__init__()
        self.http_port = connection.http_port
        self.transport = connection.transport
        self.address = connection.address
        self.client_port = connection.client_port
        self.entrance = connection.entrance
        self._vouched_principal = connection.vouched_principal
        self.lost = False
        self._reader = FrameReader(max_message, acceptance.deflate, self.skips_binary)
        # Bytes that arrived while nothing was read, without those being parsed.
        self._unread = b""
        self._reads = False
        self._paused = False
        self._heard = True
        self._closing = False
        # The socket's descriptor, as long as it is open, and `pause_writing` is called at the first byte that waits;
        # else -1.
        self._socket = -1 if self.high_water else socket_of(self.transport)
        # The same as long as whole frames may be written to it at any time, by whoever has many sockets to write to.
        self.outlet = self._socket
        self.seal = seal_of(self.transport)
        self._timer: asyncio.TimerHandle | None = None
        self._patience: Patience | None = None

    def start(self, connection: HttpConnection, acceptance: Acceptance) -> None:
        """Answer the handshake, and go on with the bytes that came after it."""
        leftover = connection.hand_over(self)
        self.http_port.connections.add(self)
        self.http_port.websockets += 1
        if self.high_water:
            self.transport.set_write_buffer_limits(high=self.high_water)
        self.transport.write(acceptance.answer)
        self.watch()
        if leftover:
            self.data_received(leftover)
        if connection.peer_has_ended:
            # It will not be reported again.
            self.eof_received()
            self.transport.close()

    @property
    def principal(self) -> str | None:
        """Whom the client's certificate names, which has been verified; None if it has presented none."""
        return self._vouched_principal or principal_of(self.transport)

    # -- what a door brings along ---------------------------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        """Whether it is open for a reason, although the client says nothing."""
        raise NotImplementedError

    @property
    def takes_more(self) -> bool:
        """Whether messages are wanted. When that changes, call `listen`."""
        raise NotImplementedError

    def received(self, messages: list[str]) -> None:
        """Messages have come."""
        raise NotImplementedError

    def resumed(self) -> None:
        """Reading has resumed."""

    def congested_now(self) -> None:
        """The client does not read: more than `high_water` bytes wait."""

    def relieved(self) -> None:
        """The client has read."""

    def gone(self) -> None:
        """The connection is lost."""

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._heard = True
        self._unread = self._unread + data if self._unread else data
        self.listen()

    def eof_received(self) -> bool:
        self._reader.eof()
        self._answer_frames()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._socket = self.outlet = -1
        self._stop_watching()
        if self._patience is not None:
            self._patience.cancel()
        self.http_port.forget(self)
        self.http_port.websockets -= 1
        self.http_port.connection_census.leave(self.address)
        self.gone()

    @property
    def congested(self) -> bool:
        """Whether too many bytes wait for the peer to read."""
        return self._patience is not None

    def pause_writing(self) -> None:
        port = self.http_port
        seconds = port.config.limits.write_timeout_millis / 1000
        self._patience = Patience(self.transport, seconds, port.ledger, port.slow)
        self.outlet = -1
        self.congested_now()

    def resume_writing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self.open_outlet()
        self.listen()
        self.relieved()

    # -- what comes in --------------------------------------------------------------------------------------------

    @property
    def listening(self) -> bool:
        """Whether the socket is being read."""
        return not self._paused

    def listen(self) -> None:
        """Read on, unless the door accepts no more for now or the client has too many answers to read."""
        if self.lost or self._reads:
            return
        self._reads = True
        try:
            self._pause_or_resume()
            while self._unread and not self._paused and not self._closing:
                messages = self._reader.feed(self._next_piece())
                if messages:
                    self.received(messages)
                self._answer_frames()
                self._pause_or_resume()
        finally:
            self._reads = False

    def _next_piece(self) -> bytes:
        data = self._unread
        if self._reader.deflate is None or len(data) <= PIECE_BYTES:
            self._unread = b""
            return data
        self._unread = data[PIECE_BYTES:]
        return data[:PIECE_BYTES]

    def _pause_or_resume(self) -> None:
        pauses = not self._closing and (not self.takes_more or self.transport.get_write_buffer_size() > MAX_UNREAD)
        if pauses == self._paused or self.lost:
            return
        self._paused = pauses
        if pauses:
            self.transport.pause_reading()
            if self._patience is not None:
                self._patience.recount()
        else:
            # What it has sent meanwhile is about to be read.
            self._heard = True
            self.transport.resume_reading()
            self.resumed()

    def _answer_frames(self) -> None:
        """Send pings, pongs and closes that the reader has prepared."""
        answer = self._reader.to_send()
        if answer:
            self.write_frames(answer)
        if not self._reader.is_open and not self._closing:
            self._closing = True
            self.outlet = -1
            self._unread = b""
            self._stop_watching()
            self._timer = close_gently(self.transport, self.http_port.config.limits.write_timeout_millis / 1000)
            # What still arrives is dropped until the peer closes.
            self._pause_or_resume()

    # -- silence --------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Restart the idle timeout: on a socket that is not in use the client must send something from time to time."""
        self._stop_watching()
        if self.lost or self._closing:
            return
        loop = asyncio.get_running_loop()
        seconds = self.http_port.config.limits.idle_timeout_millis / 1000
        if self.pings:
            self._timer = loop.call_later(seconds / PINGS_A_TIMEOUT, self._ask)
        elif not self.in_use:
            self._timer = loop.call_later(seconds, self._idle)

    def _ask(self) -> None:
        self._timer = None
        if not self._heard and not self._paused:
            self.cut()
            return
        self._heard = False
        self._reader.ping()
        self._answer_frames()
        self.watch()

    def _idle(self) -> None:
        self._timer = None
        # It may be in use by now; the end of that restarts the watch.
        if not self.in_use:
            self.close(POLICY_VIOLATION, f"Idle for {self.http_port.config.limits.idle_timeout_millis} ms")

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what goes out --------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        return not self.lost and self._reader.is_open

    @property
    def may_open_outlet(self) -> bool:
        """Whether nothing else has to be written before the next frames."""
        return self._patience is None and not self._closing

    def open_outlet(self) -> None:
        """Nothing else has to be written any more."""
        if self.may_open_outlet:
            self.outlet = self._socket

    def write_frames(self, frames: bytes) -> None:
        """Write whole frames, while the socket is open. Never raises."""
        # Not while the transport has something to write.
        if self._socket < 0 or self._patience is not None:
            self.write_behind(frames)
        else:
            self.write_past(self._socket, frames)

    # -- to a neighbour -------------------------------------------------------------------------------------------

    async def move(self, worker: str, parcel: Parcel, messages: Iterable[str]) -> bool:
        """Have a neighbour go on with this socket, from these messages on; False if it stays.

        What was written must have been sent. Not for a socket that compresses.
        """
        assert self._reader.deflate is None
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()
        frames = b"".join([client_message(message.encode()) for message in messages])
        return await depart(self, worker, parcel, frames + self._reader.unfinished() + self._unread)

    def let_go(self) -> None:
        self._socket = self.outlet = -1
        self._reader.eof()

    def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        """Release the socket to another protocol, which ends its place in the census; nothing is left to be read."""
        self.lost = True  # For this object; the socket lives on.
        self._socket = self.outlet = -1
        self._stop_watching()
        if self._patience is not None:
            self._patience.cancel()
        self.http_port.forget(self)
        self.http_port.websockets -= 1
        self.transport.set_protocol(protocol)
        self.transport.resume_reading()
        return b""

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self, code: int, reason: str) -> None:
        """Send a close frame after all that was written. Nothing comes in or goes out from then on."""
        if not self.lost:
            self._reader.close(code, reason)
            self._answer_frames()

    def close_if_idle(self) -> None:
        """The port is being closed."""
        self.close(GOING_AWAY, "The server is shutting down")

    def cut(self) -> None:
        """Abort the connection; its loss is reported in the usual way."""
        # The descriptor may be reused for another connection as soon as the socket is closed.
        self._socket = self.outlet = -1
        self.transport.abort()
