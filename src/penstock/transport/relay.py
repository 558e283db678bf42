"""A connection with TLS whose client is served by a neighbour: bytes go both ways, as fast as the slower side reads.

TLS cannot change the process, so the neighbour gets one end of a pair of sockets in place of the connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from penstock.transport.closing import close_gently
from penstock.transport.port import HttpPort


class Relay(asyncio.Protocol):
    """The client's side. `prepare` comes first, `start` when the neighbour has taken the other end, or `abandon`."""

    def __init__(self, port: HttpPort, transport: asyncio.Transport, address: str) -> None:
        """`address` is counted as the client's already; the end of the relay ends that."""
        self.transport = transport
        self._port = port
        self._address = address
        self._patience = port.config.limits.write_timeout_millis / 1000
        # Ends the connection if its client does not close it.
        self._timer: asyncio.TimerHandle | None = None
        self._inside = RelayEnd(transport, self.close)

    async def prepare(self) -> socket.socket:
        """The end that the neighbour gets, to be closed here."""
        ours, theirs = socket.socketpair()
        # What waits here is old by the time it is sent.
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._port.config.stream.max_unsent_bytes)
        ours.setblocking(False)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self._inside, sock=ours)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        return theirs

    def start(self) -> None:
        """From now on it is the protocol of the connection, which is one of its port's."""
        self._port.connections.add(self)
        self._inside.is_started = True
        if self._inside.transport.is_closing():
            # The neighbour was faster.
            self.close()
        elif self.transport.get_write_buffer_size():
            self.pause_writing()

    def abandon(self) -> None:
        self._inside.transport.abort()

    def close_if_idle(self) -> None:
        """The port is being closed, and what goes through it with it."""
        self.close()

    def close(self) -> None:
        """Close the client's connection after what was written to it."""
        self._timer = close_gently(self.transport, self._patience) or self._timer

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._inside.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._port.forget(self)
        self._port.connection_census.leave(self._address)
        inside = self._inside.transport
        # The neighbour gets what the client has sent last, unless it does not take it.
        inside.close()
        asyncio.get_running_loop().call_later(self._patience, inside.abort)

    def pause_writing(self) -> None:
        if not self._inside.transport.is_closing():
            self._inside.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self._inside.transport.is_closing():
            self._inside.transport.resume_reading()


class RelayEnd(asyncio.Protocol):
    """The neighbour's side."""

    def __init__(self, client: asyncio.Transport, close: Callable[[], None]) -> None:
        """`close` closes the client's connection."""
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        # Until then the connection is not for the relay to close.
        self.is_started = False
        self._client = client
        self._close = close

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._client.is_closing():
            self._client.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_started:
            self._close()

    def pause_writing(self) -> None:
        if not self._client.is_closing():
            self._client.pause_reading()

    def resume_writing(self) -> None:
        if not self._client.is_closing():
            self._client.resume_reading()
