"""The kernel: all feeds and sessions, the list of streams with something to send, and the deadlines.

Its owner calls `turn` when the waker asked for it; everything that was sent in between goes out in one write per
session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.feed import Feed
from penstock.kernel.identity import SessionIds, same
from penstock.kernel.ledger import Ledger
from penstock.kernel.limits import SessionLimits
from penstock.kernel.outbox import Outbox
from penstock.kernel.recovery import Batch, RecoveryLog
from penstock.kernel.session import Session
from penstock.kernel.sharing import Sharing
from penstock.kernel.tally import Tally
from penstock.kernel.timers import Beats, Timed, Timers

if TYPE_CHECKING:
    from penstock.kernel.connection import Connection
    from penstock.kernel.ports import (
        AttendedSession,
        Carrier,
        Channel,
        Clock,
        Codec,
        DataSource,
        FeedObserver,
        MessageHandler,
        SessionObserver,
        Sessions,
        Waker,
    )

# Bytes of what a session is sent that others may be sent as well: such as the snapshot of a page, which is the same for
# those who open it at about the same time.
MAX_SHARED_PAYLOAD = 4_096

# Bytes of batches that are carried together: what thousands of sessions are sent in a turn must not be in memory twice.
MOST_BYTES = 1_048_576

# What clients are told who ask for a session of another node.
FOREIGN = "The session belongs to another server instance"
# And of one that nobody has.
UNKNOWN = "Specified session not found"


class Obituary:
    """What a client is told that comes back to a session which was closed in its absence."""

    __slots__ = ("code", "id", "message", "until")

    def __init__(self, session_id: str, code: int, message: str, until: float) -> None:
        self.id = session_id
        self.code = code
        self.message = message
        self.until = until


class EndedSession(Refusal):
    """The session was closed on the server side while the client was away: the cause to report."""

    def __init__(self, cause: int, message: str) -> None:
        super().__init__(Reason.ENDED_SESSION, message)
        self.cause = cause


class Post:
    """What streams write in a turn, on its way to the channels. While it `holds`, what is added waits, unless that is
    very much.

    All of it is carried at once, at the end of the turn, because a door can then write to many sockets with one call.
    Only connections that go on afterwards use it, which is what most of them do: those that poll, and those whose
    length allows no more, write by themselves. Whoever writes to a channel in any other way calls `send` first: the
    order is kept.
    """

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
        """A batch, and the channels that are to have it: all of them are WebSockets, or none is."""
        if self._batches and self._batches[-1] is batch and self._channels[-1][0].websocket == channels[0].websocket:
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


@mypyc_attr(allow_interpreted_subclasses=True)
class Kernel:
    """The one per process. Single-threaded: all calls come from the thread that runs the event loop."""

    def __init__(
        self,
        clock: Clock,
        waker: Waker,
        ids: SessionIds,
        limits: SessionLimits,
        observer: SessionObserver | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        self.clock = clock
        self.limits = limits
        # What waits for all sessions together.
        self.ledger = Ledger(limits.max_waiting_bytes)
        self.tally = Tally()
        self.observer = observer
        self.post = Post(carrier or OneByOne(), clock)
        self.feeds: dict[tuple[str, str], Feed] = {}
        # Those who follow items without a session, or for clients elsewhere.
        self.feed_observers: list[FeedObserver] = []
        self.sessions: dict[str, Session] = {}
        # Those whose clients are at other processes, if there are any.
        self.guests: Sessions | None = None
        self._waker = waker
        self._ids = ids
        self._timers = Timers()
        self._beats = Beats(self._timers)
        # The time of the turn that is running; 0 between turns.
        self._turn_time = 0.0
        self._dirty: list[Outbox] = []
        self.sharing = Sharing(self)
        # The least number of seconds between two writes of a session: what comes in between goes in one write. Under
        # load it is conflated where that is allowed.
        self.rest = 0.0
        self.strained = False
        self.set_strain(0.0)
        self._ended: dict[str, Obituary] = {}
        self._said = Batch(0.0, ())
        self._packed = b""

    # -- feeds ----------------------------------------------------------------------------------------------------

    def add_feed(self, adapter_set: str, name: str, source: DataSource) -> Feed:
        feed = Feed(self, adapter_set, name, source)
        self.serve(feed)
        return feed

    def serve(self, feed: Feed) -> None:
        """Let clients subscribe to the items of a data adapter that has started."""
        self.feeds[feed.adapter_set, feed.name] = feed
        for observer in self.feed_observers:
            observer.feed_served(feed)

    def withdraw(self, adapter_set: str, name: str) -> None:
        """A data adapter is about to stop; its sessions have been closed."""
        feed = self.feeds.pop((adapter_set, name))
        for observer in self.feed_observers:
            observer.feed_withdrawn(feed)
        feed.unpin()
        feed.forget_requests()

    def feed(self, adapter_set: str, name: str) -> Feed:
        feed = self.feeds.get((adapter_set, name))
        if feed is None:
            known = " ".join(sorted(other for owner, other in self.feeds if owner == adapter_set))
            raise Refusal(Reason.DATA_ADAPTER, f"{name} is not a data adapter of set {adapter_set}; it has {known}")
        return feed

    # -- sessions -------------------------------------------------------------------------------------------------

    def open_session(self, codec: Codec, handler: MessageHandler, recoverable: bool = True) -> Session:
        """A new session, unbound; raises a Refusal when there are too many."""
        limit = self.limits.max_sessions
        if limit and len(self.sessions) >= limit:
            self.tally.refused_sessions += 1
            raise Refusal(Reason.MAX_SESSIONS, f"Configured maximum number of sessions reached: {limit}")
        session = Session(self, self._ids.new(), codec, handler, recoverable)
        key = self._ids.key(session.id)
        assert key is not None
        self.sessions[key] = session
        self.tally.opened_sessions += 1
        return session

    def find_session(self, session_id: str) -> Session:
        """The live session with this identifier; raises a Refusal that says why there is none."""
        key = self._ids.key(session_id)
        if key is not None:
            session = self.sessions.get(key)
            if session is not None and same(session.id, session_id):
                return session
            ended = self._ended.get(key)
            if ended is not None and same(ended.id, session_id) and ended.until > self.clock():
                raise EndedSession(ended.code, ended.message)
            if self._ids.is_foreign(session_id):
                raise Refusal(Reason.FOREIGN_SESSION, FOREIGN)
        raise Refusal(Reason.UNKNOWN_SESSION, UNKNOWN)

    def attended_session(self, session_id: str) -> AttendedSession | None:
        """The live session with this identifier, wherever its client is."""
        if self.guests is not None:
            guest = self.guests.find_session(session_id)
            if guest is not None:
                return guest
        try:
            return self.find_session(session_id)
        except Refusal:
            return None

    def attended_sessions(self, adapter_set: str) -> list[AttendedSession]:
        """All of an adapter set, wherever their clients are."""
        found: list[AttendedSession] = [one for one in self.sessions.values() if one.adapter_set == adapter_set]
        if self.guests is not None:
            found += self.guests.of_set(adapter_set)
        return found

    def shown_session(self, name: str) -> Session | None:
        """The live session that logs and lists show under this name, see `identity.public`."""
        return self.sessions.get(name[1:]) if name[:1] == "S" else None

    def forget(self, session: Session, code: int | None, message: str, told: bool) -> None:
        """A session has closed itself."""
        key = self._ids.key(session.id)
        assert key is not None
        self.sessions.pop(key, None)
        now = self.clock()
        for old in [old for old, ended in self._ended.items() if ended.until <= now]:
            del self._ended[old]
        if not told and code is not None:
            until = now + self.limits.session_timeout_millis / 1000
            self._ended[key] = Obituary(session.id, code, message, until)
        if self.observer is not None:
            self.observer.session_closed(session, code, message)

    # -- turns ----------------------------------------------------------------------------------------------------

    def add_dirty(self, outbox: Outbox) -> None:
        if not self._dirty:
            self._waker.wake()
        self._dirty.append(outbox)

    def wake(self) -> None:
        """Request a turn."""
        self._waker.wake()

    @property
    def is_dirty(self) -> bool:
        """Whether a stream has had something to send since the last turn."""
        return bool(self._dirty)

    def said(self, line: bytes) -> Batch:
        """A line for many sessions at about the same time, as a batch that they share: it is framed once."""
        if line != self._said.payload:
            self._said = Batch(0.0, (line,))
        return self._said

    def share_payload(self, batch: Batch) -> None:
        """Sessions that are sent the same one after the other keep it once, each in its log."""
        payload = batch.payload
        if payload == self._packed:
            batch.payload = self._packed
        elif len(payload) <= MAX_SHARED_PAYLOAD:
            self._packed = payload

    def set_strain(self, seconds: float) -> None:
        """How long every session is to rest between writes because the machine cannot keep up; 0 when it can."""
        self.rest = max(self.limits.max_delay_millis / 1000, seconds)
        self.strained = seconds > 0

    def set_timer(self, target: Timed, when: float) -> None:
        before = self._timers.next_deadline()
        self._timers.set(target, when)
        if before is None or when < before:
            self._waker.wake()

    def pace(self, target: Timed, interval: float, group: int) -> None:
        """Have the target expire when the interval has passed, or a little later together with others of its group."""
        before = self._timers.next_deadline()
        self._beats.join(target, interval, group, self.now())
        if before is None or self._timers.next_deadline() != before:
            self._waker.wake()

    def now(self) -> float:
        """The time, precise enough for pacing: the same for all that happens in one turn."""
        return self._turn_time or self.clock()

    def next_deadline(self) -> float | None:
        return self._timers.next_deadline()

    def turn(self) -> None:
        """Expire what is due, then flush every stream that has something to send."""
        self._turn_time = self.clock()
        try:
            self._expire_and_flush()
            if self.sharing.due:
                self.sharing.gather()
            if self.ledger.is_full():
                self.ledger.relieve(list(self.sessions.values()), self._logs())
        finally:
            self._turn_time = 0.0

    def _expire_and_flush(self) -> None:
        post = self.post
        post.holds = True
        try:
            self._timers.run(self._turn_time)
            dirty = self._dirty
            self._dirty = []
            for outbox in dirty:
                stream = outbox.stream
                if outbox.dirty and stream is not None:
                    stream.flush()
        finally:
            post.holds = False
            post.send()

    def tidy(self) -> None:
        """Release what is too old to be of use, also in sessions where nothing happens any more."""
        now = self.clock()
        for feed in self.feeds.values():
            feed.tidy(now)
        for log in self._logs():
            log.forget(now)

    def _logs(self) -> list[RecoveryLog]:
        """All logs; what sessions have sent together is in one."""
        return [*[session.own_log for session in self.sessions.values()], *self.sharing.logs()]

    def stop(self) -> None:
        """End every session; used when the process goes down.

        Cause 48 is the one that makes clients open a new session by themselves. After LOOP they would try to bind
        where nobody listens, and conclude that WebSockets do not work here: some never come back, others without them.
        """
        self.turn()
        for session in list(self.sessions.values()):
            session.close(Cause.MAX_DURATION, "The server is shutting down")
