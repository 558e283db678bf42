"""What the NATS fabric puts around payloads: what it is, whose epoch it belongs to, and which part of a large one.

Pure: bytes to envelopes and back, and payloads that were split put together again. What the contents mean is in
`penstock.wire.fabric`; when what is sent is in `nats`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from zlib import crc32

import msgspec

# Of the larger payloads of both fabrics: more is refused, because a node would have to hold it in memory at once.
MAX_WHOLE = 256 * 1024 * 1024

# Payloads of which parts are still missing: more, or older ones, are given up, because their parts were lost.
MAX_JOINING = 64
MAX_JOINING_BYTES = 2 * MAX_WHOLE
JOINING_SECONDS = 10.0


class EnvelopeError(Exception):
    """Bytes that are not an envelope; the text says why."""


class Sort(IntEnum):
    """What an envelope is. The first two carry payloads, the others are between the two ends of the fabric."""

    WHOLE = 1
    PART = 2
    # From a hub, to everybody: it is there. From an edge: is a hub there?
    NEWS = 3
    ASK = 4
    # From a hub: subscribe to an audience, and say so; the audience is no more.
    JOIN = 5
    JOINED = 6
    LEAVE = 7
    # From a hub: it has forgotten the edge, which is to begin again. From both: this is the end, in good order.
    AGAIN = 8
    GOODBYE = 9


_HEAD = struct.Struct("!BQ")
# Of a part: the number of the whole, which part of how many, and the length and checksum of the whole.
_PART = struct.Struct("!QIIII")
_NUMBER = struct.Struct("!Q")
HEAD_SIZE = _HEAD.size
# Bytes that are not the payload's, in the largest of envelopes.
OVERHEAD = _HEAD.size + _PART.size


class HubNews(msgspec.Struct, array_like=True, frozen=True):
    """What a hub says of itself. Epochs are in the envelope."""

    version: int
    release: str
    node: str
    run: str


_NEWS: msgspec.msgpack.Decoder[HubNews] = msgspec.msgpack.Decoder(HubNews)


def encode_envelope(kind: Sort, epoch: int, body: bytes = b"") -> bytes:
    return _HEAD.pack(kind, epoch) + body


def encode_audience(kind: Sort, epoch: int, number: int) -> bytes:
    """JOIN, JOINED or LEAVE."""
    return _HEAD.pack(kind, epoch) + _NUMBER.pack(number)


def encode_news(epoch: int, news: HubNews, kind: Sort = Sort.NEWS) -> bytes:
    return _HEAD.pack(kind, epoch) + msgspec.msgpack.encode(news)


def decode_envelope(data: bytes) -> tuple[Sort, int]:
    """What it is, and the epoch; what follows is at HEAD_SIZE."""
    try:
        kind, epoch = _HEAD.unpack_from(data)
        return Sort(kind), epoch
    except (struct.error, ValueError):
        raise EnvelopeError(f"{len(data)} bytes that are not an envelope") from None


def decode_audience(data: bytes) -> int:
    try:
        (number,) = _NUMBER.unpack_from(data, HEAD_SIZE)
    except struct.error:
        raise EnvelopeError("an audience without a number") from None
    return int(number)


def decode_news(data: bytes) -> HubNews:
    try:
        return _NEWS.decode(memoryview(data)[HEAD_SIZE:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EnvelopeError(f"invalid hub announcement: {error}") from None


def split(epoch: int, number: int, payload: bytes, room: int) -> Iterator[bytes]:
    """Envelopes of at most `room` bytes: one, if it fits. `number` is another one each time."""
    if len(payload) + HEAD_SIZE <= room:
        yield _HEAD.pack(Sort.WHOLE, epoch) + payload
        return
    share = room - OVERHEAD
    if share < 1:
        raise ValueError(f"{room} bytes are not enough for an envelope")
    count = -(-len(payload) // share)
    checksum = crc32(payload)
    head = _HEAD.pack(Sort.PART, epoch)
    for index in range(count):
        place = _PART.pack(number, index, count, len(payload), checksum)
        yield b"".join((head, place, payload[index * share : (index + 1) * share]))


@dataclass(slots=True)
class _Joining:
    count: int
    length: int
    checksum: int
    began: float
    parts: dict[int, bytes] = field(default_factory=dict)
    size: int = 0


class Joiner:
    """Puts parts together, of any number of senders. What cannot be put together is dropped and counted."""

    def __init__(self) -> None:
        self.dropped = 0
        self._joining: dict[tuple[str, int, int], _Joining] = {}
        self._size = 0

    def add(self, sender: str, data: bytes, now: float) -> bytes | None:
        """The whole payload, with its last part. Raises EnvelopeError for a part that is none."""
        try:
            _kind, epoch = _HEAD.unpack_from(data)
            number, index, count, length, checksum = _PART.unpack_from(data, HEAD_SIZE)
        except struct.error:
            raise EnvelopeError("a part without its place in the whole") from None
        body = data[OVERHEAD:]
        if not (index < count and 0 < len(body) <= length <= MAX_WHOLE and count <= length):
            raise EnvelopeError(f"part {index + 1} of {count}, with {len(body)} of {length} bytes")
        key = (sender, epoch, number)
        found = self._joining.get(key)
        if found is None:
            found = self._joining[key] = _Joining(count, length, checksum, now)
        elif (found.count, found.length, found.checksum) != (count, length, checksum):
            self._drop(key)
            raise EnvelopeError("parts that do not belong together")
        if index in found.parts:
            return None
        found.parts[index] = body
        found.size += len(body)
        self._size += len(body)
        if len(found.parts) == count:
            self._size -= found.size
            del self._joining[key]
            whole = b"".join(found.parts[each] for each in range(count))
            if len(whole) != length or crc32(whole) != checksum:
                self.dropped += 1
                raise EnvelopeError("a payload whose parts are not what was sent")
            return whole
        while len(self._joining) > MAX_JOINING or self._size > MAX_JOINING_BYTES:
            self._drop(next(iter(self._joining)))
        return None

    def expire(self, now: float) -> None:
        """Give up what has been waiting for too long."""
        for key in [key for key, each in self._joining.items() if now - each.began > JOINING_SECONDS]:
            self._drop(key)

    def _drop(self, key: tuple[str, int, int]) -> None:
        self._size -= self._joining.pop(key).size
        self.dropped += 1
