"""The queue of one connected session: payloads and answers are collected and written once per `Turn`.

A slow peer delays nobody: beyond its limits the oldest payloads are dropped and counted, because signals age. Messages
of the conversation itself go ahead of payloads and are never dropped. Who puts what is in `relay`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from penstock.exchange.counters import Counters
from penstock.exchange.instant import Instant
from penstock.exchange.ports import Forms, HubMessages, PayloadBatch, PayloadRecorder, PeerChannel
from penstock.kernel.ledger import Ledger

# Requests for timestamps that may be unanswered when the peer does not read; beyond it the oldest are not answered.
MAX_ANSWERS = 64


class Receiver:
    """`put`, `send` and `answer` what is to be written; `flush` writes as much as the channel takes."""

    __slots__ = (
        "_answers",
        "_channel",
        "_control",
        "_forms",
        "_frames",
        "_late",
        "_ledger",
        "_marked",
        "_max_bytes",
        "_max_frames",
        "_messages",
        "_turn",
        "counters",
        "is_monitor",
        "is_singleplex",
        "last_write",
        "waiting_bytes",
        "writable",
    )

    def __init__(
        self,
        channel: PeerChannel,
        forms: Forms,
        messages: HubMessages,
        turn: Turn,
        counters: Counters,
        max_frames: int,
        max_bytes: int,
        is_singleplex: bool = False,
        is_monitor: bool = False,
        ledger: Ledger | None = None,
    ) -> None:
        """What waits for longer than a turn is counted in `ledger`, together with what waits for other clients."""
        self.counters = counters
        self._ledger = Ledger() if ledger is None else ledger
        # The form in which it gets payloads.
        self.is_singleplex = is_singleplex
        self.is_monitor = is_monitor
        self.writable = True
        self.waiting_bytes = 0
        self.last_write = 0.0
        self._channel = channel
        self._forms = forms
        self._messages = messages
        self._turn = turn
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._frames: deque[bytes] = deque()
        self._control: list[bytes] = []
        # Timestamps of requests, and when they came.
        self._answers: deque[tuple[int, int]] = deque()
        # Whether it is in this turn's list.
        self._marked = False
        # Whether payloads have had to wait for longer than a turn.
        self._late = False

    @property
    def waiting(self) -> int:
        """Payloads in the queue."""
        return len(self._frames)

    def holds(self) -> int:
        """Bytes in the queue."""
        return self.waiting_bytes

    def cut(self) -> None:
        """Too much waits for all clients together: payloads are dropped and counted, as beyond its own bounds."""
        self.counters.dropped += len(self._frames)
        self._frames.clear()
        self.waiting_bytes = 0

    def put(self, frames: list[bytes], size: int, now: Instant) -> None:
        """Payloads in this receiver's form, `size` bytes in all."""
        self.counters.routed += len(frames)
        self._frames.extend(frames)
        self.waiting_bytes += size
        if self.waiting_bytes > self._max_bytes or len(self._frames) > self._max_frames:
            # A channel that is writable gets them early, even if this turn brings more.
            self._write(now)
            self._trim()
        if not self.writable:
            self._late = True
            self._ledger.hold(self)
        elif not self._marked:
            self._mark()

    def refuse(self, count: int) -> None:
        """Payloads for it that are too long in its form."""
        self.counters.routed += count
        self.counters.oversized += count

    def send(self, frame: bytes) -> None:
        """Ahead of all payloads."""
        self._control.append(frame)
        if not self._marked:
            self._mark()

    def answer(self, asked: int, now: Instant) -> None:
        """Timestamps that the peer has asked for; the last of them is taken when they are written."""
        self._answers.append((asked, now.utc))
        if len(self._answers) > MAX_ANSWERS:
            self._write(now)
            if len(self._answers) > MAX_ANSWERS:
                self._answers.popleft()
        if not self._marked:
            self._mark()

    def restamp(self) -> None:
        """What waits was made a while ago: the time of sending in what monitors get is to be corrected."""
        self._late = True

    def set_writable(self, writable: bool) -> None:
        """Whether the channel takes more; what waits leaves at the end of the turn."""
        self.writable = writable
        if writable and not self._marked:
            self._mark()

    def flush(self, now: Instant) -> None:
        """Write at the end of a turn."""
        self._marked = False
        self._write(now)

    def end(self, last: bytes, now: Instant) -> None:
        """Write what can still be written, then `last`, if anything, and close."""
        self._write(now)
        self.counters.discarded += len(self._frames)
        self._frames.clear()
        self.waiting_bytes = 0
        self._ledger.release(self)
        self._control.clear()
        self._answers.clear()
        if last:
            self._channel.write(last)
        self._channel.close()

    def _write(self, now: Instant) -> None:
        frames = self._frames
        if not self.writable or not (frames or self._control or self._answers):
            return
        self.last_write = now.elapsed
        self.counters.sent += len(frames)
        self.waiting_bytes = 0
        parts = self._take_control(now) if self._control or self._answers else []
        if self._late and self.is_monitor:
            # They contain the time of sending, which is now.
            parts += self._forms.restamped(frames, now.utc)
        else:
            parts += frames
        if self._late:
            self._ledger.release(self)
        self._late = False
        frames.clear()
        self._channel.write(b"".join(parts))

    def _take_control(self, now: Instant) -> list[bytes]:
        taken = [self._messages.answer(asked, came, now.utc) for asked, came in self._answers]
        taken += self._control
        self._answers.clear()
        self._control.clear()
        return taken

    def _trim(self) -> None:
        frames = self._frames
        dropped = 0
        while frames and (self.waiting_bytes > self._max_bytes or len(frames) > self._max_frames):
            self.waiting_bytes -= len(frames.popleft())
            dropped += 1
        self.counters.dropped += dropped

    def _mark(self) -> None:
        self._marked = True
        self._turn.add(self)


class Turn:
    """What has gathered since the last one: payloads to record, and receivers that have something to write.

    `wake` is called with the first of them; `run` must then be called, once all available bytes have been read.
    """

    __slots__ = ("_awake", "_receivers", "_recorders", "_wake", "batches")

    def __init__(self, wake: Callable[[], None], recorders: Sequence[PayloadRecorder] = ()) -> None:
        self._wake = wake
        self._awake = False
        self._recorders = tuple(recorders)
        self._receivers: list[Receiver] = []
        # None if nobody wants them.
        self.batches: list[PayloadBatch] | None = [] if recorders else None

    def add(self, receiver: Receiver) -> None:
        """Have it write at the end of the turn. The receiver asks only once per turn."""
        self._receivers.append(receiver)
        if not self._awake:
            self._awake = True
            self._wake()

    def record(self, batch: PayloadBatch) -> None:
        batches = self.batches
        if batches is not None:
            batches.append(batch)
            if not self._awake:
                self._awake = True
                self._wake()

    def run(self, now: Instant) -> None:
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
