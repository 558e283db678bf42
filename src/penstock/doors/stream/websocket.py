"""One WebSocket of the streaming port: text messages to their door in order, whole lines out, once per loop turn.

The socket itself is in `transport.websocket`; how many requests are under way is in `doors.tlcp.intake`. It is a kernel
channel: a session may be bound to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.transport.parcel import Parcel, SocketFacts
from penstock.transport.websocket import GOING_AWAY, NORMAL, WebSocket
from penstock.wire.tlcp.version import subprotocol_version
from penstock.wire.websocket import Acceptance, text_frames

if TYPE_CHECKING:
    from penstock.doors.stream.door import StreamDoor
    from penstock.doors.stream.http import StreamConnection
    from penstock.doors.tlcp.intake import SocketIntake
    from penstock.kernel.headers import KeptHeaders
    from penstock.kernel.recovery import Batch
    from penstock.kernel.session import Session


class WebSocketConnection(WebSocket):
    """It is not read while too many of its requests wait for their answers."""

    __slots__ = (
        "_closes",
        "_intake",
        "_lines",
        "_queued",
        "headers",
        "last_session",
        "session",
        "subprotocol",
    )

    http_port: StreamDoor

    websocket = True
    # Nobody repeats a poll on it: a client that misses the end of one recovers its session.
    broken = False
    # A frame header of the usual length; what TCP and IP add is not counted.
    overhead = 4

    def __init__(
        self, connection: StreamConnection, acceptance: Acceptance, headers: KeptHeaders, subprotocol: str
    ) -> None:
        super().__init__(connection, acceptance, connection.door.config.limits.request_limit)
        self.headers = headers
        self.subprotocol = subprotocol
        self.session: Session | None = None
        # Requests that name no session refer to this one.
        self.last_session: str | None = None
        # Made only while there are unanswered requests: most sockets are silent, and its queues take memory.
        self._intake: SocketIntake | None = None
        # None while there are none: an empty list takes memory, too.
        self._lines: list[bytes] | None = None
        self._queued = False
        # The code and reason of a close that has to wait for what must be sent before it.
        self._closes: tuple[int, str] | None = None

    # -- doors.stream.link.StreamLink ------------------------------------------------------------------------------

    @property
    def query(self) -> str:
        return f"LS_protocol={subprotocol_version(self.subprotocol)}"

    def leave_for(self, worker: str, binds: bool) -> bool:
        return self.session is None and self._intake is not None and self._intake.leave_for(worker, binds)

    async def leave(self, worker: str, messages: Iterable[str]) -> bool:
        """Go to a neighbour, which begins with these messages; False if it does not take the socket."""
        facts = SocketFacts(self.subprotocol, dict(self.headers), self.last_session)
        parcel = Parcel(self.entrance.name, self.address, self.client_port, self.principal, facts)
        return await self.move(worker, parcel, messages)

    # -- transport.websocket --------------------------------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        """Used by a session, or by pending requests. The end of either restarts the watch."""
        return self.session is not None or self._intake is not None

    @property
    def takes_more(self) -> bool:
        return self._intake is None or not self._intake.is_full

    def received(self, messages: list[str]) -> None:
        if self._intake is None:
            self._intake = self.http_port.tlcp.new_intake(self)
        self._intake.add(messages)

    def listen(self) -> None:
        super().listen()
        if self._intake is not None and self._intake.is_empty and not self.lost:
            self._intake = None
            # Until now it has waited for us.
            self.watch()

    def resumed(self) -> None:
        if self.session is not None:
            self.session.touch()

    def congested_now(self) -> None:
        if self.session is not None:
            self.session.congest()

    def relieved(self) -> None:
        if self.session is not None:
            self.session.relieve()
        if self._intake is not None:
            self._intake.leave_if_ready()

    def gone(self) -> None:
        if self._intake is not None:
            self._intake.cancel()
        session = self.session
        if session is not None:
            self.session = None
            session.drop()

    # -- what goes out --------------------------------------------------------------------------------------------

    def limit(self, content_length: int) -> None:
        """A WebSocket has no length limit."""

    def write(self, lines: Sequence[bytes]) -> int:
        self._add(lines)
        self._flush_later()
        return sum(map(len, lines))

    def _add(self, lines: Sequence[bytes]) -> None:
        if self._lines is None:
            self._lines = []
        self._lines += lines

    def send(self, batch: Batch) -> None:
        if self._queued:
            # Something must be sent before it.
            self._add(batch.lines())
        elif not self._closing:
            frames = batch.framed
            if frames is None:
                frames = batch.framed = text_frames(batch.payload, self.http_port.config.stream.max_outbound_frame_size)
            self.write_frames(frames)

    def room(self) -> int | None:
        return None

    def finish(self, close_socket: bool) -> None:
        self.session = None
        if close_socket:
            self.close(GOING_AWAY if self.http_port.stopping else NORMAL, "")
        else:
            self.watch()

    def abort(self) -> None:
        self.session = None
        self.cut()

    def close(self, code: int, reason: str) -> None:
        """Close after what is waiting has been written."""
        self._closes = code, reason
        self._flush_later()

    def _flush_later(self) -> None:
        if not self._queued:
            self._queued = True
            self.outlet = -1
            self.http_port.turns.flush_later(self)

    def flush(self) -> None:
        self._queued = False
        lines, self._lines = self._lines, None
        if not self.is_open:
            return
        if lines:
            self.write_frames(text_frames(b"".join(lines), self.http_port.config.stream.max_outbound_frame_size))
        if self._closes is not None:
            super().close(*self._closes)
        else:
            self.open_outlet()

    @property
    def may_open_outlet(self) -> bool:
        return not self._queued and super().may_open_outlet
