"""A session's connection: the channel it is bound to, if any, what the client wants of it, and what it may still carry.

What is sent is decided in `stream`, when something is due in `deadlines`, and what happens then in `session`.
Specification: TLCP chapter 1, "Session Life Cycle".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.kernel.ports import Channel
    from penstock.kernel.recovery import Batch

# Room that is kept on a connection of limited length for its last line, LOOP or END.
TAIL_RESERVE = 96


@dataclass(frozen=True, slots=True)
class Binding:
    """What the client wants of the connection; times in milliseconds, None where it does not say."""

    polling: bool = False
    polling_millis: int = 0
    idle_millis: int = 0
    keepalive_millis: int | None = None
    inactivity_millis: int | None = None
    send_sync: bool = True


UNBOUND = Binding()

# How a client is connected; see `Connection.transport`.
NO_TRANSPORT: Final = "none"
WEBSOCKET: Final = "websocket"
HTTP_STREAMING: Final = "http-streaming"
WEBSOCKET_POLLING: Final = "websocket-polling"
HTTP_POLLING: Final = "http-polling"


class Connection:
    """Each session has one for its whole life; the channels behind it come and go."""

    __slots__ = ("_fresh", "_is_limited", "_spent", "binding", "channel", "congested", "is_websocket", "last_write")

    def __init__(self) -> None:
        self.channel: Channel | None = None
        self.binding = UNBOUND
        # The peer does not read as fast as we write.
        self.congested = False
        self.last_write = 0.0
        # Whether nothing has been sent on the present channel yet, and whether that has a limited length.
        self._fresh = False
        self._is_limited = False
        # Bytes of batches that it has been sent, or that are posted to it: counted if its length is limited.
        self._spent = 0
        # Of the present channel, or the last one.
        self.is_websocket = False

    def begin(self, channel: Channel, binding: Binding, now: float) -> None:
        self.channel = channel
        self.binding = binding
        self.congested = False
        self.last_write = now
        self._fresh = True
        self._is_limited = channel.room() is not None
        self._spent = 0
        self.is_websocket = channel.websocket

    def end(self, last_line: bytes, close_socket: bool) -> None:
        """Release the channel after a last line."""
        channel, self.channel = self.channel, None
        assert channel is not None
        channel.write([last_line])
        channel.finish(close_socket)

    @property
    def transport(self) -> str:
        """By what its client is connected. One that polls is connected between two polls as well."""
        if self.binding.polling:
            return WEBSOCKET_POLLING if self.is_websocket else HTTP_POLLING
        if self.channel is None:
            return NO_TRANSPORT
        return WEBSOCKET if self.is_websocket else HTTP_STREAMING

    @property
    def is_limited(self) -> bool:
        """Whether there is a channel, and it may carry only a limited number of bytes."""
        return self._is_limited and self.channel is not None

    def fits(self, size: int) -> bool:
        """Whether this many more bytes leave room for the last line of the channel."""
        if not self._is_limited or self.channel is None:
            return True
        room = self.channel.room()
        return room is None or size <= room - self._spent - TAIL_RESERVE

    def fitting(self, lines: list[bytes]) -> int:
        """How many of the lines fit. A line longer than a whole connection goes alone on a fresh one."""
        assert self.channel is not None
        room = (self.channel.room() or 0) - self._spent - TAIL_RESERVE
        count = 0
        for line in lines:
            room -= len(line)
            if room < 0 and not (count == 0 and self._fresh):
                break
            count += 1
        return count

    def posted(self, batch: Batch) -> Channel | None:
        """The channel, if this batch may be posted to it: it goes on afterwards, and has room for this."""
        if self.binding.polling:
            return None
        if self._is_limited:
            size = len(batch.payload)
            if not self.fits(size):
                return None
            self._spent += size
        self._fresh = False
        self.last_write = batch.time
        return self.channel

    def send(self, batch: Batch) -> None:
        """Send a batch that is known to fit. The channel may become congested, and report it at once."""
        channel = self.channel
        assert channel is not None
        self._fresh = False
        self._spent += len(batch.payload)
        self.last_write = batch.time
        channel.send(batch)

    def carry(self, batch: Batch) -> bool:
        """Send a batch that others are sent as well; False, with nothing sent, when the channel has no room for it."""
        channel = self.channel
        # It may have closed while the others were sent theirs.
        if channel is not None:
            if self._is_limited:
                if not self.fits(len(batch.payload)):
                    return False
                self._fresh = False
                self._spent += len(batch.payload)
            self.last_write = batch.time
            channel.send(batch)
        return True
