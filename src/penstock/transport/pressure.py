"""How a connection deals with a slow peer: few bytes wait unsent, and a peer that reads none, or has vanished, is
disconnected.

Bytes in the system's buffers cannot be replaced by fresher ones, so the fewer wait there the better. What happens to a
session whose connection is congested is decided in `kernel.session`.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.kernel.ledger import Ledger


def keep_unsent_low(transport: asyncio.Transport, max_unsent_bytes: int) -> None:
    """Have the system refuse bytes when it has this many to send, and the transport report the first one refused."""
    found = transport.get_extra_info("socket")
    # Linux refuses more bytes than this. macOS accepts as many as its buffer holds, and only reports room later;
    # elsewhere, and in some Pythons there, the option is missing. Data is then older when it is sent, but never wrong.
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.IPPROTO_TCP, option, max_unsent_bytes)
    transport.set_write_buffer_limits(high=0)


def forget_the_vanished(transport: asyncio.Transport, millis: int) -> None:
    """Have the system break the connection when its peer has acknowledged nothing of what was sent for this long.

    A peer whose machine or network is gone sends nothing and closes nothing; by default the system retries for a
    quarter of an hour.
    """
    found = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None and found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.IPPROTO_TCP, option, millis)


def socket_of(transport: asyncio.Transport) -> int:
    """The descriptor of its socket; -1 if it has none."""
    found = transport.get_extra_info("socket")
    return -1 if found is None else int(found.fileno())


def plain_socket(transport: asyncio.Transport) -> int:
    """The descriptor of a socket that carries exactly what is written to the transport; -1 if TLS is in between."""
    return -1 if transport.get_extra_info("ssl_object") is not None else socket_of(transport)


class Patience:
    """Runs while bytes wait: aborts the connection after `seconds` in which the peer has read none of them.

    As long as they wait they are in the ledger of all that waits for clients, and among the `slow` of their port.
    """

    __slots__ = ("_ledger", "_seconds", "_slow", "_timer", "_transport", "_waiting", "since")

    def __init__(self, transport: asyncio.Transport, seconds: float, ledger: Ledger, slow: set[Patience]) -> None:
        self._transport = transport
        self._seconds = seconds
        self._ledger = ledger
        self._slow = slow
        # On the monotonic clock.
        self.since = time.monotonic()
        slow.add(self)
        self._wait()

    def holds(self) -> int:
        return self._transport.get_write_buffer_size()

    def cut(self) -> None:
        """Too much waits for all clients together, and this connection holds most of it."""
        self._transport.abort()

    def recount(self) -> None:
        """More may wait than at the beginning."""
        self._ledger.hold(self)

    def _wait(self) -> None:
        self._waiting = self.holds()
        self._ledger.hold(self)
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._check)

    def _check(self) -> None:
        if self._transport.get_write_buffer_size() < self._waiting:
            self._wait()
        else:
            self._transport.abort()

    def cancel(self) -> None:
        self._timer.cancel()
        self._ledger.release(self)
        self._slow.discard(self)
