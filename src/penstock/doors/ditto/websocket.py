"""The socket of `/ws/2` on the API port: handshake with credentials, frames, compression, pings, and how much may wait.

uvicorn reads the request and hands the connection over. What messages mean is in `connection`; outgoing frames are
built here, many at a time, for a library would write each by itself. Specification: RFC 6455, RFC 7692.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar, cast

from uvicorn.config import Config
from uvicorn.server import ServerState
from websockets.datastructures import Headers
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import CONNECTING, OPEN, State
from websockets.server import ServerProtocol

from penstock.doors.ditto.connection import Connection
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live import Edition
from penstock.doors.ditto.service import Service
from penstock.doors.ditto.streaming import answer_to
from penstock.doors.facts import API, request_id
from penstock.doors.stream.closing import close_gently
from penstock.doors.stream.origins import allows
from penstock.doors.stream.peer import port_of
from penstock.doors.stream.pressure import Patience
from penstock.kernel.ports import ClientFacts
from penstock.wire.ditto.errors import DittoError
from penstock.wire.websocket import frame_header

T = TypeVar("T")

PATHS = ("/ws/2", "/ws/2/")

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

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """For uvicorn's option `ws`, which wants a class."""
        return cast(type[asyncio.Protocol], type("DittoSocket", (_Socket,), {"sockets": self}))

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


