"""The meter: when the lines of a session were written, and whether that kept to its frequency and bandwidth limits.

It reads channels, not the kernel. What the lines say is judged in `judges`.
Specification: General Concepts 3.3.1 to 3.3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from penstock.client.events import ClientEvent, SnapshotCleared, Update
from penstock.client.tlcp import DATA_TAGS
from penstock.kernel.item import Mode
from penstock.testing.channel import MemoryChannel

# Sums of times are right up to this.
EPSILON = 1e-6

WINDOW = 1.0


class Setting:
    """A limit as it was changed in the course of time; None means no limit."""

    def __init__(self, now: float, value: float | None) -> None:
        self._changes = [(now, value)]

    def change(self, now: float, value: float | None) -> None:
        self._changes.append((now, value))

    def during(self, start: float, end: float) -> list[float | None]:
        """All that was in force at some time from `start` to `end`."""
        ends = [time for time, _ in self._changes[1:]] + [inf]
        return [
            value
            for (time, value), until in zip(self._changes, ends, strict=True)
            if time <= end + EPSILON and until >= start - EPSILON
        ]

    def limited_since(self, now: float) -> tuple[float, float] | None:
        """The limit in force, and since when there has been one, whatever it was; None when there is none."""
        since = 0.0
        limit: float | None = None
        for time, value in self._changes:
            if time > now:
                break
            if limit is None:
                since = time
            limit = value
        return None if limit is None else (limit, since)


class Sent(NamedTuple):
    """When a data notification was first written, and from when on it may have been ready."""

    time: float
    ready: float


class Spent(NamedTuple):
    """A line that was written; one that is `free` was ready before its connection was there, and went at once."""

    time: float
    size: int
    free: bool


class Meter:
    """Reads the channels of a session, one after another."""

    def __init__(self) -> None:
        # The data notifications by number, beginning with 1.
        self.sent: list[Sent] = []
        self.spent: list[Spent] = []
        self._number = 0
        self._ready = 0
        self._ready_at = 0.0

    def read(self, channel: MemoryChannel) -> None:
        """Everything that was written to a channel; its overhead counts once a write."""
        for time, lines in channel.written:
            overhead = channel.overhead
            for line in lines:
                tag, _, rest = line.decode().rstrip().partition(",")
                if tag == "PROG":
                    self._number = int(rest)
                if tag not in DATA_TAGS:
                    continue
                self._number += 1
                is_free = self._number <= self._ready
                if self._number > len(self.sent):
                    self.sent.append(Sent(time, self._ready_at if is_free else time))
                if is_free:
                    self.spent.append(Spent(time, len(line), True))
                else:
                    self.spent.append(Spent(time, len(line) + overhead, False))
                    overhead = 0

    def leave(self, channel: MemoryChannel, ready: int) -> None:
        """The channel has ended when this many notifications were ready: those it did not carry go with the next."""
        self.read(channel)
        if len(self.sent) >= self._ready:
            self._ready_at = channel.written[-1][0]
        self._ready = ready


def paced(mode: Mode, fields: Sequence[str], timed: Sequence[tuple[Sent, ClientEvent]]) -> list[list[Sent]]:
    """The times of a filtered item's updates to which its frequency limit applies, those apart that are apart for it.

    In DISTINCT mode not the snapshot; in COMMAND mode the UPDATEs of each row's life.
    """
    if mode is not Mode.COMMAND:
        return [[sent for sent, event in timed if isinstance(event, Update) and not _is_exempt(mode, event)]]
    key, command = fields.index("key"), fields.index("command")
    done: list[list[Sent]] = []
    rows: dict[str | None, list[Sent]] = {}
    for sent, event in timed:
        if isinstance(event, SnapshotCleared):
            done += rows.values()
            rows.clear()
        elif isinstance(event, Update) and event.values[command] == "UPDATE":
            rows.setdefault(event.values[key], []).append(sent)
        elif isinstance(event, Update):
            done.append(rows.pop(event.values[key], []))
    return done + list(rows.values())


def _is_exempt(mode: Mode, event: Update) -> bool:
    return mode is Mode.DISTINCT and event.is_snapshot


def judge_pace(updates: Sequence[Sent], frequency: Setting) -> None:
    """Two updates are never closer than the limits of the time between them allow."""
    for earlier, later in pairwise(updates):
        limits = frequency.during(earlier.ready, later.time)
        least = 0.0 if None in limits else min(1 / limit for limit in limits if limit is not None)
        if later.time - earlier.time < least - EPSILON:
            raise AssertionError(f"{earlier} and {later}, which {limits} updates/s does not allow")


def judge_bandwidth(spent: list[Spent], bandwidth: Setting) -> None:
    """No second ends with more bytes than the limit of that time; only a line that is longer may go, alone.

    What was sent before there was any limit does not count, nor can what is sent again for a recovery wait.
    """
    for index, last in enumerate(spent):
        limited = bandwidth.limited_since(last.time)
        if limited is None or last.free:
            continue
        kbps, since = limited
        window = [other.size for other in spent[: index + 1] if last.time < other.time + WINDOW and other.time > since]
        if len(window) > 1 and sum(window) > kbps * 1000 / 8:
            raise AssertionError(f"{window} bytes in the second before {last.time}, with a limit of {kbps} kbit/s")
