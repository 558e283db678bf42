"""How a connection leaves for a neighbour: as its descriptor, or through a relay if it has TLS.

When it may leave, and with which bytes, is up to its protocol (`http`, `websocket`).
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Protocol

from penstock.transport.parcel import Parcel
from penstock.transport.port import HttpPort
from penstock.transport.pressure import plain_socket
from penstock.transport.relay import Relay


class Departing(Protocol):
    """A connection that is not read, and has nothing more to send."""

    @property
    def transport(self) -> asyncio.Transport: ...
    @property
    def http_port(self) -> HttpPort: ...
    @property
    def address(self) -> str: ...
    def let_go(self) -> None:
        """The socket is somebody else's now: nothing may be written to it any more."""

    def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        """Release the transport to another protocol."""


async def depart(connection: Departing, worker: str, parcel: Parcel, unanswered: bytes) -> bool:
    """Have a neighbour go on with a connection; False if it does not, and the connection stays as it is.

    If the neighbour does not say whether it does, the connection is cut, because only one may answer the client.
    """
    neighbours = connection.http_port.neighbours
    assert neighbours is not None
    transport = connection.transport
    number = plain_socket(transport)
    if number >= 0:
        if transport.get_write_buffer_size():
            # It would be lost.
            return False
        try:
            if not await neighbours.give(worker, number, parcel, unanswered):
                return False
        except TimeoutError:
            _cut(number)
        connection.let_go()
        transport.abort()
        return True
    relay = Relay(connection.http_port, transport, connection.address)
    with await relay.prepare() as theirs:
        try:
            taken = await neighbours.give(worker, theirs.fileno(), parcel, unanswered)
        except TimeoutError:
            # It has nothing by which it could reach the client.
            taken = False
        except BaseException:
            relay.abandon()
            raise
    if not taken:
        relay.abandon()
        return False
    connection.hand_over(relay)
    relay.start()
    return True


def _cut(number: int) -> None:
    """End a connection for everybody who has a descriptor of it."""
    with socket.socket(fileno=os.dup(number)) as connection:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It has ended already.
            return
