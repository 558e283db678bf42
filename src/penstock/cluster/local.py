"""The fabric between the processes of one machine: Unix sockets in a directory that nobody else can enter.

A frame is the length of a payload (4 bytes, the most significant first) and the payload. The first frame of an edge is
its name. Not here: what payloads mean (`penstock.wire.fabric`), and what is done when one is lost (owner, reader).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from penstock.cluster.ports import EdgeListener, HubListener
from penstock.log import get
from penstock.monitor.figures import Family, counter, gauge

log = get(__name__)

# In the directory that hub and edges share.
SOCKET = "hub.sock"

_LENGTH = struct.Struct(">I")

# Bytes of a payload; whoever sends more is cut off, because it is not a hub or edge of ours.
MAX_PAYLOAD = 256 << 20

# Bytes that may wait for a node that does not read; then it is cut off, and begins again when it does.
MAX_UNSENT = 64 << 20

# Seconds between two attempts of an edge to find the hub; the first is made at once.
PAUSE = 0.2


class _Frames(asyncio.Protocol):
    """A connection that carries frames; subclasses say what becomes of them."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._begun = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: those of uvloop are of no class of asyncio.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        begun = self._begun
        begun += data
        start, end = 0, len(begun)
        while end - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(begun, start)
            if length > MAX_PAYLOAD:
                log.error("payload refused because of its length", bytes=length, limit=MAX_PAYLOAD)
                self.abort()
                return
            first = start + _LENGTH.size
            if end - first < length:
                break
            start = first + length
            self.take(bytes(memoryview(begun)[first:start]))
            if self.transport is None:
                return
        del begun[:start]

    def take(self, payload: bytes) -> None:
        raise NotImplementedError

    def send(self, payload: bytes) -> bool:
        """Whether the peer keeps up; if not, it has been cut off."""
        if self.transport is None:
            return True
        self.transport.writelines((_LENGTH.pack(len(payload)), payload))
        if self.unsent <= MAX_UNSENT:
            return True
        self.abort()
        return False

    @property
    def unsent(self) -> int:
        """Bytes that wait."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


def _figures(unsent: int, cuts: int) -> Iterable[Family]:
    return (
        gauge("penstock_fabric_unsent_bytes", "Bytes waiting to be sent between hub and edges.", unsent),
        counter("penstock_fabric_cuts", "Connections closed because the other side did not read.", cuts),
    )


# -- the hub's end -----------------------------------------------------------------------------------------------------


class _ToEdge(_Frames):
    def __init__(self, fabric: LocalHub) -> None:
        super().__init__()
        self._fabric = fabric
        self.edge: str | None = None

    def take(self, payload: bytes) -> None:
        if self.edge is None:
            self.edge = payload.decode("utf-8", "replace")
            self._fabric.come(self.edge, self)
        else:
            self._fabric.take(self.edge, self, payload)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._fabric.gone(self)


class LocalHub:
    """`HubFabric` of the processes that share a directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / SOCKET
        self._server: asyncio.Server | None = None
        self._listener: HubListener | None = None
        self._edges: dict[str, _ToEdge] = {}
        # Also those that have not said their names.
        self._connections: set[_ToEdge] = set()
        self._cuts = 0

    async def open(self, listener: HubListener, epoch: int) -> None:
        self._listener = listener
        # Of a hub that was killed.
        self._path.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._connection, str(self._path))

    def _connection(self) -> _ToEdge:
        made = _ToEdge(self)
        self._connections.add(made)
        return made

    def send(self, edge: str, payload: bytes) -> None:
        found = self._edges.get(edge)
        if found is not None and not found.send(payload):
            self._cuts += 1
            log.warning(
                "connection to an edge closed because the edge does not read", edge=edge, unsent_bytes=MAX_UNSENT
            )

    def spread(self, edges: frozenset[str], payload: bytes) -> None:
        for edge in edges:
            self.send(edge, payload)

    def cut(self, edge: str) -> None:
        found = self._edges.get(edge)
        if found is not None:
            found.abort()

    def figures(self) -> Iterable[Family]:
        return _figures(sum([connection.unsent for connection in self._connections]), self._cuts)

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._listener = None
        for connection in list(self._connections):
            connection.abort()
        self._server = None
        self._path.unlink(missing_ok=True)

    # -- called by connections ------------------------------------------------------------------------------------

    def come(self, edge: str, connection: _ToEdge) -> None:
        before = self._edges.get(edge)
        if before is not None:
            # The edge has given up a connection that is not known to be lost here yet.
            self.gone(before)
            before.abort()
        self._edges[edge] = connection

    def take(self, edge: str, connection: _ToEdge, payload: bytes) -> None:
        if self._listener is not None and self._edges.get(edge) is connection:
            self._listener.received(edge, payload)

    def gone(self, connection: _ToEdge) -> None:
        self._connections.discard(connection)
        edge = connection.edge
        if edge is not None and self._edges.get(edge) is connection:
            del self._edges[edge]
            if self._listener is not None:
                self._listener.lost(edge)


# -- an edge's end -----------------------------------------------------------------------------------------------------


class _ToHub(_Frames):
    def __init__(self, listener: EdgeListener) -> None:
        super().__init__()
        self._listener = listener
        self.lost = asyncio.Event()

    def take(self, payload: bytes) -> None:
        self._listener.received(payload)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.lost.set()


class LocalEdge:
    """`EdgeFabric` of a process that shares a directory with the hub; `name` is what the hub knows it by."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / SOCKET
        self._name = name
        self._connection: _ToHub | None = None
        self._task: asyncio.Task[None] | None = None
        self._cuts = 0

    async def open(self, listener: EdgeListener) -> None:
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(listener))

    def send(self, payload: bytes) -> None:
        if self._connection is not None and not self._connection.send(payload):
            self._cuts += 1
            log.warning("connection to the hub closed because the hub does not read", unsent_bytes=MAX_UNSENT)

    def figures(self) -> Iterable[Family]:
        return _figures(0 if self._connection is None else self._connection.unsent, self._cuts)

    async def close(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None

    async def _stay_connected(self, listener: EdgeListener) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, connection = await loop.create_unix_connection(lambda: _ToHub(listener), str(self._path))
            except OSError:
                # There is none yet, or none any more.
                await asyncio.sleep(PAUSE)
                continue
            connection.send(self._name.encode())
            self._connection = connection
            try:
                listener.connected()
                await connection.lost.wait()
            finally:
                self._connection = None
                # What is under way is still sent: an edge that ends says so to the hub.
                if connection.transport is not None:
                    connection.transport.close()
            listener.lost()
