"""How a connection of a listener with the PROXY protocol begins: with a header that says who the client is.

It comes before everything else, also before the TLS handshake, so it is read from the bare socket, and not a byte more
than that. Its form is in `wire.proxy_protocol`.
"""

from __future__ import annotations

import asyncio
import socket

from penstock.log import get
from penstock.transport.episode import Episode
from penstock.transport.proxies import NamedClient, Proxies
from penstock.transport.readiness import readable
from penstock.wire.http1 import HttpError
from penstock.wire.proxy_protocol import MOST, ProxyError, ProxyHeaderReader

log = get(__name__)


class Greeting:
    """Of one listener; each connection has so many seconds for its header."""

    def __init__(self, listener: str, proxies: Proxies, seconds: float) -> None:
        self._proxies = proxies
        self._seconds = seconds
        self._refused = Episode(log, "PROXY header refused", "PROXY headers are no longer refused", listener=listener)

    async def read(self, accepted: socket.socket) -> NamedClient | None:
        """The client; None if the proxy speaks for itself. Raises HttpError with what is wrong, and OSError."""
        address = str(accepted.getpeername()[0])
        try:
            if not self._proxies.include(address):
                raise HttpError(403, "Connections are accepted here from the configured proxies only")
            try:
                async with asyncio.timeout(self._seconds):
                    return await _header(accepted)
            except TimeoutError:
                raise HttpError(408, f"The PROXY header was not complete after {self._seconds:g} s") from None
            except ProxyError as error:
                text = str(error)
                raise HttpError(400, text[0].upper() + text[1:]) from None
        except HttpError as error:
            self._refused.occurred(address=address, reason=error.message)
            raise

    def close(self) -> None:
        self._refused.close()


async def _header(accepted: socket.socket) -> NamedClient | None:
    reader = ProxyHeaderReader()
    while not reader.is_complete:
        await readable(accepted)
        # Looked at first: what follows the header is for others, and stays in the socket.
        waiting = accepted.recv(MOST, socket.MSG_PEEK)
        if not waiting:
            raise ConnectionAbortedError("closed before the PROXY header was complete")
        accepted.recv(reader.feed(waiting))
    return None if reader.address is None else NamedClient(reader.address, reader.port)
