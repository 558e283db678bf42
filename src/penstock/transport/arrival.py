"""A connection that a neighbour hands over: it begins here with what it has sent there.

Where it comes from is in `neighbours`; what it becomes is up to the port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class HandedConnection(asyncio.Protocol):
    """The first protocol of such a connection, until it is made: nothing may be read before what was read there."""

    def __init__(self, protocol: asyncio.Protocol, acknowledge: Callable[[], None], go_on: Callable[[], None]) -> None:
        """`acknowledge` raises OSError if nobody waits for that; `go_on` feeds the protocol after it was made."""
        self._protocol = protocol
        self._acknowledge = acknowledge
        self._go_on = go_on

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        found = cast(asyncio.Transport, transport)
        try:
            self._acknowledge()
        except OSError:
            # The neighbour has answered the client itself by now.
            found.abort()
            return
        found.set_protocol(self._protocol)
        self._protocol.connection_made(transport)
        self._go_on()
