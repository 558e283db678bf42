"""A stream: lanes, the outbox they fill, and the log of what has been sent. All of its readers get the same bytes.

A session has a stream of its own, `OwnStream`, or a `Share` of one that it reads together with others, `SharedStream`:
the very same bytes, joined, framed and logged once. Whatever concerns one client alone (its notifications, its lanes,
its limits, its recovery) is an operation of `OwnStream` and of no other type: through a share neither lanes nor outbox
can be reached. It can be turned into an own stream, a clone with the log of that client: see `Session.own`. Who shares
with whom is decided in `sharing`.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.kernel.bandwidth import Budget
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.lane import Lane
from penstock.kernel.outbox import Outbox
from penstock.kernel.recovery import Batch, RecoveryLog

if TYPE_CHECKING:
    from penstock.kernel.connection import Connection
    from penstock.kernel.ports import Channel
    from penstock.kernel.session import Session
    from penstock.kernel.sharing import Sharing

# Lanes by the number of their subscription, those of a subscription by the position of their item.
Lanes = dict[int, list[Lane]]

TOO_MANY = "Too many notifications are waiting for this session"


class Figures(NamedTuple):
    """What a client was sent: updates and bytes; and what it was not, for lack of room."""

    updates: int = 0
    bytes: int = 0
    lost: int = 0

    def since(self, others: Figures) -> Figures:
        if self == others:
            # Of many sessions that share a stream: no object for each of them.
            return NOTHING
        return Figures(self.updates - others.updates, self.bytes - others.bytes, self.lost - others.lost)


NOTHING = Figures()


class Stream(metaclass=ABCMeta):
    """What streams of one client and of many have in common: nothing that concerns only one client."""

    __slots__ = ("_lanes", "_outbox")

    def __init__(self, lanes: Lanes, outbox: Outbox) -> None:
        self._lanes = lanes
        self._outbox = outbox
        outbox.stream = self

    @abstractmethod
    def flush(self) -> None:
        """Pass the encoded lines to the readers; called by the kernel at the end of a turn."""

    def lanes(self) -> list[Lane]:
        return [lane for lanes in self._lanes.values() for lane in lanes]

    def is_small(self, most: int) -> bool:
        """Whether it has at most this many lanes: asked before a loop over all of them."""
        count = 0
        for lanes in self._lanes.values():
            count += len(lanes)
            if count > most:
                return False
        return True

    def figures(self) -> Figures:
        """What a client was sent that has read all of it."""
        outbox = self._outbox
        return Figures(outbox.updates, outbox.bytes, outbox.lost)

    @property
    def unsent(self) -> int:
        """How many lines are encoded but not written."""
        return len(self._outbox.lines)

    @property
    def held(self) -> int:
        """Bytes of the events that wait in lanes."""
        return self._outbox.held

    def waiting(self) -> int:
        """Bytes that wait here."""
        return self._outbox.held + self._outbox.told

    def shed(self) -> bool:
        """Keep of the events that wait only the latest of each item; False if there were no others."""
        before = self._outbox.held
        for lane in self.lanes():
            lane.shed()
        return self._outbox.held < before

    def hurry(self) -> None:
        """Write what waits for the end of a rest."""
        outbox = self._outbox
        if outbox.rests() and outbox.open and not outbox.is_calm():
            outbox.rest_until = 0.0
            self.flush()

    def settle(self) -> bool:
        """Write at once; whether nothing waits then, or only what the lanes of others will find as well."""
        self.hurry()
        return self._outbox.is_calm() and all(lane.is_calm() for lane in self.lanes())

    def _drop_lanes(self) -> None:
        for lane in self.lanes():
            drop(lane)
        self._lanes = {}


def drop(lane: Lane) -> None:
    """Nobody reads it any more."""
    lane.discard()
    lane.item.detach(lane)


class OwnStream(Stream):
    """The stream of one client alone, and all that can be done for it alone."""

    __slots__ = ("_budget", "_client", "_connection", "_left", "log")

    def __init__(self, client: Session, connection: Connection, lanes: Lanes, outbox: Outbox, log: RecoveryLog) -> None:
        super().__init__(lanes, outbox)
        # None when the session has ended, or has a share of another stream.
        self._client: Session | None = client
        self._connection = connection
        self._budget: Budget | None = None
        # Bytes of lines that are encoded and have no connection.
        self._left = 0
        # What has been sent.
        self.log = log

    # -- what the client is sent ----------------------------------------------------------------------------------

    @property
    def outbox(self) -> Outbox:
        """The outbox for its lanes."""
        return self._outbox

    def tell(self, line: bytes) -> None:
        """A data notification, in order with what the lanes send."""
        self._outbox.tell(line)

    def lanes_of(self, subscription: int) -> Sequence[Lane]:
        """Lanes by the position of their item."""
        return self._lanes.get(subscription, ())

    def add(self, lane: Lane) -> None:
        if not self._lanes:
            # Those who want the same have the same first item: at the same pace they can share, as `sharing` tells.
            self._outbox.group = lane.item.group
        self._lanes.setdefault(lane.subscription, []).append(lane)

    def remove(self, subscription: int) -> None:
        """Its lanes leave their items; nothing they hold is sent any more."""
        for lane in self._lanes.pop(subscription, ()):
            drop(lane)

    def flush(self) -> None:
        """Send the lines, as far as the connection may carry them."""
        client, connection, outbox = self._client, self._connection, self._outbox
        outbox.dirty = False
        if client is None:
            return
        if outbox.has_too_many():
            client.close(Cause.UNEXPECTED, TOO_MANY)
            return
        channel = connection.channel
        outbox.encode(self._budget, 0 if self._budget is None or channel is None else channel.overhead)
        lines = outbox.lines
        if channel is None or not lines or outbox.is_held_back():
            return
        if connection.binding.polling and channel.broken:
            # After LOOP it would count as delivered. Some HTTP libraries repeat a poll that was not answered, and then
            # their client does not ask for what it has missed.
            client.lose_connection()
            return
        if connection.is_limited:
            count = connection.fitting(lines)
            outbox.lines, lines = lines[count:], lines[:count]
        if lines:
            batch = outbox.pack(lines)
            outbox.kernel.share_payload(batch)
            self.log.append(batch)
            if connection.posted(batch) is not None:
                outbox.kernel.post.add(batch, [channel])
            else:
                connection.send(batch)
                batch.sent()
        if outbox.lines or (connection.binding.polling and connection.channel is channel):
            client.rebind()

    # -- its connection -------------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """There is a connection: what the last one did not carry goes now."""
        outbox = self._outbox
        outbox.open = True
        outbox.ready = False
        outbox.rest_until = 0.0
        self.count_left()
        if outbox.lines:
            if self._budget is not None:
                # Sent again, or left over from a connection of limited length: it counts when it is sent.
                self._budget.spend(now, sum(map(len, outbox.lines)))
            if self.log.sent + len(outbox.lines) > self.log.reached:
                for lane in self.lanes():
                    lane.restart_interval()

    def stop(self) -> None:
        """The connection has ended, or takes no more for now."""
        self._outbox.stop()
        self.count_left()

    def go_on(self) -> None:
        """The connection takes more again."""
        self._outbox.open = True
        self._outbox.mark_dirty()

    def count_left(self) -> None:
        left = 0 if self._connection.channel is not None else sum(map(len, self._outbox.lines))
        self._outbox.count_waiting(left - self._left)
        self._left = left

    def waiting(self) -> int:
        return super().waiting() + self._left

    def limit(self, kbps: float | None) -> None:
        """A bandwidth limit in kbit/s; None lifts it."""
        if kbps is None:
            self._budget = None
        elif self._budget is None:
            self._budget = Budget(kbps)
        else:
            self._budget.change(self._outbox.kernel.clock(), kbps)

    def reconsider(self) -> None:
        """What may be sent at once has changed."""
        self._outbox.ready = False
        self._outbox.mark_dirty()

    # -- recovery -------------------------------------------------------------------------------------------------

    def rewind(self, progressive: int) -> None:
        """Make the lines to be sent begin after the notification with this number, or raise a Refusal."""
        log, outbox = self.log, self._outbox
        if not log.first <= progressive <= log.reached:
            raise Refusal(
                Reason.RECOVERY,
                f"Recovery from {progressive} is not possible; only from {log.first} to {log.reached}",
            )
        if progressive > log.sent:
            # An earlier recovery went back further, and its connection ended before all was sent again.
            known = outbox.lines[: progressive - log.sent]
            del outbox.lines[: len(known)]
            log.append(Batch(outbox.kernel.clock(), known))
        again = log.rewind(progressive)
        assert again is not None
        outbox.put_again(again)

    def take_back(self, batch: Batch) -> None:
        """The connection had no room for the batch that was logged last: that is sent first, as far as it fits."""
        self.log.take_back(batch)
        self._outbox.put_back(batch)

    # -- sharing, and the end -------------------------------------------------------------------------------------

    def is_common(self) -> bool:
        """Whether another client's stream may be just like it: it goes at its own pace if the bandwidth is limited, or
        if the client polls."""
        connection = self._connection
        return (
            bool(self._lanes)
            and self._budget is None
            and connection.channel is not None
            and not connection.binding.polling
        )

    def course(self) -> tuple[object, ...]:
        """Everything except the past that decides what a common stream sends and when."""
        return self.log.max_bytes, *[lane.course() for lane in self.lanes()]

    def open_up(self, sharing: Sharing) -> tuple[SharedStream, Share]:
        """Become a stream that others may read as well."""
        stream = SharedStream(sharing, self.course(), self._lanes, self._outbox, self.log.blank())
        return stream, stream.let_in(self._share(stream))

    def retire(self, stream: SharedStream) -> Share:
        """Another stream takes the place of this one, which is calm."""
        self._drop_lanes()
        self._outbox.empty()
        return self._share(stream)

    def _share(self, stream: SharedStream) -> Share:
        """What the client has from now on. Whoever still knows this stream can reach nobody through it."""
        client = self._client
        assert client is not None
        share = Share(client, self._connection, stream, self.log, stream.log.sent)
        self._client, self._lanes, self._outbox = None, {}, self._outbox.blank()
        self.log = self.log.blank()
        return share

    def end(self) -> None:
        """The session has ended."""
        self._client = None
        self._drop_lanes()
        self._outbox.empty()
        self.count_left()
        self.log.clear()


class Share:
    """A session's part of a stream that it reads with others: all of it from a mark on, after what it had before."""

    __slots__ = ("_mark", "_past", "_stream", "client", "connection")

    def __init__(
        self, client: Session, connection: Connection, stream: SharedStream, past: RecoveryLog, mark: int
    ) -> None:
        self.client = client
        self.connection = connection
        self._stream = stream
        # The shared log goes on where that of the session has ended: the mark is where that was.
        self._past = past
        self._mark = mark

    @property
    def past(self) -> RecoveryLog:
        """What it has sent by itself; without what it has sent with the others."""
        return self._past

    @property
    def log(self) -> RecoveryLog:
        """What it has sent."""
        log = self._stream.log
        self._past.extend(log, self._mark)
        self._mark = log.sent
        return self._past

    def forget_past(self) -> None:
        """Drop what it had sent before, if that cannot be recovered any more."""
        if self._stream.log.first > self._mark:
            self._past.clear()

    def part(self) -> OwnStream:
        """An own stream that goes on where this one is."""
        return self._stream.part(self)

    def leave(self) -> OwnStream:
        """An own stream that is empty: nothing of what waits is for this client any more."""
        return self._stream.leave(self)

    def flush(self) -> None:
        self._stream.flush()

    def figures(self) -> Figures:
        return self._stream.figures()

    @property
    def unsent(self) -> int:
        return self._stream.unsent

    @property
    def held(self) -> int:
        return self._stream.held

    def waiting(self) -> int:
        return self._stream.waiting()

    def shed(self) -> bool:
        return self._stream.shed()


