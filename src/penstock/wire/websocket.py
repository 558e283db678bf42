"""WebSocket without I/O: the handshake and incoming frames by the `websockets` core, outgoing text frames built here.

Outgoing data never passes through a library: a server frame is a short header and the payload. RFC 6455.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from websockets.datastructures import Headers
from websockets.exceptions import ProtocolError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN, SERVER, Protocol, State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from penstock.wire.http1 import HttpError, HttpRequest

_TEXT = 0x1
_FINAL = 0x80
_SHORT_LIMIT = 126
_MEDIUM_LIMIT = 65_536


def accept(request: HttpRequest, subprotocol: str) -> bytes:
    """The bytes of the 101 response that opens the socket with this subprotocol.

    Raises HttpError for a bad handshake.
    """
    if request.method != "GET":
        raise HttpError(405, f"{request.method} cannot open a WebSocket; GET can")
    handshake = ServerProtocol(subprotocols=[Subprotocol(subprotocol)])
    response = handshake.accept(Request(request.target, Headers(request.headers.items())))
    if response.status_code != 101:
        raise HttpError(426 if response.status_code == 426 else 400, response.body.decode("utf-8", "replace").strip())
    return response.serialize()


def subprotocols(request: HttpRequest) -> list[str]:
    """What the client offers, in its order."""
    return [name.strip() for name in request.headers.get("sec-websocket-protocol", "").split(",") if name.strip()]


def frame_header(size: int, first: bool, final: bool) -> bytes:
    """The header of an unmasked text (or continuation) frame."""
    opcode = (_TEXT if first else 0) | (_FINAL if final else 0)
    if size < _SHORT_LIMIT:
        return bytes((opcode, size))
    if size < _MEDIUM_LIMIT:
        return bytes((opcode, 126)) + size.to_bytes(2, "big")
    return bytes((opcode, 127)) + size.to_bytes(8, "big")


def text_messages(lines: Sequence[bytes], max_frame: int) -> list[bytes]:
    """Frames that carry whole lines: as many lines per message as fit into one frame, a longer line in several frames.

    Clients do not put a line together from two messages, so a message always ends at the end of a line.
    """
    payload = b"".join(lines)
    if len(payload) <= max_frame:
        return [frame_header(len(payload), True, True), payload]
    frames: list[bytes] = []
    message: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > max_frame and message:
            frames += (frame_header(size, True, True), *message)
            message = []
            size = 0
        if len(line) > max_frame:
            frames += _fragments(line, max_frame)
        else:
            message.append(line)
            size += len(line)
    if message:
        frames += (frame_header(size, True, True), *message)
    return frames


def _fragments(line: bytes, max_frame: int) -> Iterable[bytes]:
    for start in range(0, len(line), max_frame):
        part = line[start : start + max_frame]
        yield frame_header(len(part), start == 0, start + max_frame >= len(line))
        yield part


class FrameReader:
    """Incoming frames of an open socket: text messages come out, pings and closes are answered by `to_send`."""

    def __init__(self, max_size: int) -> None:
        self._core = Protocol(SERVER, state=OPEN, max_size=max_size)
        self._parts: list[bytes] = []
        # Set by `close`: what the peer sent after it was told to stop is not read.
        self._closing = False

    def feed(self, data: bytes) -> list[str]:
        """Take bytes in; return the complete text messages. What must be sent back is in `to_send`."""
        self._core.receive_data(data)
        messages: list[str] = []
        for event in self._core.events_received():
            assert isinstance(event, Frame)
            if self._closing:
                break
            if event.opcode is Opcode.BINARY:
                self.close(CloseCode.UNSUPPORTED_DATA, "TLCP is text; binary messages are not accepted")
            elif event.opcode in (Opcode.TEXT, Opcode.CONT):
                if event.data:
                    # Empty fragments cost the peer nothing and may be endless.
                    self._parts.append(bytes(event.data))
                if event.fin:
                    payload = b"".join(self._parts)
                    self._parts = []
                    try:
                        messages.append(payload.decode("utf-8"))
                    except UnicodeDecodeError:
                        self.close(CloseCode.INVALID_DATA, "The message is not UTF-8")
        return messages

    def eof(self) -> None:
        """The peer has closed its side of the connection."""
        self._core.receive_eof()

    def close(self, code: int, reason: str) -> None:
        """Begin the closing handshake, once."""
        self._closing = True
        if self._core.state is OPEN:
            self._core.send_close(code, reason)

    @property
    def is_open(self) -> bool:
        return self._core.state is OPEN

    @property
    def is_closed(self) -> bool:
        return self._core.state is State.CLOSED or self._core.close_expected()

    def to_send(self) -> list[bytes]:
        """Control frames to write; an empty one means: close the connection after the others."""
        return self._core.data_to_send()


__all__ = ["FrameReader", "ProtocolError", "accept", "frame_header", "subprotocols", "text_messages"]
