"""Walking over the frames of a segment: intact ones are returned, anything else is reported and skipped.

Not here: what a hole means. `recovery` tells a torn tail from damage, `reader` knows how far it may go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.journal.damage import Damage
from penstock.journal.disk import ReadableFile
from penstock.journal.segment import (
    ALIGNMENT,
    FRAME_HEADER,
    FRAME_MAGIC,
    FrameHeader,
    decode_frame_header,
    padded,
    payload_is_whole,
)

# Bytes per read: large enough that the call does not count, small enough for many readers at once.
CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """`payload` is None where `wanted` did not want it; its checksum was not looked at then."""

    position: int
    header: FrameHeader
    payload: memoryview | None


class _Window:
    """The bytes around the place where the scan stands."""

    def __init__(self, file: ReadableFile, end: int) -> None:
        self._file = file
        self._end = end
        self._start = 0
        self._data = memoryview(b"")

    def get(self, position: int, length: int) -> memoryview:
        """Fewer bytes than asked for only at the end."""
        offset = position - self._start
        if offset < 0 or offset + length > len(self._data):
            self._data = memoryview(self._file.read(position, min(max(length, CHUNK), self._end - position)))
            self._start, offset = position, 0
        return self._data[offset : offset + length]


def scan(
    file: ReadableFile,
    name: str,
    salt: int,
    start: int,
    end: int,
    expected: int,
    last: int | None = None,
    wanted: Callable[[FrameHeader], bool] | None = None,
) -> Iterator[Frame | Damage]:
    """Frames from byte `start` to `end`, whose sequences go on from `expected`.

    With `last`, the scan ends there: what follows was never committed; and what is missing up to there is damage.
    """
    window = _Window(file, end)
    position = start
    while position < end and (last is None or expected <= last):
        frame = _frame_at(window, position, end, salt, expected, wanted)
        if frame is None:
            bad = position
            position = _search(window, bad, end, salt, expected)
            if position < end:
                frame = _frame_at(window, position, end, salt, expected, wanted)
            missing = last if frame is None else frame.header.first - 1
            yield Damage(name, bad, position - bad, expected, missing, "no complete frame where one is expected")
            if frame is None:
                return
        elif frame.header.first > expected:
            yield Damage(name, position, 0, expected, frame.header.first - 1, "frames are missing")
        if last is not None and frame.header.first > last:
            return
        yield frame
        expected = frame.header.last + 1
        position += frame.header.span
    if last is not None and expected <= last:
        yield Damage(name, position, 0, expected, last, "the file is truncated")


def _frame_at(
    window: _Window,
    position: int,
    end: int,
    salt: int,
    expected: int,
    wanted: Callable[[FrameHeader], bool] | None,
) -> Frame | None:
    if end - position < FRAME_HEADER:
        return None
    data = window.get(position, FRAME_HEADER)
    header = decode_frame_header(data, 0, salt) if len(data) == FRAME_HEADER else None
    if header is None or header.first < expected or position + header.span > end:
        return None
    if wanted is not None and not wanted(header):
        return Frame(position, header, None)
    length = padded(header.length)
    payload = window.get(position + FRAME_HEADER, length)
    if len(payload) < length or not payload_is_whole(payload, header, salt):
        return None
    return Frame(position, header, payload)


def _search(window: _Window, position: int, end: int, salt: int, expected: int) -> int:
    """The next whole frame after a bad one; `end` when there is none."""
    position += ALIGNMENT
    while end - position >= FRAME_HEADER:
        data = bytes(window.get(position, min(CHUNK, end - position)))
        if not data:
            return end
        offset = data.find(FRAME_MAGIC)
        while offset >= 0:
            candidate = position + offset
            if candidate % ALIGNMENT == 0 and _frame_at(window, candidate, end, salt, expected, None) is not None:
                return candidate
            offset = data.find(FRAME_MAGIC, offset + 1)
        # A magic that straddles two chunks must not be missed.
        step = len(data) - len(FRAME_MAGIC)
        position += step - step % ALIGNMENT if step >= ALIGNMENT else ALIGNMENT
    return end
