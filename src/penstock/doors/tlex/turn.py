"""What has gathered since the last turn: payloads to record, and receivers that have something to write.

`wake` is called with the first of them; the turn is then to be run, once all bytes that are there have been read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.doors.tlex.moment import Moment
from penstock.doors.tlex.ports import Batch, Recorder

if TYPE_CHECKING:
    from penstock.doors.tlex.receiver import Receiver


class Turn:
    __slots__ = ("_awake", "_receivers", "_recorders", "_wake", "batches")

    def __init__(self, wake: Callable[[], None], recorders: Sequence[Recorder] = ()) -> None:
        self._wake = wake
        self._awake = False
        self._recorders = tuple(recorders)
        self._receivers: list[Receiver] = []
        # None if nobody wants them.
        self.batches: list[Batch] | None = [] if recorders else None

    def add(self, receiver: Receiver) -> None:
        """Have it write at the end of the turn. The receiver makes sure to ask once per turn."""
        self._receivers.append(receiver)
        if not self._awake:
            self._awake = True
            self._wake()

    def record(self, batch: Batch) -> None:
        batches = self.batches
        if batches is not None:
            batches.append(batch)
            if not self._awake:
                self._awake = True
                self._wake()

    def run(self, now: Moment) -> None:
        self._awake = False
        batches = self.batches
        if batches:
            self.batches = []
            for recorder in self._recorders:
                recorder.record(batches)
        receivers = self._receivers
        self._receivers = []
        for receiver in receivers:
            receiver.flush(now)
