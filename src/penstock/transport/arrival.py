"""A connection that a neighbour hands over: it begins here with what it has sent there.

Where it comes from is in `neighbours`; what it becomes is up to the port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class HandedConnection(asyncio.Protocol):
    """The first protocol of such a connection: keeps what arrives until what was read there has been handled."""

    def __init__(self, protocol: asyncio.Protocol, acknowledge: Callable[[], None], go_on: Callable[[], None]) -> None:
        """`acknowledge` raises OSError if nobody waits for that; `go_on` feeds the protocol after it was made."""
        self._protocol = protocol
        self._acknowledge = acknowledge
        self._go_on = go_on
        self._early = b""
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        found = cast(asyncio.Transport, transport)
        try:
            self._acknowledge()
        except OSError:
            # The neighbour has answered the client itself by now.
            found.abort()
            return
        # Not at once: uvloop begins to read after this method, even if the protocol has paused that. What is read then
        # would be lost if the connection leaves again for the next neighbour.
        asyncio.get_running_loop().call_soon(self._begin, found)

    def data_received(self, data: bytes) -> None:
        self._early += data

    def eof_received(self) -> bool:
        self._has_ended = True
        return True

    def _begin(self, transport: asyncio.Transport) -> None:
        if transport.is_closing():
            return
        transport.set_protocol(self._protocol)
        self._protocol.connection_made(transport)
        self._go_on()
        # By now it may be another one: a WebSocket.
        protocol = cast(asyncio.Protocol, transport.get_protocol())
        if self._early:
            protocol.data_received(self._early)
        if self._has_ended and not protocol.eof_received():
            transport.close()
