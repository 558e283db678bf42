"""The bridge to an ASGI application: a port whose requests it answers, over the same HTTP code as the streaming port.

Bodies of requests are passed on as they arrive, and the peer waits while they are not read; `send` waits while the peer
does not read. The application gets no WebSockets: the port has a callback for them. ASGI 3, HTTP 2.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, cast

from penstock.config import Config
from penstock.kernel.ledger import Ledger
from penstock.log import RequestNumber, get
from penstock.transport.answers import BODILESS
from penstock.transport.entrance import Entrance, api_entrances
from penstock.transport.http import HttpConnection
from penstock.transport.listener import BACKLOG
from penstock.transport.origins import API_EXPOSED, API_HEADERS, API_METHODS, Origins
from penstock.transport.port import HttpPort
from penstock.transport.proxies import NamedClient
from penstock.wire.http1 import LAST_CHUNK, HttpError, HttpRequest, chunk, response_head

log = get(__name__)

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
AsgiApplication = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# Bytes that may wait to be sent before `send` waits.
HIGH_WATER = 65_536

# Bytes of any body. Handlers of requests read the body piece by piece, and have smaller limits.
MAX_BODY = 2_147_483_647

# The least bytes per second of a request body, once it has begun: a slower peer is assumed to hold the connection on
# purpose.
MIN_BODY_RATE = 500

# Headers that the connection sets itself, whatever the application sends.
_OURS = frozenset({"connection", "date", "keep-alive", "server", "transfer-encoding"})


class AsgiPort(HttpPort):
    """`listen`, and `stop` at the end; `take_over` gets the requests for WebSockets; without it they are refused."""

    hands_out_early = True

    def __init__(
        self,
        config: Config,
        application: AsgiApplication,
        max_connections: int,
        ledger: Ledger,
        take_over: Callable[[HttpConnection, HttpRequest], None] | None = None,
    ) -> None:
        super().__init__(
            "api", config, Origins(config.api.cors, API_METHODS, API_HEADERS, API_EXPOSED), max_connections, ledger
        )
        self.max_body = MAX_BODY
        self.application = application
        self.take_over = take_over
        # Requests being answered; one may outlive the connection it came over.
        self.tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Raises ListenError."""
        # No more than that can come at once, before they are counted.
        await self.open(api_entrances(self.config), min(BACKLOG, self.max_connections))

    def connection(self, entrance: Entrance, client: NamedClient | HttpError | None = None) -> asyncio.Protocol:
        return AsgiConnection(self, entrance, client)

    async def stop(self, seconds: float) -> None:
        """Accept nothing new and let requests end; after this many seconds connections are aborted."""
        self.close()
        self.close_idle()
        await self.wait(seconds)
        self.abort()
        while self.tasks:
            await asyncio.wait(self.tasks)


class AsgiConnection(HttpConnection):
    """A connection whose requests the application answers."""

    http_port: AsgiPort

    def prepare(self) -> None:
        self.transport.set_write_buffer_limits(high=HIGH_WATER)

    def upgrade(self, request: HttpRequest) -> None:
        if self.http_port.take_over is None:
            super().upgrade(request)
        else:
            self.http_port.take_over(self, request)

    def route(self, request: HttpRequest) -> None:
        origin = request.headers.get("origin")
        if request.method == "OPTIONS" and origin and "access-control-request-method" in request.headers:
            allowed = self.http_port.origins.preflight(origin, request.headers.get("host"))
            self.send_complete(request, 204, allowed, b"", close=not _has_all(request))
            return
        self.http_port.requests["api"] += 1
        exchange = Exchange(self, request)
        self.answer_by(exchange)
        task = asyncio.get_running_loop().create_task(exchange.run(self.http_port.application))
        self.http_port.tasks.add(task)
        task.add_done_callback(self.http_port.tasks.discard)


def _has_all(request: HttpRequest) -> bool:
    return request.is_complete and not request.body


