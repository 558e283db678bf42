"""The carrier: what streams have written in a turn, to the sockets of WebSockets and of answers over HTTP.

With some thousand sessions most of a server's work is to write to their sockets. The native version of `send_frames`
(`build/native.c`) needs few system calls for many sockets; its twin here needs one for each.
Read next: `Post` in `kernel.kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import write
from typing import Any

from penstock.kernel.ports import Channel
from penstock.kernel.recovery import Batch
from penstock.wire.http1 import chunk
from penstock.wire.websocket import text_frames

# A channel, the place of its frames, and what its socket has not taken of them, made ready for it; or None if it has
# been given nothing, because something else has to be written to it first.
Left = tuple[Any, int, bytes | None]


def write_frames(frames: Sequence[bytes], channels: Sequence[Sequence[Any]]) -> list[Left]:
    """Write each of the frames to the sockets of its channels; returns what has not been written, in order."""
    left: list[Left] = []
    used: set[int] = set()
    for place, readers in enumerate(channels):
        frame = frames[place]
        for channel in readers:
            outlet = channel.outlet
            if outlet < 0 or outlet in used:
                left.append((channel, place, None))
                continue
            used.add(outlet)
            data = frame if channel.seal is None else channel.seal(frame)
            try:
                sent = write(outlet, data)
            except OSError:
                # The transport will notice it itself, and handle it.
                sent = 0
            if sent < len(data):
                left.append((channel, place, data[sent:]))
    return left


try:
    import penstock_native as native  # type: ignore[import-not-found]
except ImportError:
    send_frames = write_frames
else:
    send_frames = native.send_frames


class SocketCarrier:
    """Carries to the clients of this process, whether they use TLS or not."""

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame

    def carry(self, batches: Sequence[Batch], channels: Sequence[Sequence[Channel]]) -> None:
        frames = [
            self._framed(batch) if readers[0].websocket else _chunked(batch)
            for batch, readers in zip(batches, channels, strict=True)
        ]
        for channel, place, rest in send_frames(frames, channels):
            if rest is None:
                channel.send(batches[place])
            else:
                channel.write_rest(rest)

    def _framed(self, batch: Batch) -> bytes:
        if batch.framed is None:
            batch.framed = text_frames(batch.payload, self._max_frame)
        return batch.framed


def _chunked(batch: Batch) -> bytes:
    if batch.chunked is None:
        batch.chunked = chunk(batch.payload)
    return batch.chunked


__all__ = ["SocketCarrier", "send_frames", "write_frames"]
