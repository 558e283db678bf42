"""Writing to a socket past its transport, as long as that has nothing to write.

The transport would make the same system call, and costs far more: docs/decisions.md, "Limits of what waits". Whoever
has many sockets to write to uses their descriptors, too: `doors.stream.carrier`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from os import write
from typing import cast

from penstock.log import get
from penstock.transport.secured import below

log = get(__name__)


class OutletProtocol(asyncio.Protocol):
    """A protocol that knows the descriptor of its socket, and what makes bytes ready for it."""

    __slots__ = ("seal", "transport")

    def __init__(self) -> None:
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        # None if bytes go out as they are.
        self.seal: Callable[[bytes], bytes] | None = None

    def cut(self) -> None:
        """Abort the connection; its loss is reported in the usual way."""
        raise NotImplementedError

    def write_past(self, outlet: int, data: bytes) -> None:
        """Write to the socket; the transport has nothing to write. Never raises."""
        if self.seal is not None:
            data = self.seal(data)
        try:
            sent = write(outlet, data)
        except OSError:
            # The transport will notice it itself, and handle it.
            sent = 0
        if sent < len(data):
            self.write_rest(data[sent:])

    def write_rest(self, data: bytes) -> None:
        """Have the transport write what the socket has not taken of what was made ready for it. Never raises."""
        self._write_by(below(self.transport), data)

    def write_behind(self, data: bytes) -> None:
        """Have the transport write it after what it has to write. Never raises."""
        self._write_by(self.transport, data)

    def _write_by(self, transport: asyncio.Transport, data: bytes) -> None:
        try:
            if not transport.is_closing():
                transport.write(data)
        except Exception:
            # An error on one connection must not keep the others from writing.
            log.exception("connection failed while writing")
            self.cut()