class _Socket(asyncio.Protocol):
    """One connection, from the request that uvicorn has read to its end."""

    sockets: ClassVar[Sockets]

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        self._connections = server_state.connections
        self._loop = asyncio.get_running_loop()
        self._core = ServerProtocol(
            extensions=[
                ServerPerMessageDeflateFactory(
                    server_max_window_bits=WINDOW_BITS,
                    client_max_window_bits=WINDOW_BITS,
                    compress_settings={"memLevel": MEMORY_LEVEL},
                )
            ],
            max_size=MAX_MESSAGE_BYTES,
        )
        self._transport: asyncio.Transport
        self._connection: Connection | None = None
        # What came in before reading stopped: bytes, and before them messages.
        self._raw = b""
        self._inbox: deque[str] = deque()
        self._reading = True
        self._is_delivering = False
        # Fragments of a text message; None while those of a binary one go by.
        self._parts: list[bytes] | None = []
        self._is_closing = False
        self._is_lost = False
        self._heard = True
        self._patience: Patience | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pings: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None

    # -- asyncio and uvicorn ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(cast(Any, self))
        self.sockets.open.add(self)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._raw = self._raw + data if self._raw else data
        self._deliver()

    def eof_received(self) -> bool:
        self._core.receive_eof()
        self._answer_frames()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._connections.discard(cast(Any, self))
        self.sockets.open.discard(self)
        for timer in (self._timer, self._pings, self._end, self._patience):
            if timer is not None:
                timer.cancel()
        if self._connection is not None:
            self._connection.lost()

    def pause_writing(self) -> None:
        self._patience = Patience(self._transport, WRITE_SECONDS)
        if self._connection is not None:
            self._connection.set_writable(False)

    def resume_writing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._connection is not None and not self._is_lost:
            self._connection.set_writable(True)

    def shutdown(self) -> None:
        """uvicorn stops."""
        if self._connection is None:
            self._transport.close()
        else:
            self.close(CloseCode.SERVICE_RESTART, "The server is going down")

    # -- the handshake ---------------------------------------------------------------------------------------------

    async def _open(self, request: Request) -> tuple[Response, Login]:
        """The answer that opens the socket, and for whom. Raises _Rejected and DittoError."""
        path = request.path.partition("?")[0]
        if path not in PATHS:
            raise _Rejected(404, f"There is no WebSocket at this path; there is one at {PATHS[0]}.")
        headers = {name.lower(): value for name, value in request.headers.raw_items()}
        origin = headers.get("origin")
        if origin is not None and not allows(self.sockets.allow_origins, origin):
            raise _Rejected(403, "Pages of this origin may not open a WebSocket.")
        response = self._core.accept(request)
        if response.status_code != 101:
            raise _Rejected(response.status_code, bytes(response.body or b"").decode("utf-8", "replace").strip())
        peer = self._transport.get_extra_info("peername")
        secure = self._transport.get_extra_info("sslcontext") is not None
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        port = port_of(self._transport)
        client = ClientFacts(address, secure, headers, port, request_id=request_id(), listener=API)
        return response, await self.sockets.service.authenticate(headers, client, origin=self)

    def _opened(self, result: tuple[Response, Login] | Exception) -> None:
        if self._is_lost:
            return
        if isinstance(result, _Rejected):
            self._reject(result.status, str(result))
            return
        if isinstance(result, Exception):
            self._refuse(answer_to(result, PATHS[0]))
            return
        response, login = result
        self._core.send_response(response)
        self._write(self._core.data_to_send())
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        sockets = self.sockets
        self._connection = Connection(sockets.service, sockets.edition, login, self, self, self._loop.time)
        self._transport.resume_reading()
        self._pings = self._loop.call_later(PING_SECONDS, self._ping)
        self._deliver()

    def _refuse(self, error: DittoError) -> None:
        headers = [("Content-Type", "application/json")]
        if error.status == 401:
            headers += [("WWW-Authenticate", 'Basic realm="Ditto", charset="UTF-8"'), ("WWW-Authenticate", "Bearer")]
        self._respond(error.status, headers, json.dumps(error.as_value()).encode())

    def _reject(self, status: int, text: str) -> None:
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        if status == 426:
            headers.append(("Upgrade", "websocket"))
        self._respond(status, headers, text.encode() + b"\n")

    def _respond(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        headers += [("Content-Length", str(len(body))), ("Connection", "close")]
        self._is_closing = True
        self._transport.write(Response(status, HTTPStatus(status).phrase, Headers(headers), body).serialize())
        self._end = close_gently(self._transport, CLOSE_SECONDS)

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
                if not self._raw or not (self._reading or self._is_closing):
                    break
                piece, self._raw = self._raw[:PIECE_BYTES], self._raw[PIECE_BYTES:]
                self._feed(piece)
        finally:
            self._is_delivering = False
        self._schedule()

    def _feed(self, data: bytes) -> None:
        if self._is_closing and self._core.state is not State.CLOSING:
            return
        opening = self._core.state is CONNECTING
        self._core.receive_data(data)
        if opening and self._core.handshake_exc is not None:
            self._reject(400, "The request is not a WebSocket handshake.")
            return
        for event in self._core.events_received():
            if isinstance(event, Request):
                self._transport.pause_reading()
                self.sockets.run(self._open(event), self._opened)
            elif isinstance(event, Frame):
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
        self._write(self._core.data_to_send())
        if self._core.state is CONNECTING or self._is_lost:
            return
        if self._core.state is State.CLOSED or self._core.close_expected():
            self._is_closing = True
            if self._end is not None:
                self._end.cancel()
            self._end = close_gently(self._transport, CLOSE_SECONDS)

    def _ping(self) -> None:
        if self._is_closing:
            return
        if not self._heard and self._reading:
            self._transport.abort()
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
            self._transport.resume_reading()
            self._deliver()
        else:
            self._transport.pause_reading()

    def close(self, code: int, reason: str) -> None:
        if self._is_lost or self._is_closing or self._core.state is not OPEN:
            return
        text = reason.encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore")
        self._core.send_close(code, text)
        self._is_closing = True
        self._write(self._core.data_to_send())
        self._transport.resume_reading()
        self._end = self._loop.call_later(CLOSE_SECONDS, self._transport.abort)

    def _write(self, data: list[bytes]) -> None:
        if data and not self._is_lost and not self._transport.is_closing():
            self._transport.write(b"".join(data))


class _Rejected(Exception):
    """The request opens no socket: the status, and a text for people."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
