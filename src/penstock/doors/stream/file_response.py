"""The answer to a request for a file of the folder of pages: sent piece by piece, as fast as the client reads.

Which file it is: `folder`; which part of it: `wire.http_file`. One piece of a file is in memory for each client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.doors.stream.folder import Elsewhere, Folder, PageFile, Trespass
from penstock.log import get
from penstock.transport.answers import TEXT
from penstock.wire.http1 import HttpError, HttpRequest, response_head
from penstock.wire.http_file import FilePart, file_part

if TYPE_CHECKING:
    from penstock.doors.stream.http import StreamConnection

log = get(__name__)

T = TypeVar("T")

# Bytes that are read and written at once.
PIECE_BYTES = 65_536


class FileResponse:
    """One request and its answer; `run` it, and never cancel that: an open file would be left behind."""

    def __init__(
        self,
        connection: StreamConnection,
        request: HttpRequest,
        folder: Folder,
        threads: Executor,
        refused: Callable[[HttpError], None],
    ) -> None:
        """Disks are waited for on `threads`; who wants more than the folder is told of by `refused`."""
        self._connection = connection
        self._request = request
        self._folder = folder
        self._threads = threads
        self._refused = refused
        self._gone = False
        self._woken = asyncio.Event()

    # -- transport.http.Answering ---------------------------------------------------------------------------------

    # A client that has said all it wants to may still read.
    needs_peer = False

    def body_arrived(self) -> None:
        """Requests of this port come whole."""

    def break_off(self, error: HttpError) -> None:
        """Requests of this port come whole."""

    def peer_ended(self) -> None:
        """What was asked for is answered all the same."""

    def congested_now(self) -> None:
        """It is looked for after each piece."""

    def relieved(self) -> None:
        self._woken.set()

    def connection_lost(self) -> None:
        self._gone = True
        self._woken.set()

    # -- the answer -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        request = self._request
        try:
            file = await self._on_thread(partial(self._folder.open, request.path))
        except Elsewhere:
            query = f"?{request.query}" if request.query else ""
            self._say(301, "The directory is at the same path with / at its end", f"{request.raw_path}/{query}")
        except HttpError as error:
            if isinstance(error, Trespass):
                self._refused(error)
            self._say(error.status, error.message)
        except Exception:
            log.exception("page failed", path=request.path)
            self._say(500, "Internal server error")
        else:
            try:
                await self._send(file, file_part(request.headers, file.etag, file.modified, file.size))
            except OSError as error:
                log.error("page cannot be read", path=request.path, reason=str(error))
                self._connection.cut()
            finally:
                file.close()

    def _say(self, status: int, text: str, location: str = "") -> None:
        headers = (*TEXT, ("Location", location)) if location else TEXT
        self._connection.send_complete(self._request, status, headers, f"{text}\n".encode())

    async def _send(self, file: PageFile, part: FilePart) -> None:
        if part.status == 416:
            headers = [*TEXT, ("Content-Range", f"bytes */{file.size}")]
            text = f"The file has {file.size} bytes; expected a range inside it\n"
            self._connection.send_complete(self._request, 416, headers, text.encode())
            return
        if part.status not in (200, 206):
            self._connection.send_complete(self._request, part.status, file.headers, b"", cached=True)
            return
        rest = 0 if self._request.method == "HEAD" else part.length
        piece = await self._on_thread(partial(_first, file, part.start, min(rest, PIECE_BYTES)))
        out = self._head(file, part) + piece
        connection = self._connection
        while not self._has_gone():
            connection.transport.write(out)
            rest -= len(piece)
            if not rest:
                connection.request_done(self._keeps_open)
                return
            while connection.choked and not self._has_gone():
                self._woken.clear()
                await self._woken.wait()
            if self._has_gone():
                return
            out = piece = await self._on_thread(partial(file.read, min(rest, PIECE_BYTES)))
            if not piece:
                # It has become shorter: what the head has said cannot be kept.
                connection.cut()
                return

    def _has_gone(self) -> bool:
        """A function, because type checkers take an answer from before an `await` for still true."""
        return self._gone

    @property
    def _keeps_open(self) -> bool:
        return self._request.keep_alive and not self._connection.http_port.stopping

    def _head(self, file: PageFile, part: FilePart) -> bytes:
        headers = [*self._connection.common_headers(self._request), *file.headers]
        headers.append(("Content-Length", str(part.length)))
        if part.status == 206:
            headers.append(("Content-Range", f"bytes {part.start}-{part.start + part.length - 1}/{file.size}"))
        if not self._keeps_open:
            self._request.keep_alive = False
            headers.append(("Connection", "close"))
        elif self._request.version == "1.0":
            headers.append(("Connection", "keep-alive"))
        return response_head(part.status, headers)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _first(file: PageFile, start: int, size: int) -> bytes:
    if start:
        file.seek(start)
    return file.read(size)
