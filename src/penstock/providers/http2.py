"""One HTTP/2 connection from our side, by h2 over an asyncio transport: many requests at once, each with its answer.

h2 keeps the rules of the protocol; here is what waits: for a free stream, for the peer's windows, for answers.
Not here: which connection is asked, and time-outs (`http`). Read next: RFC 9113.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from penstock.providers.plain_headers import PlainEncoder

# Answers of providers are short; a longer one is cut off, and the request has failed.
MAX_REPLY = 32_768
# What the peer may send on all streams together before it hears from us.
RECEIVE_WINDOW = 1 << 24
# How many streams are begun before those that have ended are forgotten.
STREAMS_PER_LOOK = 256
# A connection with this many requests behind it makes way for a new one: the numbers of streams end at 2^31.
LAST_STREAM = 1 << 30


class HttpFailure(Exception):
    """There is no answer. The text is for people: it names the host and nothing else of the request."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True, eq=False)
class PendingPost:
    """A request, and its answer when it comes."""

    reply: asyncio.Future[HttpReply]
    head: list[tuple[str, str]]
    # What is not sent yet.
    rest: bytes
    stream: int = 0
    over: bool = False
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    # How much the connection had received when the request was made.
    heard: int = 0


class _CountedElsewhere(h2.connection.H2Connection):
    """h2 looks at all streams for each new one, to count those that are open, and forgets the others on the way.

    With 500 open that was a quarter of the time, under a profiler. `Http2Connection` counts them, so that looking now
    and then will do.
    """

    _asked = 0

    @property
    def open_outbound_streams(self) -> int:
        self._asked += 1
        if self._asked % STREAMS_PER_LOOK == 0:
            return super().open_outbound_streams
        return 0


