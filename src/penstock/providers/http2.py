"""One HTTP/2 connection from our side, over an asyncio transport: many requests at once, each with its answer.

`penstock.wire.http2` keeps the rules of the protocol; here is what waits: for a free stream, and for answers.
Not here: which connection is asked, and time-outs (`http`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import cast

import hpack

from penstock.wire.http2 import AnswerBody, AnswerHead, GoAway, Http2Client, Http2Event, Ready, Reset
from penstock.wire.http2_headers import NO_TABLE, packed

# Answers of providers are short; a longer one is cut off, and the request has failed.
MAX_REPLY = 32_768
# A block that is nothing but the status 200 begins with this byte: RFC 7541, appendix A.
_OK = 0x88


class HttpFailure(Exception):
    """There is no answer. The text is for people: it names the host and nothing else of the request."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    status: int
    # Of an answer with the status 200 none, because nobody looks at them.
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True, eq=False)
class PendingPost:
    """A request, and its answer when it comes."""

    reply: asyncio.Future[HttpReply]
    # Emptied when they are sent.
    block: bytes
    content: bytes
    stream: int = 0
    over: bool = False
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    # How much the connection had received when the request was made.
    heard: int = 0


class Http2Connection(asyncio.Protocol):
    """For `create_connection`. After `ready`, `post` as long as it `is_usable`; `closed` is done at the end."""

    def __init__(self, authority: str) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.is_usable = False
        self._loop = loop
        self._host = authority
        self._first = packed([(":method", "POST"), (":scheme", "https"), (":authority", authority)])
        self._http2 = Http2Client()
        self._transport: asyncio.Transport
        self._heard = 0
        self._open: dict[int, PendingPost] = {}
        # For a free stream.
        self._waiting: deque[PendingPost] = deque()
        self._flush_comes = False
        self._retired = False
        self._is_new = True

    # -- of the client ------------------------------------------------------------------------------------------------

    def post(self, path: str, headers: bytes, body: bytes) -> PendingPost:
        """Its `reply` is an HttpFailure if the connection ends before it. Who gives up calls `abandon`.

        `headers` are packed; those about path and length are added.
        """
        block = self._first + packed([(":path", path)]) + headers + packed([("content-length", str(len(body)))])
        exchange = PendingPost(self._loop.create_future(), block, body, heard=self._heard)
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
            self._cancel(exchange.stream)
        else:
            self._waiting.remove(exchange)
        if is_silent and exchange.heard == self._heard:
            self._end("it does not respond")
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
        self._transport.write(self._http2.take())

    def data_received(self, data: bytes) -> None:
        if self.closed.done():
            return
        self._heard += len(data)
        for event in self._http2.receive(data):
            self._take(event)
            if self.closed.done():
                return
        if self._http2.error is not None:
            self._end(f"HTTP/2 protocol error: {self._http2.error.text}")
        else:
            self._flush_soon()

    def connection_lost(self, error: Exception | None) -> None:
        self._end("it has closed the connection")

    # -- what comes ---------------------------------------------------------------------------------------------------

    def _take(self, event: Http2Event) -> None:
        if isinstance(event, Ready):
            self.is_usable = True
            self.ready.set_result(None)
            return
        if isinstance(event, GoAway):
            self._go_away(event)
            return
        exchange = self._open.get(event.stream)
        if exchange is None:
            # It was given up by an event that came together with this one.
            return
        if isinstance(event, AnswerHead):
            if not exchange.status:
                self._take_head(exchange, event.block)
            if event.is_last:
                self._answered(exchange)
        elif isinstance(event, AnswerBody):
            exchange.body += event.data
            if len(exchange.body) > MAX_REPLY:
                self._cancel(event.stream)
                self._fail(exchange, f"its answer has more than {MAX_REPLY} bytes")
            elif event.is_last:
                self._answered(exchange)
        elif isinstance(event, Reset):
            del self._open[event.stream]
            self._fail(exchange, "it has reset the request")

    def _take_head(self, exchange: PendingPost, block: bytes) -> None:
        if block and block[0] == _OK:
            exchange.status = 200
            return
        # Each block stands for itself, because the peer has been told to remember nothing.
        try:
            headers = {str(name): str(value) for name, value in hpack.Decoder().decode(block)}
        except (hpack.HPACKError, UnicodeDecodeError):
            headers = {}
        status = headers.pop(":status", "")
        found = int(status) if status.isascii() and status.isdecimal() else 0
        # One below is no answer yet: "continue", and hints.
        if found >= 200:
            exchange.status, exchange.headers = found, headers

    def _answered(self, exchange: PendingPost) -> None:
        del self._open[exchange.stream]
        if not exchange.status:
            self._fail(exchange, "its answer has no status")
            return
        exchange.over = True
        if not exchange.reply.done():
            exchange.reply.set_result(HttpReply(exchange.status, exchange.headers, exchange.body))

    def _go_away(self, event: GoAway) -> None:
        """What it has not looked at fails; to the rest it may still have answers."""
        if event.code:
            self._end("it has ended the connection")
            return
        for stream in [stream for stream in self._open if stream > event.last]:
            self._fail(self._open[stream], "it has ended the connection")
            self._cancel(stream)
        while self._waiting:
            self._fail(self._waiting.popleft(), "it has ended the connection")
        self.retire()

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
        while self._waiting and self._http2.has_room:
            exchange = self._waiting.popleft()
            block = NO_TABLE + exchange.block if self._is_new else exchange.block
            self._is_new = False
            exchange.stream = self._http2.begin(block, exchange.content)
            exchange.block = exchange.content = b""
            self._open[exchange.stream] = exchange
        if self._http2.is_used_up:
            self.is_usable, self._retired = False, True
        if data := self._http2.take():
            self._transport.write(data)
        if self._retired and not self._open and not self._waiting:
            self._end("the connection was replaced")

    def _cancel(self, stream: int) -> None:
        del self._open[stream]
        self._http2.cancel(stream)
        self._flush_soon()

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
        self._waiting.clear()
        for exchange in exchanges:
            self._fail(exchange, why)
        self._transport.abort()
