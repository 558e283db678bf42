"""HTTP/2 from a client's side, without I/O: frames are read and written here, windows and numbers of streams are kept.

Blocks of headers are bytes here; `http2_headers` packs them. The peer is told to remember no headers, so that each
block stands for itself. It cannot push, and its priorities are ignored. RFC 9113.
"""

from __future__ import annotations

from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Kinds of frames, section 6.
DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

# Settings, section 6.5.2.
HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5

# Codes of errors, section 7.
PROTOCOL_ERROR: Final = 1
FLOW_CONTROL_ERROR: Final = 3
FRAME_SIZE_ERROR: Final = 6
CANCEL: Final = 8
ENHANCE_YOUR_CALM: Final = 11

FRAME_HEADER: Final = 9
# The longest frame that either side takes, unless a peer says that it takes longer ones.
SHORTEST_MAX_FRAME: Final = 16_384
LONGEST_MAX_FRAME: Final = (1 << 24) - 1
FIRST_WINDOW: Final = 65_535
LARGEST_WINDOW: Final = (1 << 31) - 1
# What the peer may send on all streams together before it hears from us.
RECEIVE_WINDOW: Final = 1 << 24
# Bytes of one block of headers, in as many frames as it likes.
MAX_BLOCK: Final = 65_536
# A connection with this many requests behind it makes way for a new one: the numbers of streams end at 2^31.
LAST_STREAM: Final = 1 << 30
# The most that is told to a peer without it reading: pings and settings are answered at once.
MAX_ANSWERS: Final = 10_000


