"""A TCP port that is listened on: connections are accepted here and become asyncio's, plain or with TLS.

Not asyncio's own server: when descriptors run out, that of asyncio logs a traceback for every attempt, and that of
uvloop closes connections silently. Here they wait in the system's queue, and it is logged once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

from penstock.log import get
from penstock.transport.episode import Episode
from penstock.transport.secured import SecuredTransport

log = get(__name__)

# Connections that may be incoming at once: accepted, and not yet counted by their port.
TURN = 64

# The same where a peer may take long, because of a TLS handshake or a PROXY header; one more aborts the one that has
# taken longest.
HANDSHAKES = 1_024

# Seconds until the next attempt, when the system has no room for another connection.
PAUSE = 0.1

BACKLOG = 1_024

# The system has no descriptors or no memory for one more; those accepted before may still be served.
SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


# Called with a socket before it becomes a connection; returns what makes its protocol, or raises OSError.
Greet = Callable[[socket.socket], Awaitable[Callable[[], asyncio.Protocol]]]


def room_of(connections: int, takes_time: bool) -> int:
    """How many connections may be incoming, given the limit of the port: those not counted yet must be few.

    `takes_time` if peers may take long before they are counted, as with TLS.
    """
    return max(1, connections // 4) if takes_time else min(TURN, max(1, connections // 8))


class ListenError(Exception):
    """A port cannot be opened; the text names its address and the reason."""


class Listener:
    """Opened by `listen`; `close` stops accepting, and open connections stay."""

    def __init__(
        self,
        sockets: list[socket.socket],
        make: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        handshake_seconds: float | None,
        room: int | None,
        greet: Greet | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # The actual port.
        self.port = int(sockets[0].getsockname()[1])
        self._sockets = sockets
        self._make = make
        self._tls = tls
        self._handshake_seconds = handshake_seconds
        self._greet = greet
        self._takes_time = tls is not None or greet is not None
        self._room = room or (HANDSHAKES if self._takes_time else TURN)
        # In the order in which they came.
        self._coming: dict[asyncio.Task[None], None] = {}
        self._pauses: dict[int, asyncio.TimerHandle] = {}
        self._shortage = Episode(
            log,
            "no file descriptors left, new connections have to wait",
            "connections are accepted again",
            port=self.port,
        )
        for each in sockets:
            self._loop.add_reader(each.fileno(), self._accept, each)

    @classmethod
    async def listen(
        cls,
        make: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
        *,
        backlog: int = BACKLOG,
        tls: ssl.SSLContext | None = None,
        handshake_seconds: float | None = None,
        room: int | None = None,
        greet: Greet | None = None,
        shared: bool = False,
    ) -> Listener:
        """Listen at every address of the host; raises ListenError. `room` is for connections on their way in.

        With `greet` that says in place of `make` what each connection becomes. `shared`: other processes may listen
        there as well, and the system gives each connection to one of them.
        """
        sockets = await asyncio.get_running_loop().run_in_executor(None, bind, host, port, shared)
        try:
            for each in sockets:
                each.listen(backlog)
        except OSError as error:
            for each in sockets:
                each.close()
            raise refusal(host, port, error) from error
        return cls(sockets, make, tls, handshake_seconds, room, greet)

    def leave(self) -> None:
        """Like `close`, but those that wait in the system's queue are accepted first: it would reset them."""
        for each in self._sockets:
            self._accept(each)
        self.close()

    def close(self) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each.fileno())
            each.close()
        self._sockets.clear()
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()
        self._shortage.close()

    def _accept(self, listening: socket.socket) -> None:
        turn = TURN if self._takes_time else min(TURN, self._room - len(self._coming))
        for _ in range(turn):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in SHORTAGE:
                    continue  # An error of that one connection, which is already gone.
                self._shortage.occurred(reason=os.strerror(error.errno))
                self._rest(listening)
                return
            accepted.setblocking(False)
            if len(self._coming) >= self._room:
                # The oldest, not the newest: a peer that only holds connections open must not keep others out.
                oldest = next(iter(self._coming))
                del self._coming[oldest]
                oldest.cancel()
            task = self._loop.create_task(self._take(accepted))
            self._coming[task] = None
            task.add_done_callback(partial(self._arrived, accepted))

    def _arrived(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._coming.pop(task, None)
        if task.cancelled():
            # Not by the task itself: one that is cut before its first turn never runs.
            accepted.close()

    async def _take(self, accepted: socket.socket) -> None:
        try:
            make = self._make if self._greet is None else await self._greet(accepted)
            if self._tls is None:
                await self._loop.connect_accepted_socket(make, accepted)
                return
            secured = SecuredTransport(make, self._tls)
            await self._loop.connect_accepted_socket(lambda: secured, accepted)
        except (TimeoutError, OSError):
            # It has been closed, which is the peer's problem.
            accepted.close()
        else:
            # If that fails, which is the peer's problem, too, the transport closes the socket.
            await secured.shake_hands(self._handshake_seconds)

    def _rest(self, listening: socket.socket) -> None:
        """The socket stays readable, but accepting fails: try again later."""
        number = listening.fileno()
        self._loop.remove_reader(number)
        self._pauses[number] = self._loop.call_later(PAUSE, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        del self._pauses[listening.fileno()]
        self._loop.add_reader(listening.fileno(), self._accept, listening)


def bind(host: str, port: int, shared: bool = False) -> list[socket.socket]:
    """Take every address of the host, without listening yet; raises ListenError. May wait for the host's name."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A socket for IPv6 serves IPv4 as well, unless that has one of its own: `::` is every interface.
        alone = all(entry[0] != socket.AF_INET for entry in found)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(_bound(family, kind, protocol, address, alone, shared))
    except OSError as error:
        for each in sockets:
            each.close()
        raise refusal(host, port, error) from error
    return sockets


def _bound(
    family: int, kind: int, protocol: int, address: tuple[object, ...], alone: bool, shared: bool
) -> socket.socket:
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if alone else 1)
        bound.bind(address)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


def refusal(host: str, port: int, error: OSError) -> ListenError:
    return ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}")
