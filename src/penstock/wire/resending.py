"""Requests as bytes again, and the beginning of one that is not complete, for a reader that goes on elsewhere.

Requests are read in `http1`, frames of WebSockets in `websocket`; who passes them on is in `penstock.transport`.
"""

from __future__ import annotations

import contextlib

import httptools

from penstock.wire.http1 import HttpRequest

# Headers about how the body was sent; the body is complete by now, and is sent in one piece.
_FRAMING = frozenset({"content-length", "transfer-encoding", "expect"})


def request_bytes(request: HttpRequest) -> bytes:
    """A complete request in a form that reads as the same request."""
    lines = [f"{request.method} {request.target} HTTP/{request.version}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name not in _FRAMING]
    if request.body:
        lines.append(f"content-length: {len(request.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body


class Beginning:
    """The bytes of a request that has not been read to its end."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def add(self, data: bytes, completed: int, is_open: bool) -> None:
        """Bytes that have been read: how many requests they have completed, and whether another one has begun."""
        if not is_open:
            self._pieces = []
            return
        self._pieces.append(data)
        if completed:
            self._pieces = [_after(b"".join(self._pieces), completed)]

    def so_far(self) -> bytes:
        return b"".join(self._pieces)


def _after(data: bytes, completed: int) -> bytes:
    """What follows so many requests. The parser does not tell where one ends, so that is searched for."""
    low, high = 0, len(data)
    while low < high:
        middle = (low + high) // 2
        if _Counting().count(data[:middle]) >= completed:
            high = middle
        else:
            low = middle + 1
    return data[low:]


class _Counting:
    """Counts the requests that bytes complete."""

    def __init__(self) -> None:
        self._complete = 0

    def on_message_complete(self) -> None:
        self._complete += 1

    def count(self, data: bytes) -> int:
        # Nothing can be read after either.
        with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
            httptools.HttpRequestParser(self).feed_data(data)
        return self._complete
