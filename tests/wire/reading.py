"""Reading a stream of HTTP requests or WebSocket frames in pieces of any sizes, and what came out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from penstock.wire.http1 import HttpRequest, RequestParser
from penstock.wire.websocket import FrameReader

HEADER_LIMIT = 2_000
BODY_LIMIT = 1_000


def pieces(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """Cut into pieces of the sizes, in turn; the rest is the last piece."""
    start = 0
    for size in sizes:
        if start >= len(data):
            return
        yield data[start : start + size]
        start += size
    if start < len(data):
        yield data[start:]


def one_by_one(data: bytes) -> list[int]:
    return [1] * len(data)


@dataclass
class HttpReading:
    """What a parser made of a stream."""

    requests: list[HttpRequest] = field(default_factory=list)
    status: int | None = None
    message: str = ""
    leftover: bytes | None = None
    in_request: bool = False


def read_http(data: bytes, sizes: Iterable[int] = ()) -> HttpReading:
    parser = RequestParser(HEADER_LIMIT, BODY_LIMIT)
    reading = HttpReading()
    for piece in pieces(data, sizes):
        reading.requests += parser.feed(piece)
    if parser.error is not None:
        reading.status = parser.error.status
        reading.message = parser.error.message
    reading.leftover = parser.leftover
    reading.in_request = parser.in_request
    return reading


@dataclass
class FrameReading:
    """What a frame reader made of a stream."""

    messages: list[str] = field(default_factory=list)
    answers: bytes = b""
    is_open: bool = True


def read_frames(data: bytes, sizes: Iterable[int] = (), max_size: int = BODY_LIMIT) -> FrameReading:
    reader = FrameReader(max_size)
    reading = FrameReading()
    for piece in pieces(data, sizes):
        reading.messages += reader.feed(piece)
        reading.answers += reader.to_send()
    reading.is_open = reader.is_open
    return reading
