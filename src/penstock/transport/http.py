"""One HTTP connection: requests in order, answers in order, deadlines, limits, and how it ends.

Parsing is in `wire.http1`; what a request means is up to the subclass, in `route`. Both ports that speak HTTP use it,
so that both are equally strict.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Protocol, cast

from penstock.log import get
from penstock.transport.answers import BODILESS, NO_CACHE, TEXT, compress_if_worthwhile
from penstock.transport.closing import close_gently
from penstock.transport.departure import depart
from penstock.transport.entrance import Entrance
from penstock.transport.outlet import OutletProtocol
from penstock.transport.parcel import Parcel
from penstock.transport.peer import principal_of
from penstock.transport.port import HttpPort
from penstock.transport.pressure import Patience, forget_the_vanished, keep_unsent_low, socket_of
from penstock.transport.proxies import NamedClient
from penstock.transport.secured import below, seal_of
from penstock.wire.http1 import CONTINUE, HttpError, HttpRequest, RequestParser, response_head
from penstock.wire.resending import Beginning, request_bytes

log = get(__name__)

# Bytes of bodies that may wait for handlers that read them piece by piece; with more, nothing is read.
MAX_UNTAKEN = 262_144

# Of a descriptor that nobody has asked for yet.
UNKNOWN = -2


class Answering(Protocol):
    """The pending answer: what its connection tells it."""

    @property
    def needs_peer(self) -> bool:
        """Whether a peer that has closed its sending side counts as gone."""

    def body_arrived(self) -> None:
        """More of the body of its request has arrived, or the end of it."""

    def break_off(self, error: HttpError) -> None:
        """The rest of the body will never come."""

    def peer_ended(self) -> None:
        """The peer sends no more; it may still read, or be gone."""

    def congested_now(self) -> None: ...
    def relieved(self) -> None: ...
    def connection_lost(self) -> None: ...


class HttpConnection(OutletProtocol):
    """Requests are answered one at a time; those that follow wait, and reading stops when too many do."""

    def __init__(self, port: HttpPort, entrance: Entrance, client: NamedClient | HttpError | None) -> None:
        super().__init__()
        self.http_port = port
        # The listener by which it has come.
        self.entrance = entrance
        # The client, which may have a proxy between it and the connection.
        self.address = ""
        self.client_port = 0
        self._client = client
        self._peer = NamedClient("", 0)
        # Whom the client's certificate names, if a neighbour has verified it.
        self.vouched_principal: str | None = None
        # Whether its peer is a proxy that may ask for another client with each request: then a client has it only while
        # its request is answered.
        self._is_shared = False
        self.lost = False
        self._parser = RequestParser(port.config.limits.header_limit, port.max_body, port.hands_out_early)
        self._waiting: deque[HttpRequest] = deque()
        # Kept only where the connection may be handed over before it is complete.
        self._beginning = None if port.neighbours is None else Beginning()
        # The request that is being answered, and its pending answer, if it is not answered at once.
        self._request: HttpRequest | None = None
        self._answering: Answering | None = None
        self._busy = False
        self._closing = False
        self._paused = False
        # The peer has closed its sending side; it still reads.
        self._all_read = False
        # The peer does not read its answers: no more are written until it does.
        self.choked = False
        self._counted = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_is_for_reading = False
        self._patience: Patience | None = None
        # The socket's descriptor, for streams; -1 if it must not be used any more.
        self._outlet = UNKNOWN

    @property
    def is_from_proxy(self) -> bool:
        """Whether its other end is one of the listener's proxies."""
        return self.entrance.proxies.include(self._peer.address)

    # -- what a port brings along ---------------------------------------------------------------------------------

    def route(self, request: HttpRequest) -> None:
        """Answer the request: at once by `send_complete`, or later by what `answer_by` is given. Raises HttpError."""
        raise NotImplementedError

    def upgrade(self, request: HttpRequest) -> None:
        """Make the connection a WebSocket, by `hand_over`; may raise HttpError."""
        raise HttpError(404, "There are no WebSockets here")

    def hear(self, request: HttpRequest) -> None:
        """A request has come. It may have to wait for its turn, but shows that the client is alive."""

    def prepare(self) -> None:
        """Set the transport up."""
        keep_unsent_low(self.transport, self.http_port.config.stream.max_unsent_bytes)

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address, self.client_port = peer[:2] if isinstance(peer, tuple) else ("", 0)
        if isinstance(self._client, NamedClient):
            self.address, self.client_port = self._client
        self._peer = NamedClient(self.address, self.client_port)
        self.prepare()
        port = self.http_port
        forget_the_vanished(self.transport, port.config.limits.write_timeout_millis)
        has_room = port.makes_room()
        port.connections.add(self)
        if not has_room:
            port.refused += 1
            self._turn_away(HttpError(503, f"Too many connections; at most {port.max_connections} are allowed"))
            return
        if isinstance(self._client, HttpError):
            self._refuse(self._client)
            return
        proxies = self.entrance.proxies
        self._is_shared = bool(proxies.header) and proxies.include(self.address)
        if not self._is_shared:
            try:
                self._count()
            except HttpError as error:
                self._refuse(error)
                return
        port.idle[self] = None
        self._watch()

    def _count(self) -> None:
        """Count the connection as its client's; raises HttpError if that has too many."""
        census = self.http_port.connection_census
        if census.is_full(self.address):
            self.http_port.refused += 1
            log.warning("connection refused", address=self.address, limit=census.limit)
            raise HttpError(503, f"Too many connections from this address; at most {census.limit} are allowed")
        census.enter(self.address)
        self._counted = True

    def takes_client(self) -> bool:
        """Whether the connection is accepted as its client's, who is known whatever proxy it comes from."""
        if self._is_shared and not self._closing:
            try:
                self._count()
            except HttpError:
                self._closing = True
        if self._closing:
            self.cut()
        return not self._closing

    def _uncount(self) -> None:
        if self._counted:
            self._counted = False
            self.http_port.connection_census.leave(self.address)

    def _identify(self, request: HttpRequest) -> None:
        """Find out who the client of this request is; raises HttpError."""
        proxies = self.entrance.proxies
        if not proxies.header:
            return
        try:
            client = proxies.client_of(request.headers, self._peer)
        except HttpError as error:
            self.http_port.header_refused(self._peer.address, error)
            raise
        if self._is_shared:
            self.address, self.client_port = client
            self._count()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._parser.leftover is not None:
            # Frames that follow an upgrade request that still waits for its turn.
            self._parser.leftover += data
            self._pause()
            return
        answering, request = self._answering, self._request
        was_read = self._parser.error is None
        requests = self._parser.feed(data)
        if self._beginning is not None and was_read:
            is_open = self._parser.in_request or self._parser.error is not None
            self._beginning.add(data, len(requests), is_open)
        self._waiting.extend(requests)
        if answering is not None and request is not None and self.http_port.hands_out_early:
            if self._parser.error is None or request.is_complete:
                answering.body_arrived()
            else:
                answering.break_off(self._parser.error)
        self._next()
        if self._waiting:
            for waiting in requests:
                self.hear(waiting)
        if self._too_much_waits and not self._closing:
            self._pause()
        self._watch()

    @property
    def _too_much_waits(self) -> bool:
        limit = self.http_port.config.limits.max_unanswered_requests
        return len(self._waiting) >= limit or self._parser.untaken > MAX_UNTAKEN

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read from the peer, because too much that it has sent waits."""
        return self._paused

    def take_body(self, request: HttpRequest) -> bytes:
        """What has arrived of the body of the request that is being answered."""
        body = self._parser.take_body(request)
        if not self._too_much_waits and not self.lost:
            self._resume()
        return body

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
        streaming = self._answering is not None and self._answering.needs_peer
        self._all_read = (self._busy or bool(self._waiting)) and not streaming and not self._closing
        if self._all_read:
            self._limit_answer()
            if self._answering is not None:
                self._answering.peer_ended()
        return self._all_read

    def _limit_answer(self) -> None:
        """A client that is gone looks like one that only closed its sending side: no answer may take for ever."""
        millis = self.http_port.config.limits.read_timeout_millis
        self._timer = asyncio.get_running_loop().call_later(millis / 1000, self.cut)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._cancel_timers()
        self.http_port.forget(self)
        self._uncount()
        if self._answering is not None:
            self._answering.connection_lost()

    def pause_writing(self) -> None:
        port = self.http_port
        seconds = port.config.limits.write_timeout_millis / 1000
        self._patience = Patience(self.transport, seconds, port.ledger, port.slow)
        self.choked = True
        if self._answering is not None:
            self._answering.congested_now()

    def resume_writing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self.choked = False
        if self._answering is not None:
            self._answering.relieved()
        self._next()

    # -- deadlines ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Wait for the rest of a request, or for the next one; while one is being answered there is no deadline."""
        if self._closing:
            return  # The timer is that of the close.
        reading = self._parser.in_request
        if self._timer is not None:
            if reading and self._timer_is_for_reading and not self._busy:
                return  # Bytes that trickle in do not extend the deadline of their request.
            self._timer.cancel()
            self._timer = None
        if self._busy or self.lost:
            return
        limits = self.http_port.config.limits
        millis = limits.read_timeout_millis if reading else limits.idle_timeout_millis
        self._timer_is_for_reading = reading
        self._timer = asyncio.get_running_loop().call_later(millis / 1000, self._timed_out)

    def _timed_out(self) -> None:
        self._timer = None
        if self._timer_is_for_reading:
            millis = self.http_port.config.limits.read_timeout_millis
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

    def write_now(self, data: bytes) -> None:
        """Write a part of a stream, past the transport if that has nothing to write. Never raises."""
        if self.lost:
            return
        outlet = self.outlet
        if outlet < 0:
            self.write_behind(data)
        else:
            self.write_past(outlet, data)

    @property
    def outlet(self) -> int:
        """The socket's descriptor, if parts of a stream may be written to it, made ready by `seal`; else negative."""
        if self._outlet == UNKNOWN:
            self._outlet = socket_of(self.transport)
            self.seal = seal_of(self.transport)
        return -1 if self.lost or self.choked or self._closing else self._outlet

    def common_headers(self, request: HttpRequest | None) -> list[tuple[str, str]]:
        headers = {} if request is None else request.headers
        allowed = self.http_port.origins.headers(headers.get("origin"), headers.get("host"))
        return [*self.http_port.identity_headers(), *allowed]

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
            settings = self.http_port.config.session
            compressed = compress_if_worthwhile(request, body, settings.use_compression, settings.compression_threshold)
            if compressed is not None:
                body = compressed
                found.append(("Content-Encoding", "gzip"))
        keep_alive = request.keep_alive and not close and not self.http_port.stopping
        if status not in BODILESS:
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
        self._request = None
        self._answering = None
        if self._is_shared:
            self._uncount()
        if not keep_open or (self._all_read and not self._waiting):
            self._close()
            return
        if not self._too_much_waits:
            self._resume()
        if not self.lost:
            self.http_port.idle[self] = None
        # Not called from here, because a long queue of requests would recurse.
        asyncio.get_running_loop().call_soon(self._next)

    def _refuse(self, error: HttpError) -> None:
        """Answer bytes that are not a request, and close."""
        if not self.lost:
            self._write_refusal(error)
            self._close()

    def _turn_away(self, error: HttpError) -> None:
        """Answer a connection beyond the limit, and close without waiting, because its descriptor is needed."""
        self._closing = True
        self._write_refusal(error)
        self.transport.close()
        # With TLS it would still wait for the peer.
        below(self.transport).close()

    def _write_refusal(self, error: HttpError) -> None:
        body = f"{error.message}\n".encode()
        headers = [
            *self.common_headers(None),
            *NO_CACHE,
            *TEXT,
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        self.transport.write(response_head(error.status, headers) + body)

    def _close(self) -> None:
        self._closing = True
        self.http_port.idle.pop(self, None)
        self._cancel_timers()
        self._resume()
        if self._all_read:
            self.transport.close()
        else:
            self._timer = close_gently(self.transport, self.http_port.config.limits.write_timeout_millis / 1000)

    def cut(self) -> None:
        if not self.lost:
            # The descriptor may be reused for another connection as soon as the socket is closed.
            self._outlet = -1
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
        if not request.is_complete and self._parser.error is not None:
            self._refuse(self._parser.error)
            return
        self._busy = True
        self._request = request
        self.http_port.idle.pop(self, None)
        self._cancel_timers()
        if self._all_read:
            self._limit_answer()
        try:
            self._identify(request)
            if not self.entrance.serves(request.path):
                raise HttpError(404, f"Not found: {request.path}")
            if request.upgrade and request.headers.get("upgrade", "").lower() == "websocket":
                self.http_port.requests["websocket"] += 1
                self.upgrade(request)
                return
            if request.upgrade:
                # Parsing has stopped after such a request: nothing can follow on this connection.
                request.keep_alive = False
            self.route(request)
        except HttpError as error:
            headers = (*TEXT, ("Allow", error.allow)) if error.allow else TEXT
            self.send_complete(request, error.status, headers, f"{error.message}\n".encode(), close=request.upgrade)

    def answer_by(self, answering: Answering) -> None:
        """The request will be answered by this object, which ends with `request_done` or `send_complete`."""
        self._answering = answering

    def go_ahead(self) -> None:
        """The peer may send the body of the request that is being answered."""
        self.transport.write(CONTINUE)

    def refuse(self, error: HttpError) -> None:
        """Answer the current request with an error, and close: nothing can follow it."""
        self._busy = False
        self._request = None
        self._answering = None
        self._refuse(error)

    @property
    def peer_has_ended(self) -> bool:
        """Whether the peer has closed its sending side."""
        return self._all_read

    @property
    def principal(self) -> str | None:
        """Whom the client's certificate names, which has been verified; None if it has presented none."""
        return self.vouched_principal or principal_of(self.transport)

    async def move(self, worker: str) -> bool:
        """Have a neighbour go on with this connection, from the request on that is being answered; False if it stays.

        Nothing of the answer may have been written.
        """
        assert self._request is not None
        assert self._beginning is not None
        self._pause()
        waiting = b"".join([request_bytes(request) for request in (self._request, *self._waiting)])
        rest = self._beginning.so_far() if self._parser.leftover is None else self._parser.leftover
        parcel = Parcel(self.entrance.name, self._peer.address, self._peer.port, self.principal)
        is_gone = await depart(self, worker, parcel, waiting + rest)
        if not is_gone and not self._too_much_waits:
            self._resume()
        return is_gone

    def let_go(self) -> None:
        self.lost = True  # For this object; the socket lives on.
        self._answering = None

    def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        """Release the socket to another protocol, which ends its place in the census; returns the bytes for that."""
        self.lost = True  # For this object; the socket lives on.
        self.http_port.connections.discard(self)
        self.http_port.idle.pop(self, None)
        # The last answer may refer to this object: break the cycle, so that neither waits for the garbage collector.
        self._answering = None
        self._cancel_timers()
        self._resume()
        self.transport.set_protocol(protocol)
        return self._parser.leftover or b""
