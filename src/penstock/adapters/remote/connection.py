"""One socket of a remote adapter: bytes in, lines to its link; how long it has been silent; lines out, and the end.

What the lines mean, and whether this peer is wanted at all, is decided in `link`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from penstock.wire.ari.errors import BadAriStream
from penstock.wire.ari.lines import LineReader
from penstock.wire.ari.packets import AriStream
from penstock.wire.ari.requests import close

# Bytes that may wait to be sent to a peer that does not read them; with more it is disconnected.
MAX_UNSENT_BYTES = 64_000_000

# How long a connection that is closed may take to send what is left.
CLOSING_SECONDS = 1.0


class ConnectionReader(Protocol):
    """Who hears of a connection: the link."""

    def connected(self, connection: RemoteConnection) -> None: ...
    def received(self, connection: RemoteConnection, lines: Sequence[str]) -> None: ...
    def broken(self, connection: RemoteConnection, error: BadAriStream) -> None: ...
    def stuck(self, connection: RemoteConnection) -> None: ...
    def gone(self, connection: RemoteConnection, reason: str) -> None: ...


class RemoteConnection(asyncio.Protocol):
    """Made by the listener for each socket that comes in."""

    def __init__(self, reader: ConnectionReader, stream: AriStream, max_line_bytes: int) -> None:
        self.stream = stream
        self.peer = ""
        self.address = ""
        # What the peer has said in its first line: whether it understands CLOSE at any time.
        self.enables_close = False
        self.introduced = False
        # Why it is not wanted: it will be told when it has introduced itself.
        self.refused: str | None = None
        # Whether the link has made it one of its own.
        self.taken = False
        # No more lines are read: the reason has been told, or the peer has gone.
        self.closed = False
        self.heard = 0.0
        self.ended = asyncio.Event()
        self._reader = reader
        self._lines = LineReader(max_line_bytes)
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._deadline: asyncio.TimerHandle | None = None
        self._abort: asyncio.TimerHandle | None = None

    # -- from the event loop --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.address, self.peer = peer[0], f"{peer[0]}:{peer[1]}"
        self.heard = self._loop.time()
        self._reader.connected(self)

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        self.heard = self._loop.time()
        lines = self._lines.feed(data)
        if lines:
            self._reader.received(self, lines)
        if self._lines.error is not None and not self.closed:
            self._reader.broken(self, self._lines.error)

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()
        if self._abort is not None:
            self._abort.cancel()
        self._finish()
        half = " in the middle of a line" if self._lines.in_line else ""
        self._reader.gone(self, f"connection closed by the remote adapter{half}" if error is None else str(error))

    # -- from the link --------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES and not self.closed:
            self._reader.stuck(self)

    def close(self, reason: str | None) -> None:
        """Tell the peer the reason, if there is one that it would understand, and close."""
        if self.closed:
            return
        self._finish()
        if reason is not None:
            self._transport.write(close(reason))
        self._transport.close()
        if not self.ended.is_set():
            self._abort = self._loop.call_later(CLOSING_SECONDS, self._transport.abort)

    def within(self, seconds: float, late: Callable[[], None]) -> None:
        """Call `late` after so many seconds, unless `in_time` or the end comes first. One at a time."""
        self.in_time()
        self._deadline = self._loop.call_later(seconds, late)

    def in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def silence(self) -> float:
        """Seconds since anything was received."""
        return self._loop.time() - self.heard

    def _finish(self) -> None:
        self.closed = True
        self.in_time()
