"""A server that speaks HTTP/2 over TLS by h2, answers as a function says, and misbehaves as it is told.

It stands in for providers of push notifications. Not here: what each of them looks at (tests/providers).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, cast

import h2.config
import h2.connection
import h2.events
import h2.settings
import hyperframe.frame


@dataclass(frozen=True, slots=True)
class PeerRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    # That of the client, as DER; None if it has shown none.
    certificate: bytes | None


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    # Before it the peer says that it takes no more requests, not even those that are on their way.
    is_last: bool = False


class Fault(Enum):
    """What it does instead of answering."""

    HANG = auto()
    # Another protocol, then the end of the connection.
    NONSENSE = auto()
    # One that HTTP/2 forbids: data that belongs to no request.
    WRONG_FRAME = auto()
    # The head of an answer, then the end of the connection.
    CLOSE_IN_THE_MIDDLE = auto()
    RESET = auto()
    GO_AWAY = auto()


PeerJudge: TypeAlias = Callable[[PeerRequest], PeerAnswer | Fault]


class Http2Peer:
    """`async with` listens at `port` of 127.0.0.1. `judge` may be replaced at any time."""

    def __init__(
        self,
        certificate: Path,
        private_key: Path,
        judge: PeerJudge,
        *,
        client_authorities: Path | None = None,
        max_streams: int = 1_000,
        window: int = 1 << 20,
        is_strict: bool = True,
    ) -> None:
        """One that is not strict is faster: h2 does not look at each header."""
        self.judge = judge
        self.max_streams = max_streams
        self.window = window
        self.is_strict = is_strict
        self.port = 0
        # Since the start: connections, and the most requests that were open at once on one of them.
        self.connections = 0
        self.most_streams = 0
        self.open: set[PeerConnection] = set()
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate, private_key)
        self._context.set_alpn_protocols(["h2"])
        if client_authorities is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(client_authorities)
        self._server: asyncio.Server

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        # The same port when it comes back after it was away.
        self._server = await loop.create_server(lambda: PeerConnection(self), "127.0.0.1", self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    def hang_up(self) -> None:
        """End all connections, without a word."""
        for connection in list(self.open):
            connection.hang_up()


class PeerConnection(asyncio.Protocol):
    def __init__(self, peer: Http2Peer) -> None:
        self._peer = peer
        config = h2.config.H2Configuration(
            client_side=False,
            header_encoding="utf-8",
            validate_inbound_headers=peer.is_strict,
            validate_outbound_headers=peer.is_strict,
            normalize_outbound_headers=peer.is_strict,
        )
        self._h2 = h2.connection.H2Connection(config)
        self._transport: asyncio.Transport
        self._certificate: bytes | None = None
        self._heads: dict[int, dict[str, str]] = {}
        self._bodies: dict[int, bytearray] = {}

    def hang_up(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._certificate = self._transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self._peer.connections += 1
        self._peer.open.add(self)
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self._peer.max_streams,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: self._peer.window,
            },
        )
        self._h2.initiate_connection()
        if self._peer.window > 65_535:
            self._h2.increment_flow_control_window(self._peer.window - 65_535)
        self._transport.write(self._h2.data_to_send())

    def connection_lost(self, error: Exception | None) -> None:
        self._peer.open.discard(self)

    def data_received(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                stream = event.stream_id or 0
                self._heads[stream] = {str(name): str(value) for name, value in event.headers or ()}
                self._bodies[stream] = bytearray()
                self._peer.most_streams = max(self._peer.most_streams, len(self._heads))
            elif isinstance(event, h2.events.DataReceived):
                self._bodies[event.stream_id or 0] += event.data or b""
                self._h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
            elif isinstance(event, h2.events.StreamReset):
                self._heads.pop(event.stream_id or 0, None)
            elif isinstance(event, h2.events.StreamEnded):
                self._answer(event.stream_id or 0)
                if self._transport.is_closing():
                    return
        self._transport.write(self._h2.data_to_send())

    def _answer(self, stream: int) -> None:
        headers, body = self._heads[stream], bytes(self._bodies.pop(stream))
        request = PeerRequest(headers[":method"], headers[":path"], headers, body, self._certificate)
        answer = self._peer.judge(request)
        if answer is Fault.HANG:
            return
        del self._heads[stream]
        if isinstance(answer, PeerAnswer):
            if answer.is_last:
                # By hand, because h2 says nothing more after its goodbye.
                self._transport.write(hyperframe.frame.GoAwayFrame(0, last_stream_id=stream).serialize())
            head = [(":status", str(answer.status)), *answer.headers.items()]
            self._h2.send_headers(stream, head, end_stream=not answer.body)
            if answer.body:
                for start in range(0, len(answer.body), 16_384):
                    part = answer.body[start : start + 16_384]
                    self._h2.send_data(stream, part, end_stream=start + len(part) == len(answer.body))
        elif answer is Fault.NONSENSE:
            self._transport.write(b"HTTP/1.1 200 OK\r\n\r\nThis is no frame, and this is not one either.")
            self._transport.close()
        elif answer is Fault.WRONG_FRAME:
            self._transport.write(b"\x00\x00\x04\x00\x00\x00\x00\x00\x00oops")
        elif answer is Fault.CLOSE_IN_THE_MIDDLE:
            self._h2.send_headers(stream, [(":status", "200")])
            self._transport.write(self._h2.data_to_send())
            self._transport.close()
        elif answer is Fault.RESET:
            self._h2.reset_stream(stream)
        elif answer is Fault.GO_AWAY:
            self._h2.close_connection()
            self._transport.write(self._h2.data_to_send())
            self._transport.close()