class Http2Error(Exception):
    """The peer does not keep to the protocol: nothing that it says afterwards can be understood."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Http2Event:
    """Something about a stream; about the connection if that is 0."""

    __slots__ = ("stream",)

    def __init__(self, stream: int) -> None:
        self.stream = stream


class Ready(Http2Event):
    """The peer has said its first settings: requests can be made."""

    __slots__ = ()


class AnswerHead(Http2Event):
    """A block of headers: one or more before the body, at most one behind it. `is_last`: the answer ends with it."""

    __slots__ = ("block", "is_last")

    def __init__(self, stream: int, block: bytes, is_last: bool) -> None:
        super().__init__(stream)
        self.block = block
        self.is_last = is_last


class AnswerBody(Http2Event):
    """A part of the body. `is_last`: the answer ends with it."""

    __slots__ = ("data", "is_last")

    def __init__(self, stream: int, data: bytes, is_last: bool) -> None:
        super().__init__(stream)
        self.data = data
        self.is_last = is_last


class Reset(Http2Event):
    """The peer has given a request up."""

    __slots__ = ("code",)

    def __init__(self, stream: int, code: int) -> None:
        super().__init__(stream)
        self.code = code


class GoAway(Http2Event):
    """The peer takes no more requests, and has not looked at those above `last`; the others may still be answered."""

    __slots__ = ("code", "last")

    def __init__(self, last: int, code: int) -> None:
        super().__init__(0)
        self.last = last
        self.code = code


class _Stream:
    """A request whose answer has not ended."""

    __slots__ = ("rest", "window")

    def __init__(self, window: int) -> None:
        # How much the peer takes, and what it has not taken yet.
        self.window = window
        self.rest = b""


class Http2Client:
    """`take` what is to be sent after each call. When there is an `error`, the connection is to be closed."""

    __slots__ = (
        "_answers",
        "_block",
        "_block_of",
        "_block_size",
        "_blocked",
        "_buffer",
        "_consumed",
        "_first_window",
        "_is_ready",
        "_next",
        "_out",
        "_streams",
        "_window",
        "error",
        "max_frame",
        "max_streams",
    )

    def __init__(self) -> None:
        # Why nothing more of what the peer says is understood.
        self.error: Http2Error | None = None
        # The peer's limits. Before it has said how many streams it takes, there are no requests.
        self.max_streams = 0
        self.max_frame = SHORTEST_MAX_FRAME
        self._first_window = FIRST_WINDOW
        self._window = FIRST_WINDOW
        self._streams: dict[int, _Stream] = {}
        # Numbers of those that have something to send, and wait for a window.
        self._blocked: dict[int, _Stream] = {}
        self._next = 1
        self._is_ready = False
        self._buffer = b""
        # What the peer has sent since it was last told that it may go on.
        self._consumed = 0
        # The frames of a block of headers so far: its stream, its flags.
        self._block: list[bytes] = []
        self._block_size = 0
        self._block_of = (0, 0)
        self._answers = 0
        settings = _setting(HEADER_TABLE_SIZE, 0) + _setting(ENABLE_PUSH, 0)
        self._out: list[bytes] = [PREFACE, _frame(SETTINGS, 0, 0, settings), _update(0, RECEIVE_WINDOW - FIRST_WINDOW)]

    # -- what goes out ------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether another request can begin."""
        return len(self._streams) < self.max_streams

    @property
    def is_used_up(self) -> bool:
        return self._next > LAST_STREAM

    def begin(self, block: bytes, body: bytes) -> int:
        """A request, if there `has_room`; its number. The body goes as far as the peer's windows allow."""
        number = self._next
        self._next = number + 2
        stream = self._streams[number] = _Stream(self._first_window)
        ends = 0 if body else END_STREAM
        size, most = len(block), self.max_frame
        if size <= most:
            self._out.append(_frame(HEADERS, END_HEADERS | ends, number, block))
        else:
            self._out.append(_frame(HEADERS, ends, number, block[:most]))
            for start in range(most, size, most):
                flags = END_HEADERS if start + most >= size else 0
                self._out.append(_frame(CONTINUATION, flags, number, block[start : start + most]))
        if body:
            stream.rest = body
            self._send_rest(number, stream)
        return number

    def cancel(self, number: int) -> None:
        """Nobody waits for the answer any more."""
        if self._streams.pop(number, None) is not None:
            self._blocked.pop(number, None)
            self._out.append(_frame(RST_STREAM, 0, number, CANCEL.to_bytes(4, "big")))

    def take(self) -> bytes:
        """What is to be sent now."""
        out, self._out = self._out, []
        self._answers = 0
        return b"".join(out)

    def _send_rest(self, number: int, stream: _Stream) -> None:
        rest = stream.rest
        size = len(rest)
        sent = 0
        while sent < size:
            part = min(size - sent, stream.window, self._window, self.max_frame)
            if part <= 0:
                break
            end = sent + part
            self._out.append(_frame(DATA, END_STREAM if end == size else 0, number, rest[sent:end]))
            stream.window -= part
            self._window -= part
            sent = end
        stream.rest = rest[sent:]
        if sent < size:
            self._blocked[number] = stream
        else:
            self._blocked.pop(number, None)

    def _send_blocked(self) -> None:
        for number, stream in list(self._blocked.items()):
            if self._window <= 0:
                return
            self._send_rest(number, stream)

    def _answer(self, frame: bytes) -> None:
        self._answers += 1
        if self._answers > MAX_ANSWERS:
            raise Http2Error(ENHANCE_YOUR_CALM, "too many pings and settings")
        self._out.append(frame)

    # -- what comes in ------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Http2Event]:
        """What the peer has said, in its order, up to an `error`."""
        events: list[Http2Event] = []
        if self.error is None:
            try:
                self._receive(data, events)
            except Http2Error as error:
                self.error = error
        return events

    def _receive(self, data: bytes, events: list[Http2Event]) -> None:
        if self._buffer:
            data = self._buffer + data
        place, size = 0, len(data)
        while size - place >= FRAME_HEADER:
            length = (data[place] << 16) | (data[place + 1] << 8) | data[place + 2]
            if length > SHORTEST_MAX_FRAME:
                raise Http2Error(FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            end = place + FRAME_HEADER + length
            if end > size:
                break
            number = int.from_bytes(data[place + 5 : place + 9], "big") & LARGEST_WINDOW
            self._read(data[place + 3], data[place + 4], number, data[place + FRAME_HEADER : end], events)
            place = end
        self._buffer = data[place:]
        if self._consumed > RECEIVE_WINDOW // 2:
            self._out.append(_update(0, self._consumed))
            self._consumed = 0

    def _read(self, kind: int, flags: int, number: int, payload: bytes, events: list[Http2Event]) -> None:
        if self._block and kind != CONTINUATION:
            raise Http2Error(PROTOCOL_ERROR, "expected CONTINUATION")
        if not self._is_ready and kind != SETTINGS:
            raise Http2Error(PROTOCOL_ERROR, "expected SETTINGS as the first frame")
        if kind == HEADERS:
            self._read_headers(flags, number, payload, events)
        elif kind == DATA:
            self._read_data(flags, number, payload, events)
        elif kind == WINDOW_UPDATE:
            self._read_update(number, payload, events)
        elif kind == RST_STREAM:
            self._expect(number, payload, 4)
            if self._streams.pop(number, None) is not None:
                self._blocked.pop(number, None)
                events.append(Reset(number, int.from_bytes(payload, "big")))
        elif kind == SETTINGS:
            self._read_settings(flags, number, payload, events)
        elif kind == PING:
            if number or len(payload) != 8:
                raise Http2Error(PROTOCOL_ERROR if number else FRAME_SIZE_ERROR, "an invalid PING frame")
            if not flags & ACK:
                self._answer(_frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            if number or len(payload) < 8:
                raise Http2Error(PROTOCOL_ERROR if number else FRAME_SIZE_ERROR, "an invalid GOAWAY frame")
            last = int.from_bytes(payload[:4], "big") & LARGEST_WINDOW
            events.append(GoAway(last, int.from_bytes(payload[4:8], "big")))
        elif kind == CONTINUATION:
            self._read_continuation(flags, number, payload, events)
        elif kind == PUSH_PROMISE:
            raise Http2Error(PROTOCOL_ERROR, "PUSH_PROMISE, although push is disabled")
        elif kind == PRIORITY and (not number or len(payload) != 5):
            raise Http2Error(PROTOCOL_ERROR if not number else FRAME_SIZE_ERROR, "an invalid PRIORITY frame")

    def _expect(self, number: int, payload: bytes, size: int) -> None:
        """A frame of a size, about a stream that has begun."""
        self._expect_begun(number)
        if len(payload) != size:
            raise Http2Error(FRAME_SIZE_ERROR, f"a frame of {len(payload)} bytes; expected {size}")

    def _expect_begun(self, number: int) -> None:
        if not number & 1 or number >= self._next:
            raise Http2Error(PROTOCOL_ERROR, f"a frame on stream {number}, which was never opened")

    def _ended(self, number: int) -> bool:
        """An answer is complete; the rest of its request is not wanted. Whether somebody has waited for it."""
        if number in self._blocked:
            self.cancel(number)
            return True
        return self._streams.pop(number, None) is not None

    def _read_headers(self, flags: int, number: int, payload: bytes, events: list[Http2Event]) -> None:
        self._expect_begun(number)
        if flags & PADDED:
            payload = _unpadded(payload)
        if flags & HAS_PRIORITY:
            if len(payload) < 5:
                raise Http2Error(FRAME_SIZE_ERROR, "HEADERS too short for a priority")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._tell_head(number, flags, payload, events)
        else:
            self._block = [payload]
            self._block_size = len(payload)
            self._block_of = (number, flags)

    def _read_continuation(self, flags: int, number: int, payload: bytes, events: list[Http2Event]) -> None:
        if not self._block or number != self._block_of[0]:
            raise Http2Error(PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        self._block.append(payload)
        # Each frame counts as well, so that empty ones come to an end.
        self._block_size += len(payload) + 1
        if self._block_size > MAX_BLOCK:
            raise Http2Error(ENHANCE_YOUR_CALM, f"more than {MAX_BLOCK} bytes of headers")
        if flags & END_HEADERS:
            block, self._block = b"".join(self._block), []
            self._tell_head(number, self._block_of[1], block, events)

    def _tell_head(self, number: int, flags: int, block: bytes, events: list[Http2Event]) -> None:
        is_last = bool(flags & END_STREAM)
        if self._ended(number) if is_last else number in self._streams:
            events.append(AnswerHead(number, block, is_last))

    def _read_data(self, flags: int, number: int, payload: bytes, events: list[Http2Event]) -> None:
        self._expect_begun(number)
        self._consumed += len(payload)
        if self._consumed > RECEIVE_WINDOW:
            raise Http2Error(FLOW_CONTROL_ERROR, "flow-control window exceeded")
        if flags & PADDED:
            payload = _unpadded(payload)
        is_last = bool(flags & END_STREAM)
        if self._ended(number) if is_last else number in self._streams:
            events.append(AnswerBody(number, payload, is_last))

    def _read_update(self, number: int, payload: bytes, events: list[Http2Event]) -> None:
        if number:
            self._expect(number, payload, 4)
        elif len(payload) != 4:
            raise Http2Error(FRAME_SIZE_ERROR, "an invalid WINDOW_UPDATE frame")
        more = int.from_bytes(payload, "big") & LARGEST_WINDOW
        if not number:
            self._window += more
            if not more or self._window > LARGEST_WINDOW:
                raise Http2Error(FLOW_CONTROL_ERROR if more else PROTOCOL_ERROR, "an invalid WINDOW_UPDATE frame")
            self._send_blocked()
            return
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.window += more
        if not more or stream.window > LARGEST_WINDOW:
            self.cancel(number)
            events.append(Reset(number, FLOW_CONTROL_ERROR if more else PROTOCOL_ERROR))
        elif stream.rest:
            self._send_rest(number, stream)

    def _read_settings(self, flags: int, number: int, payload: bytes, events: list[Http2Event]) -> None:
        if number:
            raise Http2Error(PROTOCOL_ERROR, "SETTINGS on a stream; expected stream 0")
        if flags & ACK:
            if payload or not self._is_ready:
                raise Http2Error(FRAME_SIZE_ERROR if payload else PROTOCOL_ERROR, "an invalid SETTINGS acknowledgement")
            return
        if len(payload) % 6:
            raise Http2Error(FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes; expected a multiple of 6")
        if not self._is_ready:
            # There is no limit until one is said.
            self.max_streams = LAST_STREAM
        for place in range(0, len(payload), 6):
            name = int.from_bytes(payload[place : place + 2], "big")
            self._set(name, int.from_bytes(payload[place + 2 : place + 6], "big"))
        self._answer(_frame(SETTINGS, ACK, 0, b""))
        if not self._is_ready:
            self._is_ready = True
            events.append(Ready(0))
        else:
            self._send_blocked()

    def _set(self, name: int, value: int) -> None:
        if name == MAX_CONCURRENT_STREAMS:
            self.max_streams = value
        elif name == INITIAL_WINDOW_SIZE:
            if value > LARGEST_WINDOW:
                raise Http2Error(FLOW_CONTROL_ERROR, "an invalid initial window size")
            for stream in self._streams.values():
                # It may be below nothing then.
                stream.window += value - self._first_window
                if stream.window > LARGEST_WINDOW:
                    raise Http2Error(FLOW_CONTROL_ERROR, "an invalid initial window size")
            self._first_window = value
        elif name == MAX_FRAME_SIZE:
            if not SHORTEST_MAX_FRAME <= value <= LONGEST_MAX_FRAME:
                raise Http2Error(PROTOCOL_ERROR, "an invalid maximum frame size")
            self.max_frame = value
        elif name == ENABLE_PUSH and value:
            raise Http2Error(PROTOCOL_ERROR, "the server set ENABLE_PUSH")


def _frame(kind: int, flags: int, number: int, payload: bytes) -> bytes:
    return (len(payload) << 48 | kind << 40 | flags << 32 | number).to_bytes(FRAME_HEADER, "big") + payload


def _setting(name: int, value: int) -> bytes:
    return (name << 32 | value).to_bytes(6, "big")


def _update(number: int, more: int) -> bytes:
    return _frame(WINDOW_UPDATE, 0, number, more.to_bytes(4, "big"))


def _unpadded(payload: bytes) -> bytes:
    padding = payload[0] if payload else 0
    if padding >= len(payload):
        raise Http2Error(PROTOCOL_ERROR, "padding that exceeds the frame")
    return payload[1 : len(payload) - padding]
