"""A port that speaks HTTP: its listeners, its open connections, how many there may be, and how it is closed.

What requests mean is up to the subclass. Connections are in `http`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock import __version__
from penstock.certificates import Certificate
from penstock.config import CertificateSection, Config
from penstock.kernel.ledger import Ledger
from penstock.log import get
from penstock.transport.census import Census
from penstock.transport.entrance import Entrance
from penstock.transport.episode import Episode
from penstock.transport.greeting import Greeting
from penstock.transport.listener import Greet, Listener, room_of
from penstock.transport.origins import Origins
from penstock.transport.proxies import NamedClient
from penstock.transport.tls import certificate_files, http_context
from penstock.wire.http1 import HttpError

if TYPE_CHECKING:
    from penstock.transport.http import HttpConnection
    from penstock.transport.neighbours import Neighbours
    from penstock.transport.pressure import Patience

log = get(__name__)


class Open(Protocol):
    """A connection, whatever protocol it has come to speak."""

    @property
    def transport(self) -> asyncio.Transport: ...
    def close_if_idle(self) -> None:
        """The port is being closed: an idle connection closes now, others when they are done."""


class Opened(NamedTuple):
    """A listener that is open, and the certificate that it shows if it has TLS."""

    entrance: Entrance
    listener: Listener
    certificate: Certificate | None


class HttpPort:
    """`open` its listeners, `close` them, `wait` for the connections to go, `abort` those that are left."""

    # Whether requests are handled before their bodies have arrived.
    hands_out_early = False

    def __init__(self, name: str, config: Config, origins: Origins, max_connections: int, ledger: Ledger) -> None:
        self.config = config
        self.origins = origins
        # What waits for clients of all ports together, including unsent bytes.
        self.ledger = ledger
        # Connections in all; one more closes the one that has been idle longest, or is refused if none is idle.
        self.max_connections = max_connections
        self.connections: set[Open] = set()
        # Figures for the monitor: connections that came, and those turned away; WebSockets now; requests by what they
        # are for.
        self.accepted = 0
        self.refused = 0
        self.websockets = 0
        self.requests: Counter[str] = Counter()
        # Those with no request under way, in the order in which they came to be so.
        self.idle: dict[HttpConnection, None] = {}
        # Those whose peers do not take what is written.
        self.slow: set[Patience] = set()
        self.connection_census = Census(config.limits.connections_per_address)
        # Bytes of the body of a request; more is refused.
        self.max_body = config.limits.request_limit
        self.stopping = False
        # Workers that connections may be handed over to; None where there are none.
        self.neighbours: Neighbours | None = None
        # In the order in which they were opened.
        self.opened: list[Opened] = []
        self._greetings: list[Greeting] = []
        self._all_closed = asyncio.Event()
        self._crowd = Episode(
            log, "too many connections", "no longer too many connections", door=name, limit=max_connections
        )
        self._forgeries = Episode(
            log, "forwarding header refused", "forwarding headers are no longer refused", door=name
        )
        server = config.server.name.encode("ascii", "replace").decode()
        self._server_header = server if config.server.server_tokens == "minimal" else f"{server}/{__version__}"
        self._date = ""
        self._date_second = 0

    # -- the listeners --------------------------------------------------------------------------------------------

    def connection(self, entrance: Entrance, client: NamedClient | HttpError | None = None) -> asyncio.Protocol:
        """A new connection of this port, by one of its listeners.

        `client` is for whom its peer says that it asks, if that has said something; or why it is to be refused.
        """
        raise NotImplementedError

    async def open(self, entrances: Iterable[Entrance], backlog: int, shared: bool = False) -> None:
        """Listen at each of them; raises ListenError, and may have opened some of them then.

        `shared`: other processes may listen there as well.
        """
        for entrance in entrances:
            certificate = None if entrance.tls is None else _certificate(entrance.tls)
            tls = None if certificate is None else certificate.context
            greet = self._greet(entrance) if entrance.proxies.speak_first else None
            listener = await Listener.listen(
                partial(self.connection, entrance),
                entrance.host,
                entrance.port,
                backlog=backlog,
                tls=tls,
                handshake_seconds=self.config.limits.handshake_timeout_millis / 1000,
                room=room_of(self.max_connections, tls is not None or greet is not None),
                greet=greet,
                shared=shared,
            )
            self.opened.append(Opened(entrance, listener, certificate))

    def _greet(self, entrance: Entrance) -> Greet:
        greeting = Greeting(entrance.name, entrance.proxies, self.config.limits.handshake_timeout_millis / 1000)
        self._greetings.append(greeting)
        return partial(self._greeted, entrance, greeting)

    async def _greeted(
        self, entrance: Entrance, greeting: Greeting, accepted: socket.socket
    ) -> Callable[[], asyncio.Protocol]:
        client: NamedClient | HttpError | None
        try:
            client = await greeting.read(accepted)
        except HttpError as error:
            if entrance.secure:
                # It would be told during the handshake, where there are no words for it.
                raise ConnectionAbortedError(error.message) from None
            client = error
        return partial(self.connection, entrance, client)

    @property
    def ports(self) -> list[int]:
        """The ports really taken, in the order in which they were opened."""
        return [opened.listener.port for opened in self.opened]

    # -- the connections ------------------------------------------------------------------------------------------

    def makes_room(self) -> bool:
        """Whether one more connection may be there, which may be one in place of another."""
        self.accepted += 1
        if len(self.connections) < self.max_connections:
            return True
        self._crowd.occurred()
        if not self.idle:
            return False
        # The oldest, not the newest: a peer that only holds connections open must not keep others out.
        oldest = next(iter(self.idle))
        self.forget(oldest)
        oldest.cut()
        return True

    def has_room_for(self, address: str) -> bool:
        """Whether a connection of this client would be accepted."""
        is_full = len(self.connections) >= self.max_connections and not self.idle
        return not is_full and not self.stopping and not self.connection_census.is_full(address)

    def forget(self, connection: Open) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        # Connections of other protocols are not in it.
        self.idle.pop(connection, None)  # type: ignore[call-overload]
        if self.stopping and not self.connections:
            self._all_closed.set()

    def header_refused(self, address: str, error: HttpError) -> None:
        """A peer has named a client in a header, and may not, or has done it wrong."""
        self._forgeries.occurred(address=address, reason=error.message)

    def identity_headers(self) -> list[tuple[str, str]]:
        """Server and Date; the date is formatted once a second."""
        now = int(time.time())
        if now != self._date_second:
            self._date_second = now
            self._date = formatdate(now, usegmt=True)
        return [("Server", self._server_header), ("Date", self._date)]

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop accepting, and have connections close as soon as they are idle."""
        self.stopping = True
        for opened in self.opened:
            opened.listener.close()
        self._crowd.close()
        self._forgeries.close()
        for greeting in self._greetings:
            greeting.close()

    def leave_listeners(self) -> None:
        """Stop accepting, and nothing else: `open` may follow. Who has come already is taken."""
        for opened in self.opened:
            opened.listener.leave()
        self.opened.clear()
        for greeting in self._greetings:
            greeting.close()
        self._greetings.clear()

    def close_idle(self) -> None:
        for connection in list(self.connections):
            connection.close_if_idle()

    async def wait(self, seconds: float) -> None:
        """Wait until all connections are closed, but not longer than this."""
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), seconds)

    def abort(self) -> None:
        for connection in list(self.connections):
            connection.transport.abort()


def _certificate(settings: CertificateSection) -> Certificate:
    return Certificate(certificate_files(settings), partial(http_context, settings))
