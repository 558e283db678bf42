"""Ports that several processes will listen on together, taken by the one that starts them: it does not listen itself.

So a port in use is an error at the start, a port that may be any is the same for all, and no other user's process gets
it while none of them listens. Read next: `penstock.cluster.supervisor`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Protocol

from penstock.transport.listener import ListenError, bind


class SharedListener(Protocol):
    """A listener that processes share: an `Entrance`, or one that is not for HTTP."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class Reservation:
    """`release` when all of them have ended."""

    def __init__(self, entrances: Iterable[SharedListener]) -> None:
        """Raises ListenError."""
        if not hasattr(socket, "SO_REUSEPORT"):
            raise ListenError("this system cannot share a port among processes; expected server.workers = 0")
        self._sockets: list[socket.socket] = []
        # By the name of the listener.
        self.ports: dict[str, int] = {}
        try:
            for entrance in entrances:
                self._take(entrance)
        except ListenError:
            self.release()
            raise

    def _take(self, entrance: SharedListener) -> None:
        if entrance.port:
            # Alone first: another server of the same user that shares its port would share it with this one too.
            for each in bind(entrance.host, entrance.port):
                each.close()
        found = bind(entrance.host, entrance.port, shared=True)
        self._sockets += found
        self.ports[entrance.name] = int(found[0].getsockname()[1])
        if not entrance.port and len(found) > 1:
            for each in found[1:]:
                self._sockets.remove(each)
                each.close()

    def release(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()
