"""The socket of `/ws/2` on the API port: handshake with credentials, frames, compression, pings, and how much may wait.

The request is read by `transport.http`, which hands the connection over. What messages mean is in `connection`;
outgoing frames are built here, many at a time, for a library would write each by itself. Specification: RFC 6455,
RFC 7692.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from websockets.datastructures import Headers
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN, State
from websockets.server import ServerProtocol

from penstock.doors.ditto.connection import Connection
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live import Edition
from penstock.doors.ditto.service import Service
from penstock.doors.ditto.streaming import answer_to
from penstock.doors.facts import API, request_id
from penstock.kernel.ports import ClientFacts
from penstock.transport.closing import close_gently
from penstock.transport.http import HttpConnection
from penstock.transport.origins import allows
from penstock.transport.peer import port_of
from penstock.transport.pressure import Patience
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.unsupported import NAMES, check_headers
from penstock.wire.http1 import HttpError, HttpRequest, response_head
from penstock.wire.websocket import frame_header

T = TypeVar("T")

PATHS = ("/ws/2", "/ws/2/")

# Headers of the request that decide about the handshake.
_HANDSHAKE = frozenset(
    {
        "connection",
        "host",
        "origin",
        "sec-websocket-extensions",
        "sec-websocket-key",
        "sec-websocket-protocol",
        "sec-websocket-version",
        "upgrade",
    }
)

# Bytes of one message, when it is no longer compressed. A thing has 100 kB; more is close code 1009.
MAX_MESSAGE_BYTES = 1_048_576

# Bytes that are read at once: when they are no longer compressed they may be a thousand times as many.
PIECE_BYTES = 8_192

# Bytes that may wait to be sent. With more no message is read, and no history.
HIGH_WATER = 262_144

# Messages of at least so many bytes are compressed for clients that offer it: below it there is little to gain.
COMPRESSED_BYTES = 1_024

# A window of 4 kB and little memory: tens of kilobytes a connection in place of hundreds.
WINDOW_BITS = 12
MEMORY_LEVEL = 5

# Seconds between two pings. Who has sent nothing at all from one to the next is gone.
PING_SECONDS = 30.0

# Seconds for which a client may leave unread all that it was sent.
WRITE_SECONDS = 30.0

# Seconds that a client has to answer a close.
CLOSE_SECONDS = 5.0

# Bytes of a close frame's reason.
MAX_REASON_BYTES = 123


class Sockets:
    """What the sockets share: the service, who is connected, and figures for the monitor."""

    def __init__(self, service: Service, allow_origins: Collection[str] = ("*",)) -> None:
        self.service = service
        self.allow_origins = allow_origins
        self.edition = Edition(service.losses)
        self.open: set[_Socket] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    def take_over(self, connection: HttpConnection, request: HttpRequest) -> None:
        """A request for a WebSocket has come; raises HttpError if there is none for it."""
        if request.raw_path not in PATHS:
            raise HttpError(404, f"There is no WebSocket at this path; there is one at {PATHS[0]}.")
        origin = request.headers.get("origin")
        if origin is not None and not allows(self.allow_origins, origin):
            raise HttpError(403, "Pages of this origin may not open a WebSocket.")
        _Socket(self, connection, request).start()

    # -- ports.Work ------------------------------------------------------------------------------------------------

    def later(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def finish(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                done(task.result())
            elif isinstance(error, Exception):
                done(error)

        task.add_done_callback(finish)


class _Core(ServerProtocol):
    """The library's, but for one thing: a close may come inside a message."""

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            # What there is of a message is of no use any more, and no mistake: the peer closes when it likes.
            self.current_size = None
        super().recv_frame(frame)


