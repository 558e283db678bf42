"""One HTTP connection of the streaming port: requests in order, answers in order, deadlines, and the upgrade to
WebSocket.

Parsing is in `wire.http1`, answers in `response`; requests of the text protocols are handed to their doors.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from penstock.doors.stream.closing import close_gently
from penstock.doors.stream.origins import allows
from penstock.doors.stream.pages import NOT_BUILT
from penstock.doors.stream.pressure import Patience, keep_unsent_low
from penstock.doors.stream.response import (
    NO_CACHE,
    TEXT,
    HttpResponse,
    accepts_gzip,
    compress_if_worthwhile,
)
from penstock.doors.stream.websocket import WebSocketConnection
from penstock.log import get
from penstock.wire import websocket
from penstock.wire.http1 import CONTINUE, HttpError, HttpRequest, RequestParser, response_head

if TYPE_CHECKING:
    from penstock.doors.stream.door import StreamDoor

log = get(__name__)

_SOCKET_PATH = re.compile(r"(/.*)?/lightstreamer/?")
_REQUEST_PATH = re.compile(r"(?:/.*)?/lightstreamer/([A-Za-z_]+)\.txt")


class HttpConnection(asyncio.Protocol):
    """Requests are answered one at a time; those that follow wait, and reading stops when too many do."""

    def __init__(self, door: StreamDoor, secure: bool) -> None:
        self.door = door
        self.secure = secure
        self.address = ""
        self.lost = False
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._parser = RequestParser(door.config.limits.header_limit, door.config.limits.request_limit)
        self._waiting: deque[HttpRequest] = deque()
        self._response: HttpResponse | None = None
        self._task: asyncio.Task[None] | None = None
        self._busy = False
        self._closing = False
        self._paused = False
        # The peer has sent all it will send; it still reads.
        self._all_read = False
        # The peer does not read its answers: no more of them until it does.
        self.choked = False
        self._counted = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_is_for_reading = False
        self._patience: Patience | None = None

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if isinstance(peer, tuple) else ""
        keep_unsent_low(self.transport, self.door.config.stream.max_unsent_bytes)
        self.door.connections.add(self)
        census = self.door.connection_census
        if census.is_full(self.address):
            log.warning("connection refused", address=self.address, limit=census.limit)
            self._refuse(HttpError(503, f"Too many connections from this address; at most {census.limit} are allowed"))
            return
        census.enter(self.address)
        self._counted = True
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._parser.leftover is not None:
            # Frames that follow an upgrade request which still waits for its turn.
            self._parser.leftover += data
            self._pause()
            return
        requests = self._parser.feed(data)
        self._waiting.extend(requests)
        self._next()
        if self._waiting:
            self._hear(requests)
        if self._too_many_wait:
            self._pause()
        self._watch()

    @property
    def _too_many_wait(self) -> bool:
        return len(self._waiting) >= self.door.config.limits.max_unanswered_requests

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    def eof_received(self) -> bool:
        # A client may close its sending side and still read the answers; a stream's client is gone.
        streaming = self._response is not None and self._response.session is not None
        self._all_read = (self._busy or bool(self._waiting)) and not streaming and not self._closing
        if self._all_read:
            self._limit_answer()
        return self._all_read

    def _limit_answer(self) -> None:
        """A client that has gone looks like one that only closed its sending side: no answer may take for ever."""
        millis = self.door.config.limits.read_timeout_millis
        self._timer = asyncio.get_running_loop().call_later(millis / 1000, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._cancel_timers()
        self.door.forget(self)
        if self._counted:
            self.door.connection_census.leave(self.address)
        if self._task is not None:
            self._task.cancel()
        response = self._response
        if response is not None and response.session is not None:
            session = response.session
            response.session = None
            session.drop()

    def pause_writing(self) -> None:
        self._patience = Patience(self.transport, self.door.config.limits.write_timeout_millis / 1000)
        self.choked = True
        if self._response is not None and self._response.session is not None:
            self._response.session.congest()

    def resume_writing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self.choked = False
        if self._response is not None and self._response.session is not None:
            self._response.session.relieve()
        self._next()

    # -- deadlines ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Wait for the rest of a request, or for the next one; while one is being answered there is no deadline."""
        if self._closing:
            return  # The timer is the one that ends the wait for the peer to close.
        reading = self._parser.in_request
        if self._timer is not None:
            if reading and self._timer_is_for_reading and not self._busy:
                return  # Bytes that trickle in do not move the deadline of their request.
            self._timer.cancel()
            self._timer = None
        if self._busy or self.lost:
            return
        limits = self.door.config.limits
        millis = limits.read_timeout_millis if reading else limits.idle_timeout_millis
        self._timer_is_for_reading = reading
        self._timer = asyncio.get_running_loop().call_later(millis / 1000, self._timed_out)

    def _timed_out(self) -> None:
        self._timer = None
        if self._timer_is_for_reading:
            millis = self.door.config.limits.read_timeout_millis
            self._refuse(HttpError(408, f"The request was not complete after {millis} ms"))
        else:
            self._close()

    def _cancel_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._patience is not None:
            self._patience.cancel()
        self._timer = self._patience = None

    # -- answers --------------------------------------------------------------------------------------------------

    def common_headers(self, request: HttpRequest | None) -> list[tuple[str, str]]:
        origin = None if request is None else request.headers.get("origin")
        return [*self.door.identity_headers(), *self.door.origins.headers(origin)]

    def send_complete(
        self,
        request: HttpRequest,
        status: int,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        *,
        close: bool = False,
        may_compress: bool = False,
        cached: bool = False,
    ) -> None:
        """Write a whole response and go on to the next request."""
        if self.lost:
            return
        found = [*self.common_headers(request), *(() if cached else NO_CACHE), *headers]
        if may_compress:
            settings = self.door.config.session
            compressed = compress_if_worthwhile(request, body, settings.use_compression, settings.compression_threshold)
            if compressed is not None:
                body = compressed
                found.append(("Content-Encoding", "gzip"))
        keep_alive = request.keep_alive and not close and not self.door.stopping
        if status not in (204, 304):
            found.append(("Content-Length", str(len(body))))
        if not keep_alive:
            found.append(("Connection", "close"))
        elif request.version == "1.0":
            found.append(("Connection", "keep-alive"))
        head = response_head(status, found)
        self.transport.write(head if request.method == "HEAD" else head + body)
        self.request_done(keep_alive)

    def request_done(self, keep_open: bool) -> None:
        """The last byte of an answer has been written."""
        self._busy = False
        self._response = None
        self._task = None
        if not keep_open or (self._all_read and not self._waiting):
            self._close()
            return
        if not self._too_many_wait:
            self._resume()
        # Not from here: a long queue of requests would nest.
        asyncio.get_running_loop().call_soon(self._next)

    def _refuse(self, error: HttpError) -> None:
        """Answer bytes that are no request, and close."""
        if self.lost:
            return
        body = f"{error.message}\n".encode()
        headers = [
            *self.common_headers(None),
            *NO_CACHE,
            *TEXT,
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        self.transport.write(response_head(error.status, headers) + body)
        self._close()

    def _close(self) -> None:
        self._closing = True
        self._cancel_timers()
        self._resume()
        if self._all_read:
            self.transport.close()
        else:
            self._timer = close_gently(self.transport, self.door.config.limits.write_timeout_millis / 1000)

    def abort(self) -> None:
        if not self.lost:
            self.transport.abort()

    def close_if_idle(self) -> None:
        """The server stops.

        A connection between two requests is closed, one with an answer under way closes after it.
        """
        if not self._busy and not self.lost:
            self._close()

    # -- requests -------------------------------------------------------------------------------------------------

    def _next(self) -> None:
        if self._busy or self.lost or self._closing or self.choked:
            return
        if not self._waiting:
            if self._parser.error is not None:
                self._refuse(self._parser.error)
            elif self._parser.expects_continue:
                self._parser.expects_continue = False
                self.transport.write(CONTINUE)
            self._watch()
            return
        request = self._waiting.popleft()
        self._busy = True
        self._cancel_timers()
        if self._all_read:
            self._limit_answer()
        try:
            self._route(request)
        except HttpError as error:
            headers = (*TEXT, ("Allow", error.allow)) if error.allow else TEXT
            self.send_complete(request, error.status, headers, f"{error.message}\n".encode(), close=request.upgrade)

    def _hear(self, requests: Iterable[HttpRequest]) -> None:
        """Requests wait for their turn: they are signs of life all the same."""
        for request in requests:
            if _REQUEST_PATH.fullmatch(request.path) is not None:
                self.door.tlcp.hear_http(request)

    def _route(self, request: HttpRequest) -> None:
        origin = request.headers.get("origin")
        path = request.path
        if request.upgrade and request.headers.get("upgrade", "").lower() == "websocket":
            self._upgrade(request, origin)
            return
        if request.upgrade:
            # Parsing has stopped behind such a request: nothing can follow on this connection.
            request.keep_alive = False
        if request.method == "OPTIONS":
            headers = self.door.origins.preflight(origin) if origin else [("Allow", "GET, HEAD, POST, OPTIONS")]
            self.send_complete(request, 204, headers, b"")
            return
        match = _REQUEST_PATH.fullmatch(path)
        if match is not None:
            self._text_request(request, match[1], origin)
        elif request.method not in ("GET", "HEAD"):
            raise HttpError(405, f"{request.method} is not allowed for {path}; GET and HEAD are", "GET, HEAD, OPTIONS")
        elif path == "/health":
            status, body = self.door.health()
            self.send_complete(request, status, (("Content-Type", "application/json"),), body)
        else:
            self._page(request, path)

    def _text_request(self, request: HttpRequest, name: str, origin: str | None) -> None:
        if request.method not in ("GET", "POST"):
            raise HttpError(
                405, f"{request.method} is not allowed for requests; GET and POST are", "GET, POST, OPTIONS"
            )
        if origin is not None and not self.door.origins.allows(origin):
            raise HttpError(403, f"Origin {origin} is not allowed here")
        if "content-range" in request.headers:
            raise HttpError(400, "Content-Range is not accepted")
        self._response = HttpResponse(self, request)
        self._task = asyncio.get_running_loop().create_task(self.door.answer(name, self._response))

    def _upgrade(self, request: HttpRequest, origin: str | None) -> None:
        if _SOCKET_PATH.fullmatch(request.path) is None:
            raise HttpError(404, f"No WebSocket at {request.path}; it is at /lightstreamer")
        if origin is not None and not allows(self.door.config.stream.allow_websocket_origins, origin):
            raise HttpError(403, f"Origin {origin} may not open a WebSocket here")
        subprotocol = self.door.tlcp.choose_subprotocol(websocket.subprotocols(request))
        opening = websocket.accept(request, subprotocol)
        connection = WebSocketConnection(
            self.door, self.transport, self.address, self.secure, request.headers, subprotocol
        )
        self.lost = True  # For this object; the socket lives on.
        self.door.connections.discard(self)
        self._cancel_timers()
        self._resume()
        self.transport.set_protocol(connection)
        self.transport.write(opening)
        connection.start(self._parser.leftover or b"", counted=self._counted)

    def _page(self, request: HttpRequest, path: str) -> None:
        page = self.door.pages.find(path)
        if page is None:
            if path == "/" and not self.door.pages.are_built:
                self.send_complete(request, 404, TEXT, NOT_BUILT)
                return
            raise HttpError(404, f"Nothing is at {path}")
        if request.headers.get("if-none-match") == page.etag:
            self.send_complete(request, 304, page.headers, b"", cached=True)
            return
        if page.compressed is not None and accepts_gzip(request):
            headers = (*page.headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
            self.send_complete(request, 200, headers, page.compressed, cached=True)
        else:
            self.send_complete(request, 200, page.headers, page.content, cached=True)
