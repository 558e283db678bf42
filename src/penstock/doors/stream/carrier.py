"""The carrier: what streams have written in a turn, to the sockets of WebSockets.

With some thousand sessions most of a server's work is to write to their sockets. The native version of `send_frames`
(`build/native.c`) needs few system calls for many sockets; its twin here needs one for each. Read next: `kernel.post`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import write
from typing import Any

from penstock.kernel.ports import Channel
from penstock.kernel.recovery import Batch
from penstock.wire.websocket import text_frames

# What a socket has not been given at all, because something else has to be written to it first.
WAITS = -1

# A channel, the place of its frames, and how many bytes its socket has taken; or WAITS.
Left = tuple[Any, int, int]


def write_frames(frames: Sequence[bytes], channels: Sequence[Sequence[Any]]) -> list[Left]:
    """Write each of the frames to the sockets of its channels; returns what has not been written, in order."""
    left: list[Left] = []
    used: set[int] = set()
    for place, readers in enumerate(channels):
        frame = frames[place]
        for channel in readers:
            outlet = channel.outlet
            if outlet < 0 or outlet in used:
                left.append((channel, place, WAITS))
                continue
            used.add(outlet)
            try:
                sent = write(outlet, frame)
            except OSError:
                # The transport will notice it itself, and handle it.
                sent = 0
            if sent < len(frame):
                left.append((channel, place, sent))
    return left


try:
    import penstock_native as native  # type: ignore[import-not-found]
except ImportError:
    send_frames = write_frames
else:
    send_frames = native.send_frames


class SocketCarrier:
    """Carries to WebSockets of this process, whether they use TLS or not."""

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame

    def carry(self, batches: Sequence[Batch], channels: Sequence[Sequence[Channel]]) -> None:
        most = self._max_frame
        frames = [text_frames(batch.payload, most) for batch in batches]
        for channel, place, sent in send_frames(frames, channels):
            if sent == WAITS:
                batches[place].framed = frames[place]
                channel.send(batches[place])
            else:
                channel.write_rest(frames[place][sent:])


__all__ = ["SocketCarrier", "send_frames", "write_frames"]