class SharedStream(Stream):
    """The stream of all sessions that are at the same point of the same course."""

    __slots__ = ("_course", "_shares", "_sharing", "log")

    def __init__(
        self, sharing: Sharing, course: tuple[object, ...], lanes: Lanes, outbox: Outbox, log: RecoveryLog
    ) -> None:
        super().__init__(lanes, outbox)
        self._sharing = sharing
        self._course = course
        # What has been sent; each share knows from which number on that includes its client.
        self.log = log
        # By their connections; every write goes to all of them.
        self._shares: dict[Connection, Share] = {}

    @property
    def course(self) -> tuple[object, ...]:
        return self._course

    def admit(self, own: OwnStream) -> Share | None:
        """Let a client in if its own stream is common, has the same course, and both are at the same point of it."""
        if not self.settle() or not self._shares or not own.is_common() or not own.settle():
            return None
        if not _match(self.lanes(), own.lanes()) or own.course() != self._course:
            return None
        return self.let_in(own.retire(self))

    def let_in(self, share: Share) -> Share:
        self._shares[share.connection] = share
        self._outbox.readers = len(self._shares)
        return share

    def flush(self) -> None:
        """The same bytes to every reader."""
        outbox = self._outbox
        outbox.dirty = False
        if outbox.has_too_many():
            for share in list(self._shares.values()):
                share.client.close(Cause.UNEXPECTED, TOO_MANY)
            return
        outbox.encode(None, 0)
        if not outbox.lines or outbox.is_held_back():
            return
        batch = outbox.pack(outbox.lines)
        self.log.append(batch)
        sockets: list[Channel] = []
        responses: list[Channel] = []
        # A copy: from here on channels may become congested, and their sessions leave.
        shares = self._shares.copy()
        for connection in shares:
            channel = connection.posted(batch)
            if channel is not None:
                (sockets if connection.is_websocket else responses).append(channel)
            elif not connection.carry(batch):
                shares[connection].client.own().take_back(batch)
        if sockets:
            outbox.kernel.post.add(batch, sockets)
        if responses:
            outbox.kernel.post.add(batch, responses)
        if not sockets and not responses:
            batch.sent()

    def part(self, share: Share) -> OwnStream:
        """Take a client out, with a clone of everything; if nobody else reads it, with the stream itself."""
        log = share.log
        del self._shares[share.connection]
        lanes, outbox = self._lanes, self._outbox
        if self._shares:
            outbox = Outbox(self._outbox.kernel)
            clones = {lane: lane.clone(outbox) for lane in self.lanes()}
            lanes = {number: [clones[lane] for lane in some] for number, some in self._lanes.items()}
            outbox.copy(self._outbox, clones)
            self._outbox.readers = len(self._shares)
        else:
            self._retire()
        return OwnStream(share.client, share.connection, lanes, outbox, log)

    def leave(self, share: Share) -> OwnStream:
        """Take out a client that is to be sent nothing more."""
        del self._shares[share.connection]
        self._outbox.readers = len(self._shares)
        if not self._shares:
            self._drop_lanes()
            self._outbox.empty()
            self._retire()
        return OwnStream(share.client, share.connection, {}, Outbox(self._outbox.kernel), share.past)

    def _retire(self) -> None:
        self.log.clear()
        self._sharing.remove(self)


def _match(lanes: list[Lane], others: list[Lane]) -> bool:
    return len(lanes) == len(others) and all(lane.matches(other) for lane, other in zip(lanes, others, strict=True))
