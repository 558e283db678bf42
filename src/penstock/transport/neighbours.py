"""The other workers of a server on this machine: connections are handed over to them, and taken from them.

Each worker listens on a Unix socket in a directory that is theirs alone. A connection travels as its descriptor, with
a `parcel` of what has been read. Which goes where is decided in `penstock.doors`. Read next: docs/cluster.md.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from penstock.durable import is_open_to_others
from penstock.log import get
from penstock.transport.listener import ListenError
from penstock.transport.parcel import BadParcel, Parcel, packed, size_of, unpacked
from penstock.transport.readiness import readable

log = get(__name__)

# Seconds that a neighbour has to take a connection. One that does not counts as gone for as long.
PATIENCE = 5.0

# Seconds that a neighbour has to answer a request that is passed on: as long as its adapters may take.
ANSWER_PATIENCE = 60.0

# Connections that may be on their way to this worker; others wait in the system's queue.
INCOMING = 64
BACKLOG = 1_024

# Seconds until the next attempt, when there is no room for another one.
PAUSE = 0.1

SUFFIX = ".hand"
TAKEN = b"\x01"
PIECE = 65_536

_CREDENTIALS = struct.Struct("3i")
_ONE = array.array("i", [0])
# More descriptors than a parcel has, so that those of a sender that is wrong are seen, and closed.
_MOST_DESCRIPTORS = 16

# Takes a connection over: its socket, its facts, what has been read, and what tells the neighbour that it is taken,
# which raises OSError if the neighbour does not wait for that any more.
TakeSocket = Callable[[socket.socket, Parcel, bytes, Callable[[], None]], Awaitable[None]]


class Neighbours:
    """`open` takes connections from now on, `close` no more; they can be given as long as it is there."""

    def __init__(self, directory: Path, name: str, seconds: float = PATIENCE) -> None:
        """`directory` is common to all workers of a server; `name` is this one's, with which its session ids end."""
        self.name = name
        # Figures for the monitor.
        self.given = 0
        self.taken = 0
        self.relayed = 0
        self._directory = directory
        self._seconds = seconds
        self._listening: socket.socket | None = None
        self._inode = 0
        self._take: TakeSocket | None = None
        self._incoming: set[asyncio.Task[None]] = set()
        # Until when those count as gone that have not reacted.
        self._silent: dict[str, float] = {}
        # Requests are begun by a neighbour in the order in which they are passed on.
        self._turns: dict[str, asyncio.Lock] = {}

    # -- taking ---------------------------------------------------------------------------------------------------

    def open(self, take: TakeSocket) -> None:
        """Raises ListenError."""
        path = self._path(self.name)
        try:
            if is_open_to_others(self._directory) or self._directory.stat().st_uid != os.getuid():
                raise ListenError(f"{self._directory} must be a directory that nobody else may enter (mode 700)")
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                # A worker that was killed has left its socket behind: this one takes its place at once.
                fresh = path.with_suffix(".new")
                fresh.unlink(missing_ok=True)
                listening.bind(str(fresh))
                listening.listen(BACKLOG)
                listening.setblocking(False)
                self._inode = fresh.stat().st_ino
                fresh.rename(path)
            except OSError:
                listening.close()
                raise
        except OSError as error:
            raise ListenError(f"cannot listen on {path}: {error.strerror or error}") from error
        self._take = take
        self._listening = listening
        self._listen()

    def _listen(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().add_reader(self._listening.fileno(), self._accept)

    def close(self) -> None:
        """Neighbours find nobody here from now on, and say so to clients."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        asyncio.get_running_loop().remove_reader(listening.fileno())
        listening.close()
        path = self._path(self.name)
        with contextlib.suppress(OSError):
            # Its successor may be there already.
            if path.stat().st_ino == self._inode:
                path.unlink()
        for task in self._incoming:
            task.cancel()

    def _accept(self) -> None:
        assert self._listening is not None
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted = None if len(self._incoming) >= INCOMING else self._listening.accept()[0]
            except BlockingIOError:
                return
            except OSError:
                # There are no descriptors.
                accepted = None
            if accepted is None:
                # It stays readable.
                loop.remove_reader(self._listening.fileno())
                loop.call_later(PAUSE, self._listen)
                return
            accepted.setblocking(False)
            task = loop.create_task(self._receive(accepted))
            self._incoming.add(task)
            task.add_done_callback(self._incoming.discard)

    async def _receive(self, neighbour: socket.socket) -> None:
        with neighbour:
            try:
                async with asyncio.timeout(self._seconds):
                    connection, parcel, unanswered = await _read(neighbour)
            except (OSError, TimeoutError, BadParcel) as error:
                log.warning("a connection from a neighbour is refused", reason=str(error) or type(error).__name__)
                return
            assert self._take is not None
            try:
                await self._take(connection, parcel, unanswered, lambda: _acknowledge(neighbour))
            except (OSError, BadParcel) as error:
                log.warning("a connection from a neighbour is refused", reason=str(error))
                connection.close()
            except BaseException:
                connection.close()
                raise
            else:
                self.taken += 1

    # -- giving ---------------------------------------------------------------------------------------------------

    def are_family(self, name: str) -> bool:
        """Whether a worker of this name is one of this server, there or not: `NODE-w2` is to `NODE-w1`."""
        family = self.name.rpartition("-")[0]
        return bool(family) and name.rpartition("-")[0] == family

    def has(self, name: str) -> bool:
        """Whether there is such a worker, as far as is known."""
        until = self._silent.get(name)
        if until is not None:
            if asyncio.get_running_loop().time() < until:
                return False
            del self._silent[name]
        return name != self.name and self._path(name).exists()

    async def give(self, name: str, descriptor: int, parcel: Parcel, unanswered: bytes) -> bool:
        """Have a neighbour go on with a connection; False if it certainly does not.

        Raises TimeoutError if it does not say: it may still have the descriptor. Close it here if it has taken it.
        """
        data = packed(parcel, unanswered)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as neighbour:
            neighbour.setblocking(False)
            try:
                async with asyncio.timeout(self._seconds):
                    neighbour.connect(str(self._path(name)))
                    _check_user(neighbour)
                    sent = neighbour.sendmsg([data], rights)
                    if sent < len(data):
                        # Not without bytes: that fails if the neighbour has taken the connection already.
                        await loop.sock_sendall(neighbour, data[sent:])
                    taken = await loop.sock_recv(neighbour, len(TAKEN)) == TAKEN
            except TimeoutError:
                self._does_not_react(name)
                raise
            except OSError as error:
                log.info("a neighbour cannot be reached", worker=name, reason=error.strerror)
                return False
        self.given += taken
        return taken

    async def ask(self, name: str, parcel: Parcel, request: bytes) -> bytes | None:
        """Have a neighbour answer one request of a client in HTTP/1.0; all that it answers, None if it does not.

        Requests that are passed on one after the other are begun in that order.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            try:
                if not await self._give_in_turn(name, theirs.fileno(), parcel, request):
                    return None
                theirs.close()
                self.relayed += 1
                async with asyncio.timeout(ANSWER_PATIENCE):
                    return await _all_of(ours)
            except OSError:
                return None

    async def _give_in_turn(self, name: str, descriptor: int, parcel: Parcel, request: bytes) -> bool:
        lock = self._turns.setdefault(name, asyncio.Lock())
        try:
            # Who has to wait for others waits no longer than it would alone.
            async with asyncio.timeout(self._seconds), lock:
                return self.has(name) and await self.give(name, descriptor, parcel, request)
        except TimeoutError:
            self._does_not_react(name)
            raise

    def _does_not_react(self, name: str) -> None:
        log.warning("a neighbour does not answer", worker=name, seconds=self._seconds)
        self._silent[name] = asyncio.get_running_loop().time() + self._seconds

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{SUFFIX}"


async def _all_of(answering: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    found = []
    while piece := await loop.sock_recv(answering, PIECE):
        found.append(piece)
    return b"".join(found)


async def _read(neighbour: socket.socket) -> tuple[socket.socket, Parcel, bytes]:
    """Raises BadParcel and OSError, and then keeps no descriptor."""
    _check_user(neighbour)
    descriptors: list[int] = []
    data = bytearray()
    try:
        while (size := size_of(data)) is None or len(data) < size:
            await readable(neighbour)
            piece, ancillary, flags, _ = neighbour.recvmsg(
                PIECE, socket.CMSG_SPACE(_MOST_DESCRIPTORS * _ONE.itemsize), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            )
            for level, kind, found in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    whole = len(found) - len(found) % _ONE.itemsize
                    descriptors.extend(array.array("i", found[:whole]))
            if not piece:
                raise BadParcel(f"closed after {len(data)} bytes")
            if flags & socket.MSG_CTRUNC:
                raise BadParcel("too many file descriptors, or none left in this process")
            data += piece
        if len(descriptors) != 1:
            raise BadParcel(f"{len(descriptors)} descriptors, expected one")
        parcel, unanswered = unpacked(data)
        connection = socket.socket(fileno=descriptors[0])
        if connection.type != socket.SOCK_STREAM:
            connection.detach()
            raise BadParcel("a descriptor that is not a connection")
    except BaseException:
        for each in descriptors:
            with contextlib.suppress(OSError):
                os.close(each)
        raise
    connection.setblocking(False)
    return connection, parcel, unanswered


def _acknowledge(neighbour: socket.socket) -> None:
    neighbour.send(TAKEN)


def _check_user(neighbour: socket.socket) -> None:
    """Raises OSError. Where the system does not tell, the directory has to be protection enough."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is not None:
        _, user, _ = _CREDENTIALS.unpack(neighbour.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
        if user != os.getuid():
            raise PermissionError(f"user {user} is another one than {os.getuid()}")
