"""WebSocket without I/O: incoming frames are read and outgoing text frames built here; a handshake that is out of the
ordinary is judged by the `websockets` core.

Frames need no library, because each is a short header and the payload; compression is in `deflate`. RFC 6455.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.utils import accept_key

from penstock.wire.deflate import COMPRESSED_BYTES, Deflate, NotCompressed, TooLong, offer
from penstock.wire.frames import FINAL, SHORT_LIMIT, TEXT, frame_header
from penstock.wire.http1 import HttpError, HttpRequest
from penstock.wire.quick import text_frame

_CONTINUATION = 0x0
_BINARY = 0x2
_CONTROL = 0x8
_CLOSE = 0x8
_PING = 0x9
_PONG = 0xA
_OPCODES = (_CONTINUATION, TEXT, _BINARY, _CLOSE, _PING, _PONG)
_MASKED = 0x80
# The reserved bit that marks a compressed message.
_RESERVED = 0x70
_COMPRESSED = 0x40

# The most bytes of a control frame's payload.
MAX_CONTROL = 125

# What is left of a close frame's payload for the reason, after the code.
MAX_REASON = MAX_CONTROL - 2

# Why a socket is closed. RFC 6455, section 7.4.1, which also says which of these codes a peer may send.
PROTOCOL_ERROR = 1002
UNSUPPORTED_DATA = 1003
INVALID_DATA = 1007
MESSAGE_TOO_BIG = 1009
_CLOSE_CODES = (1000, 1001, 1002, 1003, *range(1007, 1015))

# What clients send: the options of the connection, and 16 random bytes in base64.
_CONNECTIONS = ("upgrade", "keep-alive, upgrade")
_KEY = re.compile(r"[A-Za-z0-9+/]{21}[AQgw]==")


class Acceptance:
    """A valid handshake: the bytes of the 101 response, and the negotiated compression."""

    __slots__ = ("answer", "deflate")

    def __init__(self, answer: bytes, deflate: Deflate | None) -> None:
        self.answer = answer
        self.deflate = deflate


def accept(request: HttpRequest, subprotocol: str | None = None, may_compress: bool = False) -> Acceptance:
    """The response that opens the socket, with a subprotocol if one is given. Raises HttpError for a bad handshake."""
    if request.method != "GET":
        raise HttpError(405, f"{request.method} cannot open a WebSocket; GET can", allow="GET")
    if _is_ordinary(request.headers, subprotocol, may_compress):
        return Acceptance(_answer(request.headers["sec-websocket-key"], subprotocol), None)
    handshake = ServerProtocol(
        subprotocols=None if subprotocol is None else [Subprotocol(subprotocol)],
        extensions=[offer()] if may_compress else None,
    )
    response = handshake.accept(Request(request.target, Headers(request.headers.items())))
    if response.status_code != 101:
        raise HttpError(426 if response.status_code == 426 else 400, response.body.decode("utf-8", "replace").strip())
    # There is only one that can have been negotiated.
    agreed = handshake.extensions
    return Acceptance(response.serialize(), Deflate(agreed[0]) if agreed else None)


def _is_ordinary(headers: dict[str, str], subprotocol: str | None, may_compress: bool) -> bool:
    """Whether the handshake is valid, and leaves nothing to negotiate: all but a few are, and the library takes many
    times as long for them. Also False when that is not quite clear.
    """
    return (
        headers.get("upgrade", "").lower() == "websocket"
        and headers.get("sec-websocket-version") == "13"
        and _KEY.fullmatch(headers.get("sec-websocket-key", "")) is not None
        and headers.get("connection", "").lower() in _CONNECTIONS
        and (subprotocol is None or headers.get("sec-websocket-protocol") == subprotocol)
        and not (may_compress and "sec-websocket-extensions" in headers)
    )


def _answer(key: str, subprotocol: str | None) -> bytes:
    chosen = "" if subprotocol is None else f"Sec-WebSocket-Protocol: {subprotocol}\r\n"
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_key(key)}\r\n{chosen}\r\n"
    ).encode()


def subprotocols(request: HttpRequest) -> list[str]:
    """What the client offers, in its order."""
    return [name.strip() for name in request.headers.get("sec-websocket-protocol", "").split(",") if name.strip()]


def message_frame(message: bytes, deflate: Deflate | None) -> bytes:
    """The one frame of a whole text message, compressed if that was negotiated and is worthwhile."""
    if deflate is not None and len(message) >= COMPRESSED_BYTES:
        return deflate.text_frame(message)
    return frame_header(len(message), True, True) + message


def text_frames(payload: bytes, max_frame: int) -> bytes:
    """The frames of whole lines; see `text_messages`."""
    if len(payload) <= max_frame:
        frame: bytes = text_frame(payload)
        return frame
    return b"".join(text_messages(payload.splitlines(keepends=True), max_frame))


def text_messages(lines: Sequence[bytes], max_frame: int) -> list[bytes]:
    """Frames that carry whole lines: as many lines per message as fit into one frame, a longer line in several frames.

    Clients do not put a line together from two messages, so a message always ends at the end of a line.
    """
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


def client_message(message: bytes, first: bool = True, final: bool = True) -> bytes:
    """A frame as a client sends it, with a mask that changes nothing: for a reader that goes on elsewhere."""
    header = frame_header(len(message), first, final)
    return bytes((header[0], header[1] | _MASKED)) + header[2:] + bytes(4) + message


def _fragments(line: bytes, max_frame: int) -> Iterable[bytes]:
    for start in range(0, len(line), max_frame):
        part = line[start : start + max_frame]
        yield frame_header(len(part), start == 0, start + max_frame >= len(line))
        yield part


class FrameReader:
    """Incoming frames of an open socket: text messages come out, pings and closes are answered by `to_send`.

    Binary messages close the socket, or are ignored if `skips_binary`. Not the `websockets` parser, because each takes
    far more memory for as long as the socket is open.
    """

    __slots__ = (
        "_answer",
        "_fragments",
        "_gathered",
        "_is_skipping",
        "_max_size",
        "_rest",
        "_skips_binary",
        "deflate",
        "is_open",
    )

    def __init__(self, max_size: int, deflate: Deflate | None = None, skips_binary: bool = False) -> None:
        """`max_size` is the most bytes of a message after decompression."""
        self._max_size = max_size
        self.deflate = deflate
        self._skips_binary = skips_binary
        # Whether the message being read is a binary one.
        self._is_skipping = False
        # The beginning of a frame; the parts of a message so far, and how many bytes they are; None between them.
        self._rest: bytearray | None = None
        self._fragments: list[bytes] | None = None
        self._gathered = 0
        self._answer = b""
        # False after the first close frame, whoever sent it, or after the end of the stream: nothing more is read.
        self.is_open = True

    def feed(self, data: bytes) -> list[str]:
        """Parse bytes; return the complete text messages. What must be sent back is in `to_send`."""
        messages: list[str] = []
        rest = self._rest
        if rest is not None:
            rest += data
        unread: bytes | bytearray = data if rest is None else rest
        start = 0
        while self.is_open:
            end = self._read(unread, start, messages)
            if end == start:
                break
            start = end
        if not self.is_open or start == len(unread):
            self._rest = None
        elif start or rest is None:
            self._rest = bytearray(unread[start:])
        return messages

    def _read(self, data: bytes | bytearray, start: int, messages: list[str]) -> int:
        """Read one frame; return where it ends, or where it begins if it is not complete."""
        if len(data) < start + 2:
            return start
        first, second = data[start], data[start + 1]
        opcode = first & 0x0F
        final = first & FINAL != 0
        size = second & 0x7F
        reserved = first & _RESERVED
        marked = reserved == _COMPRESSED and self.deflate is not None and opcode in (TEXT, _BINARY)
        if (reserved and not marked) or opcode not in _OPCODES:
            return self._fail(PROTOCOL_ERROR, "A reserved bit or opcode", start)
        if not second & _MASKED:
            return self._fail(PROTOCOL_ERROR, "A frame without a mask", start)
        if opcode & _CONTROL and (size > MAX_CONTROL or not final):
            return self._fail(PROTOCOL_ERROR, "A control frame that is too long or fragmented", start)
        body = start + 2
        if size >= SHORT_LIMIT:
            length = 2 if size == SHORT_LIMIT else 8
            if len(data) < body + length:
                return start
            size = int.from_bytes(data[body : body + length], "big")
            body += length
        if not opcode & _CONTROL and self._gathered + size > self._max_size:
            return self._fail(MESSAGE_TOO_BIG, f"A message of more than {self._max_size} bytes", start)
        body += 4
        end = body + size
        if len(data) < end:
            return start
        payload = _unmasked(data[body:end], data[body - 4 : body])
        if opcode & _CONTROL:
            self._take_control(opcode, payload)
        else:
            self._take_data(opcode, final, marked, payload, messages)
        return end

    def _take_data(self, opcode: int, final: bool, marked: bool, payload: bytes, messages: list[str]) -> None:
        fragments = self._fragments
        if opcode == _BINARY and not self._skips_binary:
            self.close(UNSUPPORTED_DATA, "Binary messages are not accepted here")
            return
        if (opcode != _CONTINUATION) != (fragments is None):
            self.close(PROTOCOL_ERROR, "A message inside a message, or a continuation without a message")
            return
        if self.deflate is not None:
            try:
                payload = self.deflate.inflated(opcode, payload, final, marked, self._max_size - self._gathered)
            except TooLong:
                self.close(MESSAGE_TOO_BIG, f"A message of more than {self._max_size} bytes")
                return
            except NotCompressed:
                self.close(PROTOCOL_ERROR, "A message marked as compressed that cannot be decompressed")
                return
        if opcode != _CONTINUATION:
            self._is_skipping = opcode == _BINARY
        if not final or fragments is not None:
            if fragments is None:
                fragments = self._fragments = []
            self._gathered += len(payload)
            if payload and not self._is_skipping:
                # Empty fragments cost the peer nothing, and there could be any number of them.
                fragments.append(payload)
            if not final:
                return
            payload = b"".join(fragments)
            self._fragments = None
            self._gathered = 0
        if self._is_skipping:
            return
        try:
            messages.append(payload.decode())
        except UnicodeDecodeError:
            self.close(INVALID_DATA, "The message is not UTF-8")

    def _take_control(self, opcode: int, payload: bytes) -> None:
        if opcode == _PING:
            self._answer += bytes((FINAL | _PONG, len(payload))) + payload
        elif opcode == _CLOSE:
            self._take_close(payload)

    def _take_close(self, payload: bytes) -> None:
        code = int.from_bytes(payload[:2], "big")
        # A close may come inside a message, like any control frame: the incomplete message is dropped.
        if payload and (len(payload) == 1 or not (code in _CLOSE_CODES or 3000 <= code < 5000)):
            self.close(PROTOCOL_ERROR, "An invalid close code")
        else:
            try:
                self.close(code, payload[2:].decode())
            except UnicodeDecodeError:
                self.close(INVALID_DATA, "The reason of a close is not UTF-8")

    def _fail(self, code: int, reason: str, start: int) -> int:
        self.close(code, reason)
        return start

    def unfinished(self) -> bytes:
        """Frames that read as what has been read of a message, for a reader that goes on elsewhere."""
        frames = b""
        if self._fragments is not None:
            frames = client_message(b"".join(self._fragments), True, False)
        return frames if self._rest is None else frames + self._rest

    def eof(self) -> None:
        """The peer has closed its side of the connection."""
        self.is_open = False

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, once; code 0 sends it without code and reason. Nothing is read from now on."""
        if self.is_open:
            self.is_open = False
            # The reason is cut between two characters.
            text = reason.encode()[:MAX_REASON].decode("utf-8", "ignore").encode()
            payload = code.to_bytes(2, "big") + text if code else b""
            self._answer += bytes((FINAL | _CLOSE, len(payload))) + payload

    def ping(self) -> None:
        """Send a ping, which the peer must answer."""
        if self.is_open:
            self._answer += bytes((FINAL | _PING, 0))

    def to_send(self) -> bytes:
        """Control frames to write."""
        answer = self._answer
        self._answer = b""
        return answer


def _unmasked(data: bytes | bytearray, key: bytes | bytearray) -> bytes:
    size = len(data)
    mask = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(mask, "little")).to_bytes(size, "little")


__all__ = [
    "Acceptance",
    "FrameReader",
    "accept",
    "client_message",
    "frame_header",
    "message_frame",
    "subprotocols",
    "text_frames",
    "text_messages",
]
