"""A session: one client, what it is subscribed to, and the deadlines, the connection and the stream that it owns.

Data notifications are numbered by being sent, and kept for recovery. What waits to be sent, and who gets it, is in
`stream` and `outbox`; when something is due, in `deadlines`; what a connection may carry, in `connection`.
Specification: TLCP chapter 1, "Session Life Cycle".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.kernel.connection import TAIL_RESERVE, Binding, Connection
from penstock.kernel.deadlines import Deadlines, Due, keepalive_millis
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.messages import Messages
from penstock.kernel.outbox import Outbox
from penstock.kernel.ports import Admission, ClientFacts, Limits
from penstock.kernel.recovery import RecoveryLog
from penstock.kernel.ruling import Ruling
from penstock.kernel.stream import NOTHING, Figures, OwnStream, Share
from penstock.kernel.subscription import Subscription, SubscriptionRequest
from penstock.kernel.timers import Timed

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.ports import Channel, Codec, MessageHandler

# A custom END message (code 0 or negative) of more characters is not sent on a connection of limited length.
MAX_TAIL_MESSAGE = 35

# Subscriptions that are found by looking at each.
FEW = 4

# Until it is known what a session may have.
UNLIMITED = Admission()

# Until it is known who has opened it.
UNKNOWN_CLIENT = ClientFacts("", False, {})


class Session(Timed):
    """Opened by `Kernel.open_session`, bound by `bind`, gone after `close`."""

    # A server holds many thousands, and without slots each would have a dictionary: docs/performance.md, "The goals".
    __slots__ = (
        "_connection",
        "_deadlines",
        "_elsewhere",
        "_few",
        "_messages",
        "_numbered",
        "_recoverable",
        "_requested_bandwidth",
        "_stream",
        "adapter_set",
        "admission",
        "announced_address",
        "announced_name",
        "client",
        "closed",
        "codec",
        "handler",
        "id",
        "kernel",
        "limits",
        "max_bandwidth",
        "opened",
        "ruling",
        "tells_constraints",
        "used",
        "user",
    )

    def __init__(
        self, kernel: Kernel, session_id: str, codec: Codec, handler: MessageHandler, recoverable: bool = True
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.limits = kernel.limits
        self.id = session_id
        self.codec = codec
        self.handler = handler
        self.user: str | None = None
        self.adapter_set = ""
        # Who has opened it; the client's own address and the server's name as the client was last told them.
        self.client = UNKNOWN_CLIENT
        self.announced_address = ""
        self.announced_name = ""
        # A dictionary of its own would take more memory than the few subscriptions that most sessions have.
        self._few: tuple[Subscription, ...] = ()
        self._numbered: dict[int, Subscription] | None = None
        self._messages: Messages | None = None
        # The bandwidth limit that holds, in kbit/s; what the client has asked for, and what an administrator has set.
        self.max_bandwidth: float | None = None
        self._requested_bandwidth: float | None = None
        self.ruling: Ruling | None = None
        self.admission = UNLIMITED
        self.tells_constraints = True
        self.opened = kernel.clock()
        self.closed = False
        # Whether anything has been asked of it since it was opened.
        self.used = False
        # Whether it survives the loss of its connection.
        self._recoverable = recoverable
        self._connection = Connection()
        self._deadlines = Deadlines(self.limits, kernel.clock())
        kept = self.limits.max_recovery_length if recoverable else 0
        log = RecoveryLog(kept, self.limits.max_recovery_age_millis / 1000, kernel.ledger)
        self._stream: OwnStream | Share = OwnStream(self, self._connection, {}, Outbox(kernel), log)
        # What others were sent on that stream before this session shared it.
        self._elsewhere = NOTHING

    # -- the stream -----------------------------------------------------------------------------------------------

    def own(self) -> OwnStream:
        """The stream of this session alone, for something that happens only to it: it leaves one that it shares."""
        stream = self._stream
        if isinstance(stream, Share):
            stream = self._stream = stream.part()
        if not self.closed:
            self.kernel.sharing.watch(self)
        return stream

    def shareable(self, most_lanes: int) -> OwnStream | None:
        """Its own stream, if what it is sent may be the same as what others are sent."""
        stream = self._stream
        if (
            isinstance(stream, OwnStream)
            and stream.is_common()
            # With very many lanes, finding out whether they may be shared costs more than it saves, and others wait.
            and stream.is_small(most_lanes)
            and all(subscription.is_common(stream) for subscription in self._all())
        ):
            return stream
        return None

    def share(self, share: Share) -> None:
        """From now on it reads a stream with others, which goes on where its own has ended."""
        had = self.figures()
        self._stream = share
        self._elsewhere = share.figures().since(had)

    def figures(self) -> Figures:
        """What this client was sent so far, and what it was not."""
        return self._stream.figures().since(self._elsewhere)

    @property
    def shares(self) -> bool:
        """Whether it reads a stream that others may read as well."""
        return isinstance(self._stream, Share)

    @property
    def log(self) -> RecoveryLog:
        """What it has sent."""
        return self._stream.log

    @property
    def own_log(self) -> RecoveryLog:
        """What it has sent by itself; without what it has sent with others."""
        stream = self._stream
        return stream.past if isinstance(stream, Share) else stream.log

    @property
    def unsent(self) -> int:
        """How many lines are encoded but not written."""
        return self._stream.unsent

    def notify(self, line: bytes) -> None:
        """A data notification for this client alone, in order with what its lanes send."""
        if self.closed:
            # Such as the outcome of a message that took longer: nobody is left to read it, or to release it.
            return
        self.own().tell(line)

    # -- the connection -------------------------------------------------------------------------------------------

    @property
    def channel(self) -> Channel | None:
        """What it is bound to."""
        return self._connection.channel

    @property
    def transport(self) -> str:
        """How its client is connected: see `connection.NO_TRANSPORT` and those after it."""
        return self._connection.transport

    def keepalive_millis(self, binding: Binding) -> int:
        """The longest silence of a connection bound like this: what CONOK announces."""
        return keepalive_millis(binding, self.limits)

    def bind(self, channel: Channel, binding: Binding, head: list[bytes], recovery_from: int | None = None) -> None:
        """Take over `channel`: write `head`, the constraints and the recovery point, then whatever is due.

        Raises a Refusal, and changes nothing, when `recovery_from` cannot be honoured.
        """
        self.kernel.post.send()
        own, connection = self.own(), self._connection
        if recovery_from is not None:
            own.rewind(recovery_from)
        else:
            own.log.clear()
        if connection.channel is not None:
            last_line = self.codec.end(Cause.REBOUND_ELSEWHERE, "The session has been bound to another connection")
            connection.end(last_line, True)
        now = self.kernel.clock()
        connection.begin(channel, binding, now)
        self._deadlines.bind(binding, now)
        channel.write(head)
        if self.tells_constraints:
            channel.write([self._constraints()])
        if recovery_from is not None:
            channel.write([self.codec.recovering(recovery_from)])
        own.begin(now)
        own.flush()
        if connection.channel is channel and binding.polling and self._deadlines.is_poll_over(now):
            self.rebind()
        self._set_alarm()

    def drop(self) -> None:
        """The connection was lost: keep the session for a while, because the client may recover it."""
        if not self._recoverable:
            self._connection.channel = None
            self.close(None, "")
            return
        own = self.own()
        self._connection.channel = None
        own.stop()
        self._deadlines.unbind(self.kernel.clock() + self.limits.session_recovery_millis / 1000)
        self._set_alarm()

    def lose_connection(self) -> None:
        """Cut the connection: its client is gone."""
        channel = self._connection.channel
        assert channel is not None
        channel.abort()
        self.drop()

    def rebind(self, delay_millis: int | None = None, close_socket: bool = False) -> None:
        """Ask the client to bind again.

        LOOP, and release the connection. `delay_millis` is when it intends to come back.
        """
        self.kernel.post.send()
        own, connection = self.own(), self._connection
        binding = connection.binding
        most = self.limits.max_polling_millis
        polling = min(binding.polling_millis, most) if binding.polling else 0
        patience = polling if delay_millis is None else min(delay_millis, most)
        if connection.channel is not None:
            connection.end(self.codec.loop(polling), close_socket)
            own.stop()
        self._deadlines.unbind(self.kernel.clock() + (self.limits.session_timeout_millis + patience) / 1000)
        self._set_alarm()

    def congest(self) -> None:
        """The connection has more unsent bytes than it should: hold everything."""
        own = self.own()
        # It cannot share until the connection has drained.
        self.kernel.sharing.forget(self)
        self._connection.congested = True
        own.stop()

    def relieve(self) -> None:
        """The connection has drained."""
        connection = self._connection
        if connection.congested:
            connection.congested = False
            if connection.channel is not None:
                self.own().go_on()

    def _say(self, line: bytes) -> None:
        """A notification about the connection itself: not numbered, not recovered, and after what was sent before."""
        stream, connection = self._stream, self._connection
        if stream.unsent:
            stream.flush()
        stream = self._stream
        if isinstance(stream, Share):
            stream.forget_past()
        if connection.channel is None:
            return
        if connection.fits(len(line)):
            batch = self.kernel.said(line)
            channel = connection.posted(batch)
            if channel is not None:
                self.kernel.post.add_word(batch, connection, channel)
            else:
                connection.send(batch)
            # Read after the write, which may have taken long.
            connection.last_write = self.kernel.clock()
        else:
            self.rebind()

    # -- time -----------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """A request for this session has come: the client is alive."""
        self._deadlines.touch(self.kernel.clock())
        if not self.used and not self.closed:
            self.used = True
            self.kernel.tally.use_session()

    def end_after(self, seconds: float) -> None:
        """Have the session end at the given time, unless it ends before."""
        self._deadlines.end_by(self.kernel.clock() + seconds)
        self._set_alarm()

    def expire(self, now: float) -> None:
        """Do whatever is due, then set the next deadline."""
        if self.closed:
            return
        due = self._deadlines.due(now, self._connection.last_write)
        if due is Due.END:
            self.close(Cause.MAX_DURATION, "The maximum session duration has been reached")
        elif due is Due.FORGET:
            self.close(None, "")
        elif due is Due.SILENCE:
            self._give_up_on_client(now)
        elif due is Due.REBIND:
            self.rebind()
        elif due is Due.SYNC:
            self._say(self.codec.synchronized(self._deadlines.synchronize(now)))
        elif due is Due.PROBE:
            self._say(self.codec.probe())
        if not self.closed:
            self._set_alarm()

    def _give_up_on_client(self, now: float) -> None:
        """Nothing has been heard from the client for too long."""
        channel = self._connection.channel
        assert channel is not None
        if channel.listening:
            self.lose_connection()
        else:
            # What it has sent waits to be read by us: that is not the client's fault.
            self._deadlines.touch(now)

    def _set_alarm(self) -> None:
        deadline, self.lead = self._deadlines.next(self._connection.last_write)
        self.kernel.set_timer(self, deadline)

    # -- when too much waits --------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Bytes of the events that wait for this client."""
        return self._stream.held

    def waiting(self) -> int:
        """Bytes that wait for this client, without what transports hold and what is kept for recovery."""
        return self._stream.waiting()

    def shed(self) -> bool:
        """Keep of the events that wait only the latest of each item; False if there were no others."""
        return self._stream.shed()

    def give_up(self) -> None:
        """Close the session: more waits for its client than the server can hold."""
        connection = self._connection
        channel = connection.channel
        if channel is not None and connection.congested:
            # It would never read its last line, and what it has not read must be released.
            channel.abort()
            connection.channel = None
        # The cause after which clients reconnect by themselves.
        self.close(Cause.MAX_DURATION, "Too much waits for the clients of this server")

    # -- requests -------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> Messages:
        """The upstream messages; made when the first comes, because most clients send none."""
        if self._messages is None:
            self._messages = Messages(self)
        return self._messages

    def check_new(self, number: int) -> None:
        """Refuse a subscription that is impossible, whatever its items."""
        if self._find(number) is not None:
            raise Refusal(Reason.INVALID, f"Subscription number {number} is in use")
        if len(self._few if self._numbered is None else self._numbered) >= self.limits.max_subscriptions_per_session:
            raise Refusal(
                Reason.INVALID,
                f"The session has reached {self.limits.max_subscriptions_per_session} subscriptions, the most allowed",
            )

    def subscribe(self, request: SubscriptionRequest) -> None:
        own = self.own()
        self.check_new(request.number)
        if len(request.grant.items) > self.limits.max_items_per_subscription:
            raise Refusal(Reason.GROUP, f"More than {self.limits.max_items_per_subscription} items, the most allowed")
        subscription = Subscription(self, request.feed.same_request(request))
        subscription.start(own)
        self._add(subscription)

    @property
    def subscriptions(self) -> dict[int, Subscription]:
        """By their numbers, in the order in which they began. A copy."""
        return {subscription.number: subscription for subscription in self._all()}

    def _all(self) -> Sequence[Subscription]:
        return self._few if self._numbered is None else list(self._numbered.values())

    def _find(self, number: int) -> Subscription | None:
        if self._numbered is not None:
            return self._numbered.get(number)
        for subscription in self._few:
            if subscription.number == number:
                return subscription
        return None

    def _add(self, subscription: Subscription) -> None:
        if self._numbered is None and len(self._few) < FEW:
            self._few = (*self._few, subscription)
            return
        if self._numbered is None:
            self._numbered = self.subscriptions
            self._few = ()
        self._numbered[subscription.number] = subscription

    def _remove(self, subscription: Subscription) -> None:
        if self._numbered is None:
            self._few = tuple([each for each in self._few if each is not subscription])
        else:
            del self._numbered[subscription.number]

    def subscription(self, number: int) -> Subscription:
        subscription = self._find(number)
        if subscription is None:
            raise Refusal(Reason.UNKNOWN_SUBSCRIPTION, f"Subscription {number} not found")
        return subscription

    def unsubscribe(self, number: int) -> None:
        subscription = self.subscription(number)
        own = self.own()
        self._remove(subscription)
        subscription.stop(own)
        self._tell_end(subscription)
        own.tell(self.codec.unsubscribed(number))

    def _tell_end(self, subscription: Subscription) -> None:
        if self.kernel.observer is not None:
            self.kernel.observer.subscription_closed(self, subscription)

    def admit(self, admission: Admission, requested_bandwidth: float | None) -> None:
        """What the metadata adapter allows, and what the client asks for, before the first binding."""
        self.admission = admission
        self._requested_bandwidth = requested_bandwidth
        self._limit_bandwidth(self.own())

    @property
    def requested_bandwidth(self) -> float | None:
        """What the client has asked for, in kbit/s; None is no limit."""
        return self._requested_bandwidth

    def constrain(self, requested_bandwidth: float | None, allowed: Limits = ()) -> None:
        """A new bandwidth limit in kbit/s asked for by the client; None lifts it, as far as it is allowed.

        `allowed` has the most that the metadata adapter allows from now on, if it has decided again.
        """
        self._requested_bandwidth = requested_bandwidth
        if allowed:
            self._allow(allowed[0])
        self._change_bandwidth()

    def allow_bandwidth(self, limit: float | None) -> None:
        """The most that the metadata adapter allows from now on, in kbit/s; what an administrator has set stays."""
        self._allow(limit)
        if self.ruling is None:
            self._change_bandwidth()

    def _allow(self, limit: float | None) -> None:
        was = self.admission
        self.admission = Admission(
            limit,
            was.manages_bandwidth,
            was.user,
            was.roles,
            was.time_to_live,
            was.follows_subscriptions,
            was.reexamines_bandwidth,
        )

    def allow_frequency(self, number: int, limit: float | None) -> None:
        """The most updates a second that the metadata adapter allows each item of a subscription from now on."""
        subscription = self.subscription(number)
        subscription.allow_frequency((limit,) * len(subscription.request.grant.items))

    def rule(self, ruling: Ruling | None) -> None:
        """A bandwidth limit set by an administrator; None: what the metadata adapter allows holds again."""
        self.ruling = ruling
        self._change_bandwidth()

    def _change_bandwidth(self) -> None:
        own = self.own()
        if self.max_bandwidth is None:
            # What was encoded without a limit is sent without one.
            own.hurry()
        self._limit_bandwidth(own)
        self.confirm_constraints()
        own.reconsider()

    def confirm_constraints(self) -> None:
        """Tell the client the bandwidth limit in force."""
        if self.tells_constraints:
            self._say(self._constraints())
            if self._connection.binding.polling and self._connection.channel is not None:
                # It counts as a notification that a poll waits for.
                self.rebind()

    @property
    def allowed_bandwidth(self) -> float | None:
        """The most that the client may have, in kbit/s, whatever it asks for; None means no limit."""
        return self.admission.max_bandwidth if self.ruling is None else self.ruling.limit

    def _limit_bandwidth(self, own: OwnStream) -> None:
        limits = [self.allowed_bandwidth]
        if self.admission.manages_bandwidth:
            limits.append(self._requested_bandwidth)
        found = [limit for limit in limits if limit is not None]
        self.max_bandwidth = min(found) if found else None
        own.limit(self.max_bandwidth)

    def _constraints(self) -> bytes:
        return self.codec.constrained(self.max_bandwidth, self.admission.manages_bandwidth)

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self, code: int | None, message: str, close_socket: bool = True) -> None:
        """End the session for good; a bound connection gets END. Without a code nothing is sent: the client is gone."""
        if self.closed:
            return
        self.kernel.post.send()
        self.closed = True
        if self.used:
            self.kernel.tally.used_sessions -= 1
        self.kernel.sharing.forget(self)
        connection = self._connection
        channel = connection.channel
        if channel is not None:
            assert code is not None
            last_line = self.codec.end(code, message)
            is_long = (code <= 0 and len(message) > MAX_TAIL_MESSAGE) or len(last_line) > TAIL_RESERVE
            if is_long and channel.room() is not None:
                last_line = self.codec.end(code, "[Custom message skipped]")
            connection.end(last_line, close_socket)
        stream = self._stream
        had = self.figures()
        own = self._stream = stream.leave() if isinstance(stream, Share) else stream
        self._elsewhere = own.figures().since(had)
        for subscription in self._all():
            subscription.stop(own)
            self._tell_end(subscription)
        self._few = ()
        self._numbered = None
        own.end()
        if self._messages is not None:
            self._messages.end()
        self.kernel.forget(self, code, message, told=channel is not None)


__all__ = ["Binding", "Session"]
