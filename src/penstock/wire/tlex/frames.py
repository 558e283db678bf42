"""Frames from bytes that arrive in any pieces, after the byte with the protocol version; and frames from data.

A frame keeps its header, because most are passed on unchanged. What is in it is read in `datagrams`.
Specification: 6.2 and 6.3.2.
"""

from __future__ import annotations

from struct import Struct

from mypy_extensions import mypyc_attr

from penstock.wire.tlex.errors import BadTlexStream

VERSION = 0x01
# What both sides send before their first frame.
PREAMBLE = bytes((VERSION,))

PREFIX = 0xAABB
HEADER = Struct(">HH")
HEADER_SIZE = HEADER.size

# The most data that a frame can hold: its size has two bytes.
MAX_SIZE = 0xFFFF

_PREFIX_BYTES = PREFIX.to_bytes(2, "big")


def frame(data: bytes) -> bytes:
    """Data with its header; raises ValueError when no frame can hold it."""
    size = len(data)
    if not 0 < size <= MAX_SIZE:
        raise ValueError(f"{size} bytes of data; a frame holds 1 to {MAX_SIZE}")
    return HEADER.pack(PREFIX, size) + data


@mypyc_attr(allow_interpreted_subclasses=True)
class TlexFrameReader:
    """Feed it bytes, take the frames they complete, then check `error`: once it is set, nothing more is read.

    `max_size` is the most data that a frame may have; more is refused as soon as its header is read.
    """

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        if not 0 < max_size <= MAX_SIZE:
            raise ValueError(f"max_size is {max_size}; allowed: 1 to {MAX_SIZE}")
        self.error: BadTlexStream | None = None
        # The peer's, once its first byte has arrived.
        self.version: int | None = None
        # Complete frames so far.
        self.count = 0
        self._max_size = max_size
        # Part of a frame, and how long it must become before it is worth parsing: it is copied only then, so that a
        # large frame in tiny pieces costs no more than in one.
        self._rest = bytearray()
        self._needed = 0

    def feed(self, data: bytes) -> list[bytes]:
        if self.error is not None or not data:
            return []
        start = 0
        if self.version is None:
            self.version = data[0]
            if self.version != VERSION:
                self._fail(0, f"Protocol version 0x{self.version:02x}, supported: 0x{VERSION:02x}")
                return []
            start = 1
        elif self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                if self._needed == HEADER_SIZE:
                    self._check_prefix(self._rest)
                return []
            data = bytes(self._rest)
            self._rest.clear()
        return self._frames(data, start)

    def _frames(self, data: bytes, start: int) -> list[bytes]:
        """All complete frames from `start`; the rest is kept."""
        frames: list[bytes] = []
        read_header = HEADER.unpack_from
        max_size = self._max_size
        end = len(data)
        needed = HEADER_SIZE
        while end - start >= HEADER_SIZE:
            prefix, size = read_header(data, start)
            if prefix != PREFIX or not 0 < size <= max_size:
                self.count += len(frames)
                self._refuse(data[start : start + HEADER_SIZE], size)
                return frames
            stop = start + HEADER_SIZE + size
            if stop > end:
                needed = HEADER_SIZE + size
                break
            frames.append(data[start:stop])
            start = stop
        self.count += len(frames)
        if start < end:
            self._rest += data[start:]
            self._needed = needed
            if needed == HEADER_SIZE:
                self._check_prefix(self._rest)
        return frames

    def _check_prefix(self, header: bytes | bytearray) -> bool:
        """Check as much of the prefix as there is: a peer that sends something else may wait for ever for an answer."""
        for position, (found, expected) in enumerate(zip(header, _PREFIX_BYTES, strict=False), 1):
            if found != expected:
                message = f"byte {position} of the header is 0x{found:02x}, expected 0x{expected:02x}"
                self._fail(self.count + 1, message)
                return False
        return True

    def _refuse(self, header: bytes, size: int) -> None:
        if self._check_prefix(header):
            self._fail(self.count + 1, f"{size} bytes of data, allowed: 1 to {self._max_size}")

    def _fail(self, number: int, message: str) -> None:
        self.error = BadTlexStream(number, message)
        self._rest.clear()
