"""The response to one HTTP request: a complete answer, or the stream connection of a session.

An answer is written when it is complete, with Content-Length (and gzip where worthwhile). So is a session's stream that
ends in its first turn; any other is chunked, or for HTTP/1.0 ends with the connection. Specification: TLCP chapter 1
and appendix C.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.transport.answers import NO_CACHE, TEXT, accepts_gzip
from penstock.transport.closing import is_broken
from penstock.wire.http1 import LAST_CHUNK, HttpError, HttpRequest, chunk, response_head

if TYPE_CHECKING:
    from penstock.doors.stream.http import StreamConnection
    from penstock.kernel.recovery import Batch
    from penstock.kernel.session import Session
    from penstock.transport.entrance import Entrance


class HttpResponse:
    """A kernel channel over HTTP. Lines are collected and written by `flush`, once per loop turn."""

    websocket = False
    # Requests about its session come on other connections.
    listening = True
    # About the size of chunk header and line ends; what TCP and IP add is not counted.
    overhead = 8

    def __init__(self, connection: StreamConnection, request: HttpRequest) -> None:
        self.request = request
        self.session: Session | None = None
        self.last_session: str | None = None
        self.finished = False
        # Whether it is the answer to several requests: they may be about sessions of several workers.
        self.is_batch = False
        # The neighbour that the connection is to go to.
        self.destination: str | None = None
        # The task that makes the answer; it ends with the connection.
        self.task: asyncio.Task[None] | None = None
        self._connection = connection
        self._lines: list[bytes] = []
        self._limit: int | None = None
        self._written = 0
        self._head_written = False
        # Whether what is sent from now on are chunks that are the same for all.
        self._is_plain = False
        self._queued = False
        self._close_socket = False
        self._status = 200
        self._compressor: zlib._Compress | None = None
        # The socket's descriptor as long as whole chunks may be written to it at any time, by whoever has many sockets
        # to write to; else negative. They are made ready for it by `seal`, if that is not None.
        self.outlet = -1
        self.seal: Callable[[bytes], bytes] | None = None

    # -- transport.http.Answering ---------------------------------------------------------------------------------

    @property
    def needs_peer(self) -> bool:
        return self.session is not None

    def body_arrived(self) -> None:
        """Requests of this port come whole."""

    def break_off(self, error: HttpError) -> None:
        """Requests of this port come whole."""

    def peer_ended(self) -> None:
        """The request is still answered."""

    def congested_now(self) -> None:
        self.outlet = -1
        if self.session is not None:
            self.session.congest()

    def relieved(self) -> None:
        self._open_outlet()
        if self.session is not None:
            self.session.relieve()

    def connection_lost(self) -> None:
        self.outlet = -1
        if self.task is not None:
            self.task.cancel()
        session = self.session
        if session is not None:
            self.session = None
            session.drop()

    # -- doors.stream.link.StreamLink ------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return self._connection.address

    @property
    def entrance(self) -> Entrance:
        return self._connection.entrance

    @property
    def client_port(self) -> int:
        return self._connection.client_port

    @property
    def principal(self) -> str | None:
        return self._connection.principal

    @property
    def headers(self) -> Mapping[str, str]:
        return self.request.headers

    @property
    def congested(self) -> bool:
        """Whether too many bytes wait for the peer to read."""
        return self._connection.choked

    @property
    def broken(self) -> bool:
        # Before the first byte of the answer, the end of what a client sends need not be its end.
        ended = self._head_written and not self._connection.peer_has_ended
        return is_broken(self._connection.transport, ended)

    @property
    def lost(self) -> bool:
        """Whether the connection has gone away."""
        return self._connection.lost

    @property
    def query(self) -> str:
        return self.request.query

    def leave_for(self, worker: str, binds: bool) -> bool:
        """It goes when its request has been begun, by `move`."""
        if self.is_batch:
            return False
        self.destination = worker
        return True

    async def move(self, worker: str) -> bool:
        """Have a neighbour answer in place of this; False if it does not. Nothing may have been written."""
        return await self._connection.move(worker)

    def limit(self, content_length: int) -> None:
        """Let the body carry at most this many bytes; the session asks to rebind before they are used up."""
        self._limit = content_length

    def write(self, lines: Sequence[bytes]) -> int:
        self._lines.extend(lines)
        size = sum(map(len, lines))
        self._written += size
        # Clients of version 8 take the first piece of an answer for all of it, and close the connection.
        if self.session is not None:
            self._flush_later()
        return size

    def send(self, batch: Batch) -> None:
        if self._queued or not self._is_plain:
            # Something must be sent before it, or it is not sent as it is.
            self._lines.append(batch.payload)
            self._flush_later()
            return
        out = batch.chunked
        if out is None:
            out = batch.chunked = chunk(batch.payload)
        self._connection.write_now(out)

    def write_rest(self, data: bytes) -> None:
        """Have the transport write what the socket has not taken."""
        self._connection.write_rest(data)

    def room(self) -> int | None:
        return None if self._limit is None else self._limit - self._written

    def finish(self, close_socket: bool) -> None:
        self.session = None
        self.finished = True
        self._close_socket = self._close_socket or close_socket
        self._flush_later()

    def fail(self, status: int, text: str) -> None:
        """Answer with an HTTP error and one line of text, instead of all lines so far; not after the first write."""
        self._status = status
        self._lines = [f"{text}\n".encode()]
        self.finish(False)

    def abort(self) -> None:
        self.session = None
        self.cut()

    def cut(self) -> None:
        """Abort the connection; the session is told of its loss in the usual way."""
        self.outlet = -1
        self._connection.cut()

    def _flush_later(self) -> None:
        if not self._queued:
            self._queued = True
            self.outlet = -1
            self._connection.door.turns.flush_later(self)

    def flush(self) -> None:
        """Write what has been collected, head first; release the connection after the last byte."""
        self._queued = False
        body = b"".join(self._lines)
        self._lines.clear()
        out = b""
        if not self._head_written:
            self._head_written = True
            if self.finished:
                self._connection.send_complete(
                    self.request, self._status, TEXT, body, close=self._close_socket, may_compress=True
                )
                return
            out = self._stream_head()
            self._is_plain = self._chunked and self._compressor is None
        out += self._encoded(body)
        if self._connection.lost:
            return
        if out:
            self._connection.transport.write(out)
        if self.finished:
            self._connection.request_done(self._keeps_open and not self._close_socket)
        else:
            self._open_outlet()

    def _open_outlet(self) -> None:
        """Nothing else has to be written any more, unless something has been collected meanwhile."""
        if self._is_plain and not self._queued and not self.finished:
            self.outlet = self._connection.outlet
            self.seal = self._connection.seal

    @property
    def _chunked(self) -> bool:
        return self.request.version == "1.1"

    @property
    def _keeps_open(self) -> bool:
        return self._chunked and self.request.keep_alive

    def _stream_head(self) -> bytes:
        headers = [*self._connection.common_headers(self.request), *NO_CACHE, *TEXT]
        if self._connection.door.config.session.use_compression == "always" and accepts_gzip(self.request):
            headers.append(("Content-Encoding", "gzip"))
            self._compressor = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        if self._chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        if not self._keeps_open:
            headers.append(("Connection", "close"))
        return response_head(200, headers)

    def _encoded(self, body: bytes) -> bytes:
        if self._compressor is not None:
            body = self._compressor.compress(body)
            body += self._compressor.flush(zlib.Z_FINISH if self.finished else zlib.Z_SYNC_FLUSH)
        if not self._chunked:
            return body
        return (chunk(body) if body else b"") + (LAST_CHUNK if self.finished else b"")
