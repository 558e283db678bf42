"""A connection with TLS: between the transport of its socket and its protocol, with OpenSSL in memory.

Not the TLS of the event loop, because that can only write to one connection after the other: what is sealed here may be
written to many sockets at once (`doors.stream.carrier`). What a server shows of itself is in `tls`. Specification: RFC
8446 and 5246.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from penstock.transport.closing import close_gently

# Bytes that are taken in at once: the buffers of OpenSSL stay as large as they have been.
PIECE = 65_536

# The most that a record carries, and what is sealed at once.
RECORD = 16_384

# How many bytes a peer may send in excess of what they carry: two records that are not complete, or a thousand changes
# of keys. Each of those costs us far more than the peer, and no limit of what waits bounds them.
MOST_EMPTY = 2 * RECORD
# What a record has in excess at the most, whatever the cipher.
RECORD_HEAD = 96

# Seconds that a slow peer has for its last bytes, unless whoever closes the connection gives it less.
PATIENCE = 30.0


class SecuredTransport(asyncio.Transport, asyncio.Protocol):
    """The protocol of a socket's transport, and the transport of the protocol that it makes after the handshake."""

    __slots__ = (
        "_all_read",
        "_certificate",
        "_choked",
        "_closing",
        "_empty",
        "_ended",
        "_error",
        "_incoming",
        "_make",
        "_outgoing",
        "_paused",
        "_protocol",
        "_put",
        "_shaken",
        "_take",
        "_timer",
        "_tls",
        "below",
    )

    def __init__(self, make: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        super().__init__()
        self._make = make
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        # Bound once, for `seal`.
        self._put = self._tls.write
        self._take = self._outgoing.read
        self._shaken = asyncio.get_running_loop().create_future()
        # The socket's transport. What is sealed may be written past it, as long as nothing waits in it.
        self.below: asyncio.Transport = cast(asyncio.Transport, None)
        # None before the handshake is done, and after the end.
        self._protocol: asyncio.Protocol | None = None
        # Nothing is read; the peer does not read; the peer sends no more, as its socket says and as the protocol knows;
        # nothing more is written.
        self._paused = False
        self._choked = False
        self._all_read = False
        self._ended = False
        self._closing = False
        self._error: Exception | None = None
        # The peer's, as it was verified: OpenSSL tells it only while nothing is wrong.
        self._certificate: Any = None
        # Bytes that have come in excess of what they carried.
        self._empty = 0
        self._timer: asyncio.TimerHandle | None = None

    async def shake_hands(self, seconds: float | None) -> None:
        """Wait until the handshake is done or has failed; it is aborted after so many seconds, or if nobody waits."""
        try:
            async with asyncio.timeout(seconds):
                await self._shaken
        except TimeoutError:
            if self._protocol is None:
                self.abort()
        except asyncio.CancelledError:
            self.abort()
            raise

    # -- what comes in ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.below = cast(asyncio.Transport, transport)
        # It writes at once, and tells at the first byte that waits.
        self.below.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        # After its closing alert a peer says nothing more; what comes after ours is dropped.
        if self._closing or self._ended:
            return
        if len(data) <= PIECE:
            self._open(data)
            return
        for start in range(0, len(data), PIECE):
            if not self._open(data[start : start + PIECE]):
                return

    def _open(self, piece: bytes) -> bool:
        """Returns whether to go on with what follows it."""
        self._incoming.write(piece)
        if self._protocol is None:
            self._shake()
        else:
            self._read()
        return not self._closing

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()
        self._settle()
        self._certificate = self._tls.getpeercert()
        self._protocol = self._make()
        self._protocol.connection_made(self)
        if self._choked:
            self._protocol.pause_writing()
        self._read()

    def _settle(self) -> None:
        if not self._shaken.done():
            self._shaken.set_result(None)

    def _read(self) -> None:
        """Give the protocol what can be opened of what has come, unless it wants nothing now."""
        if self._paused or self._closing or self._ended or self._protocol is None:
            return
        pieces: list[bytes] = []
        taken = self._incoming.pending
        has_ended = self._all_read
        problem: ssl.SSLError | None = None
        try:
            while self._incoming.pending or self._tls.pending():
                piece = self._tls.read(RECORD)
                if not piece:
                    has_ended = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            # Only a part of a record has come.
            pass
        except ssl.SSLError as error:
            problem = error
        # An answer of OpenSSL, such as to a change of keys.
        self._flush()
        carried = sum(map(len, pieces)) + len(pieces) * RECORD_HEAD
        self._empty = max(0, self._empty + taken - self._incoming.pending - carried)
        if self._empty > MOST_EMPTY:
            self.abort()
            return
        if pieces:
            self._protocol.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if problem is not None:
            self._fail(problem)
        elif has_ended:
            self._end()

    def _end(self) -> None:
        """The peer sends no more. If it was asked to wait, the protocol is told when it reads again."""
        if self._closing or self._protocol is None:
            return
        if self._paused:
            # Not only if the socket says so: the alert is not read twice.
            self._all_read = True
            return
        self._ended = True
        if not self._protocol.eof_received():
            self.close()

    def eof_received(self) -> bool:
        self._all_read = True
        if self._closing:
            # It was only waited for this.
            self.below.close()
        elif self._protocol is None:
            self.abort()
        else:
            self._read()
        return True

    def _fail(self, error: ssl.SSLError) -> None:
        """What has come is not TLS, or not from this peer: an alert says so, and nothing more is sent."""
        # Its traceback refers to this object: the cycle would keep all of it until the garbage collector comes.
        self._error = error.with_traceback(None)
        self._flush()
        self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._settle()
        if self._timer is not None:
            self._timer.cancel()
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(self._error or error)

    def pause_writing(self) -> None:
        self._choked = True
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._choked = False
        if self._protocol is not None:
            self._protocol.resume_writing()

    # -- what goes out ----------------------------------------------------------------------------------------------

    def seal(self, data: bytes) -> bytes:
        """The bytes that carry these; nothing if the connection is closing. They must be written before all later ones.

        Never raises.
        """
        if self._closing or len(data) > RECORD:
            return b"".join([self.seal(piece) for piece in self._pieces(data)])
        try:
            # All of it, because there is always room in memory.
            self._put(data)
            return self._take()
        except ssl.SSLError as error:
            self._fail(error)
            return b""

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), RECORD):
            if not self._closing:
                yield data[start : start + RECORD]

    def _flush(self) -> None:
        """Write what OpenSSL says by itself."""
        data = self._take()
        if data:
            self.below.write(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        sealed = self.seal(bytes(data))
        if sealed:
            self.below.write(sealed)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """The closing alert is sent by `close`."""
        return False

    def close(self) -> None:
        """Close after what has been written and the closing alert; what still comes in is dropped."""
        if self._closing:
            return
        if self._protocol is None:
            self.abort()
            return
        self._closing = True
        # An error only says that the peer has not sent its own alert: that is not waited for.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()
        if self._all_read:
            self.below.close()
        else:
            if self._paused:
                # Input that nobody reads would make the system reset the connection.
                self.below.resume_reading()
            self._timer = close_gently(self.below, PATIENCE)

    def abort(self) -> None:
        self._closing = True
        self.below.abort()

    # -- what else transports do ------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._tls
        if name == "peercert":
            return self._certificate
        return self.below.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def is_closing(self) -> bool:
        return self._closing or self.below.is_closing()

    def is_reading(self) -> bool:
        return not self._paused and self.below.is_reading()

    def pause_reading(self) -> None:
        self._paused = True
        self.below.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        self.below.resume_reading()
        if self._incoming.pending or self._tls.pending() or self._all_read:
            asyncio.get_running_loop().call_soon(self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.below.set_write_buffer_limits(high, low)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self.below.get_write_buffer_limits()

    def get_write_buffer_size(self) -> int:
        return self.below.get_write_buffer_size()


def below(transport: asyncio.Transport) -> asyncio.Transport:
    """The transport of the socket: what it is given goes out as it is."""
    return transport.below if isinstance(transport, SecuredTransport) else transport


def seal_of(transport: asyncio.Transport) -> Callable[[bytes], bytes] | None:
    """What makes bytes ready for the socket; None if they go out as they are."""
    return transport.seal if isinstance(transport, SecuredTransport) else None
