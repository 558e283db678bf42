"""The client side of a WebSocket, as light as it can be: a handshake with a fixed key, text frames out, frames in.

For load only: a fixed key and a mask of zeros are cheap, legal to a server, and nothing a real client should do.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from hashlib import sha1
from typing import cast

_TEXT, _CLOSE, _PING, _PONG = 0x81, 0x88, 0x89, 0x8A
_MASKED = 0x80
_NO_MASK = b"\0\0\0\0"


def accept_key(key: bytes) -> bytes:
    """What a server must answer to a client's key. RFC 6455, section 4.2.2."""
    return b64encode(sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())


KEY = b64encode(b"penstock-bench-1")
_OPENING = (
    b"GET /lightstreamer HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: TLCP-2.4.0.lightstreamer.com\r\n"
    b"Sec-WebSocket-Key: " + KEY + b"\r\n\r\n"
)
_ACCEPTED = b"sec-websocket-accept: " + accept_key(KEY).lower() + b"\r\n"


def client_frame(text: str) -> bytes:
    """A masked text frame of up to 64 KiB."""
    payload = text.encode()
    size = len(payload)
    if size < 126:
        return bytes((_TEXT, _MASKED | size)) + _NO_MASK + payload
    return bytes((_TEXT, _MASKED | 126)) + size.to_bytes(2, "big") + _NO_MASK + payload


class WebSocketClient(asyncio.Protocol):
    """Subclasses implement `opened`, `received` and `failed`; the last may come more than once."""

    __slots__ = ("_buffer", "_is_open", "transport")

    def __init__(self) -> None:
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._buffer = b""
        self._is_open = False

    def opened(self) -> None:
        """The handshake is done."""
        raise NotImplementedError

    def received(self, payload: bytes) -> None:
        """A text message has come."""
        raise NotImplementedError

    def failed(self, reason: str) -> None:
        """The server has done what it must not."""
        raise NotImplementedError

    def send(self, text: str) -> None:
        self.transport.write(client_frame(text))

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(_OPENING)

    def connection_lost(self, error: Exception | None) -> None:
        self.failed("connection lost")

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        start = 0
        if not self._is_open:
            start = data.find(b"\r\n\r\n") + 4
            if start < 4:
                self._buffer = data
                return
            head = data[: start - 2].lower()
            if not head.startswith(b"http/1.1 101 ") or _ACCEPTED not in head:
                self.failed(f"handshake answered with {head[:60]!r}")
                return
            self._is_open = True
            self.opened()
        end = len(data)
        while end - start >= 2:
            size = data[start + 1]
            body = start + 2
            if size == 126:
                body = start + 4
                size = int.from_bytes(data[start + 2 : body], "big")
            elif size == 127:
                body = start + 10
                size = int.from_bytes(data[start + 2 : body], "big")
            if end < body + size:
                break
            self._frame(data[start], data[body : body + size])
            start = body + size
        if start < end:
            self._buffer = data[start:]

    def _frame(self, kind: int, payload: bytes) -> None:
        if kind == _TEXT:
            self.received(payload)
        elif kind == _PING:
            self.transport.write(bytes((_PONG, _MASKED | len(payload))) + _NO_MASK + payload)
        elif kind == _CLOSE:
            self.failed(f"closed by the server: {payload[:2].hex()} {payload[2:].decode('utf-8', 'replace')}")
        else:
            self.failed(f"unexpected frame {kind:#x}")