class Http2Connection(asyncio.Protocol):
    """For `create_connection`. After `ready`, `post` as long as it `is_usable`; `closed` is done at the end."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.is_usable = False
        self._loop = loop
        # Our headers are made as they have to be, and of the provider's only status and Retry-After are used.
        config = h2.config.H2Configuration(
            client_side=True,
            header_encoding="utf-8",
            validate_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_inbound_headers=False,
            normalize_outbound_headers=False,
        )
        self._h2 = _CountedElsewhere(config)
        self._h2.encoder = PlainEncoder()
        self._transport: asyncio.Transport
        self._host = ""
        self._most = 0
        self._heard = 0
        self._open: dict[int, PendingPost] = {}
        # For a free stream, and for the peer's windows.
        self._waiting: deque[PendingPost] = deque()
        self._blocked: dict[int, PendingPost] = {}
        self._flush_comes = False
        self._retired = False

    # -- of the client ------------------------------------------------------------------------------------------------

    def post(self, authority: str, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> PendingPost:
        """Its `reply` is an HttpFailure if the connection ends before it. Who gives up calls `abandon`."""
        self._host = authority
        head = [(":method", "POST"), (":scheme", "https"), (":authority", authority), (":path", path), *headers]
        head.append(("content-length", str(len(body))))
        exchange = PendingPost(self._loop.create_future(), head, body, heard=self._heard)
        if self.closed.done():
            self._fail(exchange, "the connection is closed")
        else:
            self._waiting.append(exchange)
            self._flush_soon()
        return exchange

    def abandon(self, exchange: PendingPost, is_silent: bool) -> None:
        """Nobody waits for it any more. `is_silent`: for too long; then a peer that says nothing at all is left."""
        if exchange.over:
            return
        exchange.over = True
        exchange.reply.cancel()
        if exchange.stream:
            self._forget(exchange.stream)
            self._reset(exchange.stream)
        else:
            self._waiting.remove(exchange)
        if is_silent and exchange.heard == self._heard:
            self._end("it says nothing")
        else:
            self._flush_soon()

    def retire(self) -> None:
        """Take no more requests, and close when all have their answers."""
        self.is_usable = False
        self._retired = True
        self._flush_soon()

    def close(self) -> None:
        self._end("the connection was closed")

    # -- of asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            self.ready.set_exception(HttpFailure("the provider does not speak HTTP/2"))
            self._transport.abort()
            return
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(RECEIVE_WINDOW - 65_535)
        self._transport.write(self._h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        if self.closed.done():
            return
        self._heard += len(data)
        try:
            events = self._h2.receive_data(data)
        except (h2.exceptions.ProtocolError, ValueError) as error:
            # A UnicodeDecodeError of a header is a ValueError.
            self._end(f"it does not keep to HTTP/2 ({type(error).__name__})")
            return
        for event in events:
            self._take(event)
            if self.closed.done():
                return
        self._flush_soon()

    def connection_lost(self, error: Exception | None) -> None:
        self._end("it has closed the connection")

    # -- what comes ---------------------------------------------------------------------------------------------------

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            if exchange := self._open.get(event.stream_id or 0):
                headers = {str(name): str(value) for name, value in event.headers or ()}
                status = headers.pop(":status", "")
                exchange.status = int(status) if status.isascii() and status.isdecimal() else 0
                exchange.headers = headers
        elif isinstance(event, h2.events.StreamEnded):
            self._answered(event.stream_id or 0)
        elif isinstance(event, h2.events.DataReceived):
            self._take_data(event)
        elif isinstance(event, h2.events.StreamReset):
            if exchange := self._open.get(event.stream_id or 0):
                self._forget(exchange.stream)
                self._fail(exchange, "it has reset the request")
        elif isinstance(event, h2.events.RemoteSettingsChanged):
            # h2 has the numbers; the first of these is the peer's greeting.
            self._most = self._h2.remote_settings.max_concurrent_streams
            if not self.ready.done():
                self.is_usable = True
                self.ready.set_result(None)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self._end("it has ended the connection")

    def _take_data(self, event: h2.events.DataReceived) -> None:
        stream = event.stream_id or 0
        length = event.flow_controlled_length or 0
        if length:
            self._h2.acknowledge_received_data(length, stream)
        exchange = self._open.get(stream)
        if exchange is None:
            return
        exchange.body += event.data or b""
        if len(exchange.body) > MAX_REPLY:
            self._forget(stream)
            self._reset(stream)
            self._fail(exchange, f"its answer has more than {MAX_REPLY} bytes")

    def _answered(self, stream: int) -> None:
        exchange = self._open.get(stream)
        if exchange is None:
            return
        self._forget(stream)
        if exchange.rest:
            # It has answered before it has read everything, and does not want the rest.
            self._reset(stream)
        if not exchange.status:
            self._fail(exchange, "its answer has no status")
            return
        exchange.over = True
        if not exchange.reply.done():
            exchange.reply.set_result(HttpReply(exchange.status, exchange.headers, bytes(exchange.body)))

    # -- what goes ----------------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """Everything of a loop turn goes out in one write."""
        if not self._flush_comes:
            self._flush_comes = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_comes = False
        if self.closed.done():
            return
        for exchange in list(self._blocked.values()):
            self._send_rest(exchange)
        while self._waiting and len(self._open) < self._most:
            exchange = self._waiting.popleft()
            exchange.stream = stream = self._h2.get_next_available_stream_id()
            self._open[stream] = exchange
            self._h2.send_headers(stream, exchange.head, end_stream=not exchange.rest)
            exchange.head = []
            if exchange.rest:
                self._send_rest(exchange)
            if stream > LAST_STREAM:
                self.is_usable, self._retired = False, True
        if data := self._h2.data_to_send():
            self._transport.write(data)
        if self._retired and not self._open and not self._waiting:
            self._end("the connection was replaced")

    def _send_rest(self, exchange: PendingPost) -> None:
        stream, rest = exchange.stream, exchange.rest
        while rest:
            part = min(len(rest), self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
            if part <= 0:
                break
            self._h2.send_data(stream, rest[:part], end_stream=part == len(rest))
            rest = rest[part:]
        exchange.rest = rest
        if rest:
            self._blocked[stream] = exchange
        else:
            self._blocked.pop(stream, None)

    def _reset(self, stream: int) -> None:
        try:
            self._h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        except h2.exceptions.StreamClosedError:
            return
        self._flush_soon()

    def _forget(self, stream: int) -> None:
        self._open.pop(stream, None)
        self._blocked.pop(stream, None)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _fail(self, exchange: PendingPost, why: str) -> None:
        exchange.over = True
        if not exchange.reply.done():
            exchange.reply.set_exception(HttpFailure(f"{self._host}: {why}"))

    def _end(self, why: str) -> None:
        """Every request that has no answer yet has failed."""
        self.is_usable = False
        if self.closed.done():
            return
        self.closed.set_result(None)
        if not self.ready.done():
            self.ready.set_exception(HttpFailure("the provider has closed a new connection at once"))
        exchanges = [*self._open.values(), *self._waiting]
        self._open.clear()
        self._blocked.clear()
        self._waiting.clear()
        for exchange in exchanges:
            self._fail(exchange, why)
        self._transport.abort()
