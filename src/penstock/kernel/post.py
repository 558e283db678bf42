"""The post: what streams write in a turn, on its way to the channels.

All of it is carried at once, at the end of the turn, because a door can then write to many sockets with one call. Only
connections that go on afterwards use it, which is what most of them do: those that poll, and those of limited length,
write by themselves. Whoever writes to a channel in any other way calls `send` first: the order is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.kernel.connection import Connection
    from penstock.kernel.ports import Carrier, Channel, Clock
    from penstock.kernel.recovery import Batch


# Bytes of batches that are carried together: what thousands of sessions are sent in a turn must not be in memory twice.
MOST_BYTES = 1_048_576


class Post:
    """One for each kernel. While it `holds`, what is added waits, unless that is very much."""

    __slots__ = ("_batches", "_bytes", "_channels", "_clock", "_words", "carrier", "holds")

    def __init__(self, carrier: Carrier, clock: Clock) -> None:
        self.holds = False
        self.carrier = carrier
        self._clock = clock
        # Connections that are sent something only to be heard of.
        self._words: list[Connection] = []
        self._batches: list[Batch] = []
        # To whom each of them goes.
        self._channels: list[list[Channel]] = []
        self._bytes = 0

    def add(self, batch: Batch, channels: list[Channel]) -> None:
        """A batch, and the channels that are to have it."""
        if self._batches and self._batches[-1] is batch:
            self._channels[-1] += channels
            return
        self._batches.append(batch)
        self._channels.append(channels)
        self._bytes += len(batch.payload)
        if not self.holds or self._bytes > MOST_BYTES:
            self.send()

    def add_word(self, batch: Batch, connection: Connection, channel: Channel) -> None:
        """A batch that is sent only because nothing has been sent for a while."""
        self._words.append(connection)
        self.add(batch, [channel])

    def send(self) -> None:
        """Carry all of it now."""
        batches, channels = self._batches, self._channels
        if batches:
            self._batches = []
            self._channels = []
            self._bytes = 0
            self.carrier.carry(batches, channels)
            for batch in batches:
                batch.sent()
            if self._words:
                # Read after the writes, which may have taken long.
                now = self._clock()
                for connection in self._words:
                    connection.last_write = now
                self._words.clear()


class OneByOne:
    """The carrier of a kernel whose door has none."""

    def carry(self, batches: Sequence[Batch], channels: Sequence[Sequence[Channel]]) -> None:
        for batch, readers in zip(batches, channels, strict=True):
            for channel in readers:
                channel.send(batch)
