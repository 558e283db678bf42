"""One WebSocket of the streaming port: text messages to their door in order, whole lines out, once per loop turn.

Frames are read and built in `wire.websocket`; how many requests are under way is in `doors.tlcp.intake`. It is a kernel
channel: a session may be bound to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from os import write
from typing import TYPE_CHECKING

from penstock.log import get
from penstock.transport.closing import close_gently
from penstock.transport.peer import port_of, principal_of
from penstock.transport.pressure import Patience, plain_socket
from penstock.wire.websocket import FrameReader, text_frames

if TYPE_CHECKING:
    from penstock.doors.stream.door import StreamDoor
    from penstock.doors.tlcp.intake import Intake
    from penstock.kernel.recovery import Batch
    from penstock.kernel.session import Session

log = get(__name__)

GOING_AWAY = 1001
POLICY = 1008

# Bytes of answers and pongs that a client may leave unread; beyond it nothing more is read from that client.
MAX_UNREAD = 1_048_576


class WebSocketConnection(asyncio.Protocol):
    """Nothing is read from it while too many of its requests wait for their answers."""

    __slots__ = (
        "_close_code",
        "_close_reason",
        "_closing",
        "_counted",
        "_idle_timer",
        "_intake",
        "_lines",
        "_outlet",
        "_patience",
        "_paused",
        "_queued",
        "_reader",
        "address",
        "door",
        "headers",
        "last_session",
        "lost",
        "secure",
        "session",
        "subprotocol",
        "transport",
    )

    websocket = True
    # A frame header of the usual length; what TCP and IP add is not counted.
    overhead = 4

    def __init__(
        self,
        door: StreamDoor,
        transport: asyncio.Transport,
        address: str,
        secure: bool,
        headers: Mapping[str, str],
        subprotocol: str,
    ) -> None:
        self.door = door
        self.transport = transport
        self.address = address
        self.secure = secure
        self.headers = headers
        self.subprotocol = subprotocol
        self.session: Session | None = None
        # Requests that name no session mean this one.
        self.last_session: str | None = None
        self.lost = False
        self._reader = FrameReader(door.config.limits.request_limit)
        # Only while there are requests without an answer: most sockets are silent, and its queues take 1,500 bytes.
        self._intake: Intake | None = None
        self._lines: list[bytes] = []
        self._queued = False
        self._close_code = 0
        self._close_reason = ""
        self._counted = False
        self._closing = False
        # The socket, as long as it is there and nothing is between it and the transport; else -1.
        self._outlet = plain_socket(transport)
        self._paused = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._patience: Patience | None = None

    def start(self, leftover: bytes, counted: bool) -> None:
        """The handshake is done; `leftover` are bytes that came with it."""
        self._counted = counted
        self.door.connections.add(self)
        self._watch()
        if leftover:
            self.data_received(leftover)

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        messages = self._reader.feed(data)
        if messages:
            if self._intake is None:
                self._intake = self.door.tlcp.new_intake(self)
            self._intake.add(messages)
        self._answer_frames()
        self.listen()

    def eof_received(self) -> bool:
        self._reader.eof()
        self._answer_frames()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._outlet = -1
        self._stop_watching()
        if self._patience is not None:
            self._patience.cancel()
        self.door.forget(self)
        if self._counted:
            self.door.connection_census.leave(self.address)
        if self._intake is not None:
            self._intake.cancel()
        session = self.session
        if session is not None:
            self.session = None
            session.drop()

    @property
    def port(self) -> int:
        return port_of(self.transport)

    @property
    def principal(self) -> str | None:
        return principal_of(self.transport)

    @property
    def congested(self) -> bool:
        """Whether the peer has left more unread than it should."""
        return self._patience is not None

    def pause_writing(self) -> None:
        self._patience = Patience(self.transport, self.door.config.limits.write_timeout_millis / 1000, self.door.ledger)
        if self.session is not None:
            self.session.congest()

    def resume_writing(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self.listen()
        if self.session is not None:
            self.session.relieve()

    # -- what comes in --------------------------------------------------------------------------------------------

    @property
    def listening(self) -> bool:
        """Whether it is read from."""
        return not self._paused

    def listen(self) -> None:
        """Read on, unless too many requests have no answer yet or too many answers have not been taken."""
        if self.lost:
            return
        intake = self._intake
        if intake is not None and intake.is_empty:
            self._intake = None
            # It has waited for us until now.
            self._watch()
        is_full = intake is not None and intake.is_full
        pauses = not self._closing and (is_full or self.transport.get_write_buffer_size() > MAX_UNREAD)
        if pauses == self._paused:
            return
        self._paused = pauses
        if pauses:
            self.transport.pause_reading()
            if self._patience is not None:
                self._patience.recount()
        else:
            self.transport.resume_reading()
            if self.session is not None:
                # What it has sent meanwhile is about to be read.
                self.session.touch()

    def _answer_frames(self) -> None:
        """Send pongs and closes that the reader has prepared."""
        answer = self._reader.to_send()
        if answer:
            self.transport.write(answer)
        if not self._reader.is_open and not self._closing:
            self._closing = True
            self._stop_watching()
            self._idle_timer = close_gently(self.transport, self.door.config.limits.write_timeout_millis / 1000)

    def _watch(self) -> None:
        """A socket that carries no session must say something now and then."""
        self._stop_watching()
        if self.session is None and not self.lost and not self._closing:
            self._idle_timer = asyncio.get_running_loop().call_later(
                self.door.config.limits.idle_timeout_millis / 1000, self._idle
            )

    def _idle(self) -> None:
        self._idle_timer = None
        # A session that has been bound since is what the socket is for; its end starts the watch anew. So does the
        # answer to the last request under way.
        if self.session is None and self._intake is None:
            self.close(POLICY, f"Idle for {self.door.config.limits.idle_timeout_millis} ms")

    def _stop_watching(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    # -- what goes out --------------------------------------------------------------------------------------------

    def limit(self, content_length: int) -> None:
        """A WebSocket has no length to run out of."""

    def write(self, lines: Sequence[bytes]) -> int:
        self._lines.extend(lines)
        self._flush_later()
        return sum(map(len, lines))

    def send(self, batch: Batch) -> None:
        if self._queued:
            # Something has to go before it.
            self._lines += batch.lines()
        elif not self._closing:
            frames = batch.framed
            if frames is None:
                frames = batch.framed = text_frames(batch.payload, self.door.config.stream.max_outbound_frame_size)
            # Not while the transport has something to write.
            if self._outlet >= 0 and self._patience is None:
                try:
                    # The transport would do the same: an eighth more updates at 50 in a write, a fifth at five.
                    sent = write(self._outlet, frames)
                except OSError:
                    # The transport will find out for itself, and knows what is to be done then.
                    sent = 0
                if sent == len(frames):
                    return
                frames = frames[sent:]
            try:
                self.transport.write(frames)
            except Exception:
                # One connection's trouble must not keep the others from writing.
                log.exception("connection failed while writing")
                self.cut()

    def room(self) -> int | None:
        return None

    def finish(self, close_socket: bool) -> None:
        self.session = None
        if close_socket:
            self.close(GOING_AWAY if self.door.stopping else 1000, "")
        else:
            self._watch()

    def abort(self) -> None:
        self.session = None
        self.transport.abort()

    def cut(self) -> None:
        """The connection is of no use any more; its loss is told to the session in the usual way."""
        self.transport.abort()

    def close(self, code: int, reason: str) -> None:
        """Close after what is waiting has been written."""
        self._close_code = code
        self._close_reason = reason
        self._flush_later()

    def close_if_idle(self) -> None:
        """The server stops."""
        self.close(GOING_AWAY, "The server is going down")

    def _flush_later(self) -> None:
        if not self._queued:
            self._queued = True
            self.door.turns.flush_later(self)

    def flush(self) -> None:
        self._queued = False
        lines = self._lines
        if self.lost or not self._reader.is_open:
            lines.clear()
            return
        if lines:
            self._lines = []
            self.transport.write(text_frames(b"".join(lines), self.door.config.stream.max_outbound_frame_size))
        if self._close_code:
            self._reader.close(self._close_code, self._close_reason)
            self._answer_frames()