class Exchange:
    """One request and its answer, on a connection of any port."""

    __slots__ = (
        "_all_given",
        "_begun",
        "_chunked",
        "_connection",
        "_finished",
        "_gone",
        "_heads",
        "_marks",
        "_peer_ended",
        "_request",
        "_started",
        "_status",
        "_timer",
        "_went_ahead",
        "_woken",
    )

    def __init__(self, connection: HttpConnection, request: HttpRequest) -> None:
        self._connection = connection
        self._request = request
        # The application has received the whole body.
        self._all_given = False
        self._went_ahead = not request.expects_continue
        # The application has sent the head; the head was written; the last byte was written.
        self._started = False
        self._begun = False
        self._finished = False
        # The peer is gone; or it sends no more, and may still read.
        self._gone = False
        self._peer_ended = False
        self._status = 0
        self._heads: list[tuple[str, str]] = []
        self._chunked = False
        self._woken: asyncio.Event | None = None
        # Bytes of the body so far, and how many there were at the last check.
        self._marks = [0, 0]
        self._timer: asyncio.TimerHandle | None = None
        if not request.is_complete:
            self._watch_body()

    # -- transport.http.Answering ---------------------------------------------------------------------------------

    @property
    def needs_peer(self) -> bool:
        return self._begun or not self._request.is_complete

    def body_arrived(self) -> None:
        if self._request.is_complete:
            self._stop_watching()
        self._wake()

    def break_off(self, error: HttpError) -> None:
        if self._gone or self._finished:
            return
        connection, begun = self._connection, self._begun
        self.connection_lost()
        if begun:
            connection.cut()
        else:
            connection.refuse(error)

    def peer_ended(self) -> None:
        self._peer_ended = True
        self._wake()

    def congested_now(self) -> None:
        """`send` checks for itself."""

    def relieved(self) -> None:
        self._wake()

    def connection_lost(self) -> None:
        self._gone = True
        self._stop_watching()
        self._wake()

    # -- deadlines ------------------------------------------------------------------------------------------------

    def _watch_body(self) -> None:
        millis = self._connection.http_port.config.limits.read_timeout_millis
        self._timer = asyncio.get_running_loop().call_later(millis / 1000, self._check_body)

    def _check_body(self) -> None:
        """The peer is slow only if we wait for it: not while too much of what it has sent waits for the application."""
        millis = self._connection.http_port.config.limits.read_timeout_millis
        arrived = self._marks[0] + len(self._request.body)
        enough = max(1, MIN_BODY_RATE * millis // 1000)
        if self._connection.is_paused or arrived - self._marks[1] >= enough:
            self._marks[1] = arrived
            self._watch_body()
            return
        self._timer = None
        self.break_off(HttpError(408, f"The request body arrived at less than {MIN_BODY_RATE} bytes per second"))

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- the application ------------------------------------------------------------------------------------------

    async def run(self, application: AsgiApplication) -> None:
        with RequestNumber():
            try:
                await application(self._scope(), self.receive, self.send)
            except Exception:
                log.exception("request failed", method=self._request.method, path=self._request.path)
        self._stop_watching()
        if not self._finished and not self._gone:
            # It has failed, or has not answered.
            self.break_off(HttpError(500, "Internal server error"))

    def _scope(self) -> dict[str, Any]:
        request, connection = self._request, self._connection
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.version,
            "method": request.method,
            "scheme": "https" if connection.entrance.secure else "http",
            "path": request.path,
            "raw_path": request.raw_path.encode("latin-1"),
            "query_string": request.query.encode("latin-1"),
            "root_path": "",
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()],
            "client": (connection.address, connection.client_port),
            "server": _address(connection.transport.get_extra_info("sockname")),
            # Which listener the request has come by, and whether one of its proxies has sent it.
            "state": {"listener": connection.entrance.name, "is_from_proxy": connection.is_from_proxy},
        }

    async def receive(self) -> AsgiMessage:
        """More of the body; when there is no more, wait until the peer is gone or the answer is complete."""
        request = self._request
        while not self._gone and not self._finished:
            if not self._all_given and (request.body or request.is_complete):
                self._all_given = request.is_complete
                body = self._connection.take_body(request)
                self._marks[0] += len(body)
                return {"type": "http.request", "body": body, "more_body": not self._all_given}
            if self._all_given and self._peer_ended:
                break
            if not self._went_ahead and not self._begun:
                self._went_ahead = True
                self._connection.go_ahead()
            await self._wait()
        return {"type": "http.disconnect"}

    async def send(self, message: AsgiMessage) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            if self._started:
                raise RuntimeError("The answer has already begun")
            self._started = True
            self._status = message["status"]
            self._heads = _heads(message.get("headers", ()))
        elif kind == "http.response.body":
            if not self._started or self._finished:
                raise RuntimeError("The answer has not begun, or is already complete")
            if not self._gone:
                self._write(message.get("body", b""), not message.get("more_body", False))
        else:
            raise ValueError(f"{kind} is not a message that an application sends here")
        while self._connection.choked and not self._gone and not self._finished:
            await self._wait()

    # -- what goes out --------------------------------------------------------------------------------------------

    def _write(self, body: bytes, is_last: bool) -> None:
        connection, request = self._connection, self._request
        bodiless = request.method == "HEAD" or self._status in BODILESS
        out = b""
        if not self._begun:
            out = self._head(len(body) if is_last else None)
            self._begun = True
        if not bodiless and (body or (is_last and self._chunked)):
            if self._chunked:
                out += (chunk(body) if body else b"") + (LAST_CHUNK if is_last else b"")
            else:
                out += body
        if out:
            connection.transport.write(out)
        if is_last:
            self._finished = True
            self._stop_watching()
            self._wake()
            # The unread rest of a request would come before the next one.
            connection.request_done(request.keep_alive and request.is_complete and not connection.http_port.stopping)

    def _head(self, size: int | None) -> bytes:
        """The head of the answer, with the length of its body: `size` if it is known."""
        connection, request = self._connection, self._request
        heads = [*connection.common_headers(request), *self._heads]
        if self._status in BODILESS:
            heads = [(name, value) for name, value in heads if name.lower() != "content-length"]
        elif not any(name.lower() == "content-length" for name, _ in self._heads):
            if size is not None:
                heads.append(("Content-Length", str(size)))
            elif request.version == "1.1":
                self._chunked = True
                heads.append(("Transfer-Encoding", "chunked"))
            else:
                request.keep_alive = False
        if not (request.keep_alive and request.is_complete) or connection.http_port.stopping:
            request.keep_alive = False
            heads.append(("Connection", "close"))
        elif request.version == "1.0":
            heads.append(("Connection", "keep-alive"))
        return response_head(self._status, heads)

    # -- waiting --------------------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Wait until something has happened."""
        if self._woken is None:
            self._woken = asyncio.Event()
        self._woken.clear()
        await self._woken.wait()

    def _wake(self) -> None:
        if self._woken is not None:
            self._woken.set()


def _heads(given: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    found = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in given]
    return [(name, value) for name, value in found if name.lower() not in _OURS]


def _address(found: object) -> tuple[str, int] | None:
    return cast("tuple[str, int]", found[:2]) if isinstance(found, tuple) else None
