"""A TCP proxy between client and server that breaks connections on command, the way networks do.

It forwards bytes and knows no protocol. Its loop runs on a thread of its own; all methods may be called from a test.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

# The right moment for something, by all that the server has sent so far.
Moment = Callable[[bytes], bool]

# Seconds that a call waits for the proxy's own thread.
PATIENCE = 20.0

# Switched on, and no seconds to linger: closing drops what is unsent and resets the connection.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def at_once(sent: bytes) -> bool:
    return True


class CutProxy:
    """Listens on a free port of this machine and forwards to `host:port`; used as a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cut-proxy", daemon=True)
        self._listener: asyncio.Server
        self._pairs: set[_Pair] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._refusing = False
        self.stalled = False
        self._swallowing = False
        self._swallowed = bytearray()
        self._sent = bytearray()
        self._recorded = asyncio.Event()
        self._changed = threading.Condition()
        self._accepted = 0
        self.port = 0

    @property
    def target(self) -> tuple[str, int]:
        """Where the next connection goes."""
        return self._target

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def sent(self) -> bytes:
        """All that the server has sent so far, swallowed or not."""
        return bytes(self._sent)

    def cut(self, once: Moment = at_once) -> int:
        """Reset every connection on both sides; the number of clients that were connected."""
        return self._call_once(once, self._cut)

    def refuse(self) -> None:
        """Reset new connections as soon as they come."""
        self._call(self._set_refusing, True)

    def stall(self, once: Moment = at_once) -> None:
        """Forward nothing, in no direction, and keep the connections: a network that has gone silent."""
        self._call_once(once, self._set_stalled, True)

    def swallow(self, once: Moment = at_once) -> None:
        """Lose what the server sends from now on, its closing as well; to the server it looks delivered.

        Until `cut`: the client could not make sense of what would come later.
        """
        self._call_once(once, self._start_swallowing)

    def resume(self) -> None:
        """Accept and forward again."""
        self._call(self._set_refusing, False)
        self._call(self._set_stalled, False)

    def wait_until_swallowed(self, text: bytes) -> None:
        """Wait until the server has sent this text to nobody."""
        self._wait(lambda: text in self._swallowed, f"{text!r} was not sent; swallowed: ")

    @property
    def accepted(self) -> int:
        """Connections accepted so far, refused ones included."""
        return self._accepted

    def wait_until_accepted(self, count: int) -> None:
        """Wait until so many connections have come in all."""
        self._wait(lambda: self._accepted >= count, f"fewer than {count} connections; swallowed: ")

    def _wait(self, condition: Callable[[], bool], complaint: str) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, PATIENCE):
                raise AssertionError(complaint + repr(bytes(self._swallowed)))

    # -- on the proxy's thread ------------------------------------------------------------------------------------

    def _accept(self) -> asyncio.Protocol:
        pair = _Pair(self)
        with self._changed:
            self._accepted += 1
            self._changed.notify_all()
        return pair.client

    def opened(self, pair: _Pair) -> None:
        """A client has connected."""
        self._pairs.add(pair)
        if self._refusing:
            pair.reset()
            return
        task = self._loop.create_task(self._connect(pair))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, pair: _Pair) -> None:
        try:
            await self._loop.create_connection(lambda: pair.server, *self.target)
        except OSError:
            pair.reset()

    def closed(self, pair: _Pair) -> None:
        self._pairs.discard(pair)

    def record(self, data: bytes) -> None:
        self._sent += data
        self._recorded.set()

    def is_swallowed(self, data: bytes) -> bool:
        """Whether data from the server is lost; none for its closing."""
        if self._swallowing:
            with self._changed:
                self._swallowed += data
                self._changed.notify_all()
        return self._swallowing

    def _cut(self) -> int:
        pairs = [pair for pair in self._pairs if pair.client.open]
        for pair in list(self._pairs):
            pair.reset()
        # At once, because a client that is quick is back before the test could say so.
        self._swallowing = False
        return len(pairs)

    def _set_refusing(self, refusing: bool) -> None:
        self._refusing = refusing

    def _start_swallowing(self) -> None:
        self._swallowing = True
        self._swallowed.clear()

    def _set_stalled(self, stalled: bool) -> None:
        self.stalled = stalled
        if not stalled:
            for pair in list(self._pairs):
                pair.catch_up()

    # -- life -----------------------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., T], *arguments: object) -> T:
        async def run() -> T:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)

    def _call_once(self, once: Moment, function: Callable[..., T], *arguments: object) -> T:
        """Call it in the very turn of the loop in which the moment has come."""

        async def run() -> T:
            async with asyncio.timeout(PATIENCE):
                while not once(self.sent):
                    self._recorded.clear()
                    await self._recorded.wait()
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def __enter__(self) -> CutProxy:
        self._thread.start()
        opening = self._loop.create_server(self._accept, "127.0.0.1", 0)
        self._listener = asyncio.run_coroutine_threadsafe(opening, self._loop).result(PATIENCE)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _close(self) -> None:
        self._refusing = True
        self._set_stalled(False)
        # Connections under way become pairs in later turns. A listener that closes while asyncio is about to accept
        # one leaks its socket, so it goes last, in a turn without any.
        while self._pairs or len(asyncio.all_tasks()) > 1:
            self._cut()
            await asyncio.sleep(0)
        self._listener.close()


class _Pair:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy: CutProxy) -> None:
        self.proxy = proxy
        self.client = _End(self, from_server=False)
        self.server = _End(self, from_server=True)

    def other(self, end: _End) -> _End:
        return self.server if end is self.client else self.client

    def reset(self) -> None:
        for end in (self.client, self.server):
            end.reset()

    def catch_up(self) -> None:
        for end in (self.client, self.server):
            end.catch_up()


class _End(asyncio.Protocol):
    """One of the two connections. It is over when it may no longer be used, and lost when its socket is closed."""

    def __init__(self, pair: _Pair, from_server: bool) -> None:
        self._pair = pair
        self._from_server = from_server
        self._transport: asyncio.Transport | None = None
        self._over = False
        self._lost = False
        self._error: Exception | None = None
        # What came while the proxy forwarded nothing.
        self._held: list[bytes] = []
        # What came for this end before it was connected.
        self._early: list[bytes] = []

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._over:
            self.reset()
            return
        if not self._from_server:
            self._pair.proxy.opened(self._pair)
        for data in self._early:
            transport.write(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        if self._from_server:
            self._pair.proxy.record(data)
        if self._pair.proxy.stalled:
            self._held.append(data)
        elif not (self._from_server and self._pair.proxy.is_swallowed(data)):
            self._pair.other(self).write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._over = self._lost = True
        self._error = error
        if not self._pair.proxy.stalled:
            self._pass_on_end()

    def _pass_on_end(self) -> None:
        other = self._pair.other(self)
        if not (self._from_server and self._pair.proxy.is_swallowed(b"")):
            if self._error is None:
                other.finish()
            else:
                other.reset()
        if not other.open:
            self._pair.proxy.closed(self._pair)

    def catch_up(self) -> None:
        """The proxy forwards again: pass on what has come in the meantime."""
        held, self._held = self._held, []
        for data in held:
            self._pair.other(self).write(data)
        if self._lost:
            self._pass_on_end()

    def write(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
        elif not self._over:
            self._transport.write(data)

    def finish(self) -> None:
        """An ordinary end, after what is still to be written."""
        if self._transport is not None and not self._over:
            self._transport.close()
        self._over = True

    def reset(self) -> None:
        """Drop everything and tell the peer by RST."""
        self._over = True
        if self._transport is not None and not self._lost:
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self._transport.abort()
