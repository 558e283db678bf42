"""The load of the TLEX benchmark: controllers that send numbered payloads by the burst, and a broker that checks them.

Made to cost little, since it is not what is measured: a burst is one `pack`, and whole reads are checked by one
`iter_unpack`. Which server they are connected to, and what is made of the figures, is in `tlex`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from struct import Struct
from typing import cast

from penstock.wire.tlex.datagrams import DatagramKind, TimestampsResponse, decode
from penstock.wire.tlex.frames import HEADER, HEADER_SIZE, PREAMBLE, PREFIX, TlexFrameReader

# Bytes of a payload.
SIZE = 200
FILLING = b"x" * SIZE

# Kind, payload type and origin timestamp; in front of the payload.
_BODY_HEAD = 10
_IDENTIFIER = 8

# A frame that the broker receives: what is the same for all, who has published it, its number.
_FROM_HUB = Struct(f">5s{_IDENTIFIER}sxQ{SIZE}x")
# The relay knows no identifiers: the payload type stands for one.
_FROM_RELAY = Struct(f">5s1sQ{SIZE}x")

# Publishers that payload types can tell apart; those from here on are reserved.
MAX_CONTROLLERS = 0xF0


class Peer(asyncio.Protocol):
    """A controller; it answers requests for timestamps and counts what comes."""

    def __init__(self, has_version: bool) -> None:
        self.reader = TlexFrameReader()
        if not has_version:
            self.reader.feed(PREAMBLE)
        self.came = 0
        self.lost = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            self.understand(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True

    def understand(self, frame: bytes) -> None:
        self.came += 1
        if frame[HEADER_SIZE] == DatagramKind.TIMESTAMPS_REQUEST:
            now = time.time_ns() // 1_000_000
            sent = int.from_bytes(frame[5:13], "big")
            self.transport.write(TimestampsResponse(sent, now, now).encode())
        elif frame[HEADER_SIZE] == DatagramKind.BYE:
            self.lost = True


class Bursts:
    """Payloads, `count` at a time. They are numbered in their origin timestamps, those of each controller from 0."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._frames = Struct(">" + f"6sQ{SIZE}s" * count)
        self._next: Counter[int] = Counter()

    def make(self, controller: int) -> bytes:
        """The next of a controller, of which there are at most `MAX_CONTROLLERS`."""
        first = self._next[controller]
        self._next[controller] = first + self.count
        head = HEADER.pack(PREFIX, _BODY_HEAD + SIZE) + bytes((DatagramKind.PAYLOAD, controller))
        parts: list[bytes | int] = []
        for number in range(first, first + self.count):
            parts += (head, number, FILLING)
        return self._frames.pack(*parts)


class Taker(Peer):
    """The broker: each payload must have the next number of its publisher."""

    def __init__(self, has_version: bool) -> None:
        super().__init__(has_version)
        self.taken = 0
        # Set whenever some were.
        self.moved = asyncio.Event()
        self.failures: Counter[str] = Counter()
        self._frame = _FROM_HUB if has_version else _FROM_RELAY
        kind = DatagramKind.IDENTIFIED_PAYLOAD if has_version else DatagramKind.PAYLOAD
        self._head = HEADER.pack(PREFIX, self._frame.size - HEADER_SIZE) + bytes((kind,))
        self._rest = b""
        self._skip = len(PREAMBLE) if has_version else 0
        self._next: dict[bytes, int] = {}

    def data_received(self, data: bytes) -> None:
        data = self._rest + data[self._skip :]
        self._skip = 0
        at = 0
        while True:
            at = self._take(data, at)
            # Something else is between payloads, or the next one is not complete.
            if len(data) - at < HEADER_SIZE:
                break
            end = at + HEADER_SIZE + HEADER.unpack_from(data, at)[1]
            if end > len(data):
                break
            self.understand(data[at:end])
            at = end
        self._rest = data[at:]
        self.moved.set()

    def _take(self, data: bytes, at: int) -> int:
        """Payloads from `at` on, as many as there are; where they end."""
        size, head, expected = self._frame.size, self._head, self._next
        count = 0
        whole = (len(data) - at) // size * size
        for found, publisher, number in self._frame.iter_unpack(memoryview(data)[at : at + whole]):
            if found != head:
                break
            due = expected.get(publisher, 0)
            if number != due:
                self.failures["out of order or lost"] += 1
            expected[publisher] = number + 1
            count += 1
        self.taken += count
        return at + count * size

    def understand(self, frame: bytes) -> None:
        if frame[:2] != self._head[:2] or frame[HEADER_SIZE] in (DatagramKind.PAYLOAD, DatagramKind.IDENTIFIED_PAYLOAD):
            self.failures["not as it was sent"] += 1
        if frame[HEADER_SIZE] == DatagramKind.BYE:
            self.failures[f"sent away: {decode(frame)}"] += 1
        super().understand(frame)