class _Socket(asyncio.Protocol):
    """One connection, from the request for it to its end."""

    def __init__(self, sockets: Sockets, connection: HttpConnection, request: HttpRequest) -> None:
        self.sockets = sockets
        self._http = connection
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._core = _Core(
            extensions=[
                ServerPerMessageDeflateFactory(
                    server_max_window_bits=WINDOW_BITS,
                    client_max_window_bits=WINDOW_BITS,
                    compress_settings={"memLevel": MEMORY_LEVEL},
                )
            ],
            max_size=MAX_MESSAGE_BYTES,
        )
        self.transport: asyncio.Transport = connection.transport
        self._connection: Connection | None = None
        # What came in before reading stopped: bytes, and before them messages.
        self._raw = b""
        self._inbox: deque[str] = deque()
        self._reading = True
        self._is_delivering = False
        # Fragments of a text message; None while those of a binary one go by.
        self._parts: list[bytes] | None = []
        # A close was sent, or the last byte: nothing is sent from then on, and nothing is read after the last.
        self._is_closing = False
        self._has_ended = False
        self._is_lost = False
        self._heard = True
        self._patience: Patience | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pings: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """The connection becomes this one's; raises HttpError for a handshake that is none."""
        response = self._handshake()
        self._raw = self._http.hand_over(self)
        self._http.http_port.connections.add(self)
        self.sockets.open.add(self)
        # Until it is known who it is.
        self.transport.pause_reading()
        self.sockets.run(self._open(response), self._opened)

    # -- asyncio ---------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._has_ended:
            return
        self._heard = True
        self._raw = self._raw + data if self._raw else data
        self._deliver()

    def eof_received(self) -> bool:
        if not self._has_ended and self._connection is not None:
            self._core.receive_eof()
            self._answer_frames()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        port = self._http.http_port
        port.forget(self)
        if self._http.is_counted:
            port.connection_census.leave(self._http.address)
        self.sockets.open.discard(self)
        for timer in (self._timer, self._pings, self._end, self._patience):
            if timer is not None:
                timer.cancel()
        if self._connection is not None:
            self._connection.lost()

    def pause_writing(self) -> None:
        self._patience = Patience(self.transport, WRITE_SECONDS, self.sockets.service.losses.ledger)
        if self._connection is not None:
            self._connection.set_writable(False)

    def resume_writing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._connection is not None and not self._is_lost:
            self._connection.set_writable(True)

    def close_if_idle(self) -> None:
        """The port is being closed."""
        if self._connection is None:
            self.transport.close()
        else:
            self.close(CloseCode.SERVICE_RESTART, "The server is going down")

    # -- the handshake ---------------------------------------------------------------------------------------------

    def _handshake(self) -> Response:
        """The answer that opens the socket; raises HttpError."""
        headers = self._request.headers
        # The library reads frames only behind a request, so it gets one with all that it looks at.
        wanted = Headers([(name, value) for name, value in headers.items() if name in _HANDSHAKE])
        request = Request(PATHS[0], wanted)
        self._core.receive_data(request.serialize())
        response = self._core.accept(request)
        if self._request.method != "GET":
            raise HttpError(405, f"{self._request.method} cannot open a WebSocket; GET can", "GET")
        if response.status_code != 101:
            text = bytes(response.body or b"").decode("utf-8", "replace").strip()
            raise HttpError(426 if response.status_code == 426 else 400, text)
        self._core.events_received()
        return response

    async def _open(self, response: Response) -> tuple[Response, Login]:
        """The answer that opens the socket, and for whom. Raises DittoError."""
        headers = self._request.headers
        port = port_of(self.transport)
        client = ClientFacts(
            self._http.address, self._http.secure, headers, port, request_id=request_id(), listener=API
        )
        login = await self.sockets.service.authenticate(headers, client, origin=self)
        given = {**dict(parse_qsl(self._request.query)), **headers}
        check_headers({name: given[name] for name in NAMES if name in given})
        return response, login

    def _opened(self, result: tuple[Response, Login] | Exception) -> None:
        if self._is_lost or self.transport.is_closing():
            return
        if isinstance(result, Exception):
            self._refuse(answer_to(result, PATHS[0]))
            return
        response, login = result
        self._core.send_response(response)
        self._write(self._core.data_to_send())
        self.transport.set_write_buffer_limits(high=HIGH_WATER)
        sockets = self.sockets
        self._connection = Connection(sockets.service, sockets.edition, login, self, self, self._loop.time)
        self.transport.resume_reading()
        self._pings = self._loop.call_later(PING_SECONDS, self._ping)
        self._deliver()

    def _refuse(self, error: DittoError) -> None:
        headers = [("Content-Type", "application/json")]
        if error.status == 401:
            headers += [("WWW-Authenticate", 'Basic realm="Ditto", charset="UTF-8"'), ("WWW-Authenticate", "Bearer")]
        self._respond(error.status, headers, json.dumps(error.as_value()).encode())

    def _respond(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        identity = self._http.http_port.identity_headers()
        headers = [*identity, *headers, ("Content-Length", str(len(body))), ("Connection", "close")]
        self._is_closing = True
        self._write([response_head(status, headers), body])
        self._finish()

    def _finish(self) -> None:
        """The last byte is written; what the peer still sends is dropped."""
        if not self._has_ended:
            self._has_ended = True
            self._raw = b""
            if self._end is not None:
                self._end.cancel()
            self.transport.resume_reading()
            self._end = close_gently(self.transport, CLOSE_SECONDS)

    # -- what comes in ---------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Hand messages over, and read on, for as long as they are taken."""
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while True:
                while self._inbox and self._reading and not self._is_closing and self._connection is not None:
                    self._connection.received(self._inbox.popleft())
                if not self._raw or self._connection is None or not (self._reading or self._is_closing):
                    break
                piece, self._raw = self._raw[:PIECE_BYTES], self._raw[PIECE_BYTES:]
                self._feed(piece)
        finally:
            self._is_delivering = False
        self._schedule()

    def _feed(self, data: bytes) -> None:
        if self._has_ended or (self._is_closing and self._core.state is not State.CLOSING):
            return
        self._core.receive_data(data)
        for event in self._core.events_received():
            if isinstance(event, Frame):
                self._take(event)
        self._answer_frames()

    def _take(self, frame: Frame) -> None:
        if self._is_closing or frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is Opcode.TEXT:
            self._parts = []
        elif frame.opcode is Opcode.BINARY:
            # Nobody says anything in bytes, and nobody is answered.
            self._parts = None
        if self._parts is None:
            return
        if frame.data:
            # Empty fragments cost the peer nothing and may be endless.
            self._parts.append(bytes(frame.data))
        if frame.fin:
            try:
                self._inbox.append(b"".join(self._parts).decode())
            except UnicodeDecodeError:
                self.close(CloseCode.INVALID_DATA, "The message is not UTF-8")
            self._parts = []

    def _answer_frames(self) -> None:
        """Send pongs and closes that the core has prepared."""
        data = self._core.data_to_send()
        if not self._is_closing:
            # Nothing follows a close, also no pong.
            self._write(data)
        if not self._is_lost and (self._core.state is State.CLOSED or self._core.close_expected()):
            self._is_closing = True
            self._finish()

    def _ping(self) -> None:
        if self._is_closing:
            return
        if not self._heard and self._reading:
            self.transport.abort()
            return
        self._heard = False
        self._core.send_ping(b"")
        self._write(self._core.data_to_send())
        self._pings = self._loop.call_later(PING_SECONDS, self._ping)

    # -- time ------------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        due = None if self._connection is None or self._is_lost else self._connection.due()
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._run)

    def _run(self) -> None:
        self._timer = None
        if self._connection is not None:
            self._connection.run()
        self._schedule()

    # -- ports.Work ------------------------------------------------------------------------------------------------

    def later(self, call: Callable[[], None]) -> None:
        self.sockets.later(call)

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        def finish(result: T | Exception) -> None:
            done(result)
            self._schedule()

        self.sockets.run(work, finish)

    # -- ports.Channel ---------------------------------------------------------------------------------------------

    def send(self, messages: list[bytes]) -> None:
        if self._is_lost or self._is_closing:
            return
        data: list[bytes] = []
        # There is only one that can have been agreed on.
        extensions = self._core.extensions
        for message in messages:
            size = len(message)
            if extensions and size >= COMPRESSED_BYTES:
                data.append(Frame(Opcode.TEXT, message).serialize(mask=False, extensions=extensions))
            else:
                data += (frame_header(size, True, True), message)
        self._write(data)

    def set_reading(self, reading: bool) -> None:
        self._reading = reading
        if self._is_lost or self._is_closing:
            return
        if reading:
            # What it has said meanwhile is still to be read.
            self._heard = True
            self.transport.resume_reading()
            self._deliver()
        else:
            self.transport.pause_reading()

    def close(self, code: int, reason: str) -> None:
        if self._is_lost or self._is_closing or self._core.state is not OPEN:
            return
        text = reason.encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore")
        self._core.send_close(code, text)
        self._is_closing = True
        self._write(self._core.data_to_send())
        self.transport.resume_reading()
        self._end = self._loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def _write(self, data: list[bytes]) -> None:
        if data and not self._is_lost and not self._has_ended and not self.transport.is_closing():
            self.transport.write(b"".join(data))
