"""A session: what one client is subscribed to, what it has been sent, and the connection it is bound to, if any.

Data notifications are numbered by being sent, and kept for recovery. What waits to be sent, and for how long, is in
`outbox`; what the passing of time does to it, in `connection`; how it shares work with others, in `convoy`.
Specification: TLCP chapter 1, "Session Life Cycle".
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from penstock.kernel.bandwidth import Budget
from penstock.kernel.connection import Binding, Connection
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.messages import Messages
from penstock.kernel.ports import Admission
from penstock.kernel.recovery import Batch, RecoveryLog
from penstock.kernel.subscription import Subscription, SubscriptionRequest

if TYPE_CHECKING:
    from penstock.kernel.convoy import Convoy
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.lane import Lane
    from penstock.kernel.ports import Channel, Codec, MessageHandler

# Room that is kept on a connection of limited length for its last line, LOOP or END.
TAIL_RESERVE = 96

# A custom END message (code 0 or negative) of more characters is not sent on a connection of limited length.
MAX_TAIL_MESSAGE = 35


class Session(Connection):
    """Opened by `Kernel.open_session`, bound by `bind`, gone after `close`."""

    __slots__ = (
        "_fresh",
        "_is_limited",
        "_left",
        "_log",
        "_mark",
        "_messages",
        "_recoverable",
        "adapter_set",
        "address",
        "admission",
        "announced_address",
        "convoy",
        "handler",
        "id",
        "max_bandwidth",
        "subscriptions",
        "tells_constraints",
        "user",
    )

    def __init__(
        self, kernel: Kernel, session_id: str, codec: Codec, handler: MessageHandler, recoverable: bool = True
    ) -> None:
        super().__init__(kernel, codec)
        self.id = session_id
        self.handler = handler
        self.user: str | None = None
        self.adapter_set = ""
        # Where it was opened from, and what the client was last told of its own address.
        self.address = ""
        self.announced_address = ""
        self.subscriptions: dict[int, Subscription] = {}
        self._messages: Messages | None = None
        self.max_bandwidth: float | None = None
        self.admission = Admission()
        self.tells_constraints = True
        # While it is in a convoy, that one's log goes on where its own has ended: the mark is where that was.
        self.convoy: Convoy | None = None
        self._mark = 0

        # Whether it outlives the loss of its connection.
        self._recoverable = recoverable
        self._log = self.new_log()

        # Bytes of lines that are encoded and have no connection.
        self._left = 0

        # Nothing has been sent on its present connection; and whether that may carry only so many bytes.
        self._fresh = False
        self._is_limited = False

    # -- the stream connection ------------------------------------------------------------------------------------

    def bind(self, channel: Channel, binding: Binding, head: list[bytes], recovery_from: int | None = None) -> None:
        """Take over `channel`: write `head`, the constraints and the recovery point, then whatever is due.

        Raises a Refusal, and changes nothing, when `recovery_from` cannot be honoured.
        """
        self.part()
        if recovery_from is not None:
            self._rewind(recovery_from)
        else:
            self._log.clear()
        if self.channel is not None:
            self._leave_channel(
                self.codec.end(Cause.REBOUND_ELSEWHERE, "The session has been bound to another connection"),
                True,
            )
        now = self.kernel.clock()
        self.channel = channel
        self._count_left()
        self._fresh = True
        self._is_limited = channel.room() is not None
        self._congested = False
        self._rest_until = 0.0
        self._begin(binding, now)
        channel.write(head)
        if self.tells_constraints:
            channel.write([self._constraints()])
        if recovery_from is not None:
            channel.write([self.codec.recovering(recovery_from)])
        if self._budget is not None and self._lines:
            # Sent again, or left over from a connection of limited length: it counts when it goes.
            self._budget.spend(now, sum(map(len, self._lines)))
        if self._log.sent + len(self._lines) > self._log.reached:
            self._restart_intervals()
        self.ready = False
        self.flush()
        if self.channel is channel and binding.polling and self._poll_until <= now:
            self.rebind()
        self._set_alarm()

    def _restart_intervals(self) -> None:
        """Lines that the last connection did not carry go only now: their lanes' intervals begin with it."""
        for subscription in self.subscriptions.values():
            for _, lane in subscription.lanes:
                lane.restart_interval()

    def _rewind(self, progressive: int) -> None:
        """Make the lines to be sent begin after the notification with this number, or raise a Refusal."""
        log = self._log
        if not log.first <= progressive <= log.reached:
            raise Refusal(
                Reason.RECOVERY,
                f"Recovery from {progressive} is not possible; only from {log.first} to {log.reached}",
            )
        if progressive > log.sent:
            # An earlier recovery went back further, and its connection ended before all was sent again.
            known = self._lines[: progressive - log.sent]
            del self._lines[: len(known)]
            log.append(Batch(self.kernel.clock(), known))
        again = log.rewind(progressive)
        assert again is not None
        self._lines = again + self._lines

    def drop(self) -> None:
        """The connection is gone without a word: keep the session for a while, the client may recover it."""
        self.part()
        self.channel = None
        self._count_left()
        if not self._recoverable:
            self.close(None, "")
            return
        self.ready = False
        now = self.kernel.clock()
        self._unbound_until = now + self.limits.session_recovery_millis / 1000
        self._set_alarm()

    def rebind(self, delay_millis: int | None = None, close_socket: bool = False) -> None:
        """Ask the client to bind again.

        LOOP, and let go of the connection. `delay_millis` is when it intends to come back.
        """
        self.part()
        now = self.kernel.clock()
        polling = self._poll_delay_millis if self._binding.polling else 0
        patience = polling if delay_millis is None else min(delay_millis, self.limits.max_polling_millis)
        if self.channel is not None:
            self._leave_channel(self.codec.loop(polling), close_socket)
            self._count_left()
        self._unbound_until = now + (self.limits.session_timeout_millis + patience) / 1000
        self._set_alarm()

    def _leave_channel(self, last_line: bytes, close_socket: bool) -> None:
        channel = self.channel
        assert channel is not None
        self.channel = None
        self.ready = False
        channel.write([last_line])
        channel.finish(close_socket)

    # -- sending --------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand the encoded lines to the connection, as far as it may carry them."""
        self.dirty = False
        if self._notices > self.limits.max_unbound_notifications:
            self.close(Cause.UNEXPECTED, "Too many notifications are waiting for this session")
            return
        if self._pending or not self.ready:
            self._update_ready()
        channel = self.channel
        lines = self._lines
        if channel is None or not lines:
            return
        if self._rest_until > self.kernel.now():
            # What comes until then goes in the same write.
            self.dirty = True
            self._drain_later(self._rest_until)
            return
        if self._is_limited:
            if self.convoy is not None and not self._fits(sum(map(len, lines))):
                self.part()
            lines = self._fitting(channel, lines)
        if lines:
            self._write(channel, lines)
        if self._lines or (self._binding.polling and self.channel is channel):
            self.rebind()

    def _fits(self, size: int) -> bool:
        """Whether so many more bytes leave room for the last line of the connection."""
        if not self._is_limited or self.channel is None:
            return True
        room = self.channel.room()
        return room is None or size <= room - TAIL_RESERVE

    def _fitting(self, channel: Channel, lines: list[bytes]) -> list[bytes]:
        """The lines that fit, removed from those to be sent.

        A line longer than a whole connection goes alone on a fresh one.
        """
        room = (channel.room() or 0) - TAIL_RESERVE
        count = 0
        for line in lines:
            room -= len(line)
            if room < 0 and not (count == 0 and self._fresh):
                break
            count += 1
        self._lines = lines[count:]
        return lines[:count]

    def _write(self, channel: Channel, lines: list[bytes]) -> None:
        now = self.kernel.now()
        if lines is self._lines:
            self._lines = []
        batch = Batch(now, lines)
        convoy = self.convoy
        (self._log if convoy is None else convoy.log).append(batch)
        self._fresh = False
        self._last_write = now
        self._room = self.limits.max_pending_bytes
        rest = self.kernel.rest
        if rest:
            self._rest_until = now + rest
            self.ready = self.ready and not self.kernel.strained
        followers = () if convoy is None else tuple(convoy.followers)
        # From here on the channels may find themselves full, and say so at once.
        channel.send(batch)
        for follower in followers:
            follower.carry(batch)
        batch.framed = None

    def carry(self, batch: Batch) -> None:
        """Send what the leader of the convoy has just sent; that it is sent is in the convoy's log already."""
        channel = self.channel
        assert channel is not None
        if self._is_limited and not self._fits(len(batch.payload)):
            self.part()
            self._log.take_back(batch)
            self._lines[:0] = batch.lines()
            self._mark_dirty()
            return
        self._fresh = False
        self._last_write = batch.time
        channel.send(batch)

    def notify(self, line: bytes) -> None:
        """A data notification for this client alone, in order with what its lanes send."""
        if self.closed:
            # Such as the outcome of a message that took longer: nobody is left to read it, or to let go of it.
            return
        self.part()
        self.tell(line)

    def _say(self, line: bytes) -> None:
        """A notification about the connection itself: not numbered, not recovered."""
        convoy = self.convoy
        sender = self if convoy is None else convoy.leader
        if sender._lines:
            sender.flush()
        if convoy is not None and convoy.log.first > self._mark:
            # Its own is before what can be recovered.
            self._log.clear()
        channel = self.channel
        if channel is None:
            return
        if self._is_limited and not self._fits(len(line)):
            self.rebind()
            return
        channel.send(self.kernel.said(line))
        self._last_write = self.kernel.clock()

    # -- when too much waits --------------------------------------------------------------------------------------

    def waiting(self) -> int:
        """Bytes that wait for this client, but for what transports hold and what is kept for recovery."""
        return self.held + self._told + self._left

    def _count_left(self) -> None:
        left = 0 if self.channel is not None else sum(map(len, self._lines))
        self._count_waiting(left - self._left)
        self._left = left

    def shed(self) -> bool:
        """Keep of the events that wait only the latest of each item; False if there were no others."""
        before = self.held
        for lane in self.lanes():
            lane.shed()
        return self.held < before

    def give_up(self) -> None:
        """Close the session: more waits for its client than the server can hold."""
        channel = self.channel
        if channel is not None and self._congested:
            # It would never read its last line, and what it has not read is to be let go.
            self.part()
            channel.abort()
            self.channel = None
        # The cause after which clients come again by themselves.
        self.close(Cause.MAX_DURATION, "Too much waits for the clients of this server")

    @property
    def own_log(self) -> RecoveryLog:
        """What it has sent by itself; without what it has sent as one of a convoy."""
        return self._log

    # -- convoys --------------------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """How many lines are encoded but not written."""
        return len(self._lines if self.convoy is None else self.convoy.leader._lines)

    @property
    def log(self) -> RecoveryLog:
        """What it has sent."""
        convoy = self.convoy
        if convoy is not None:
            self._log.extend(convoy.log, self._mark)
            self._mark = convoy.log.sent
        return self._log

    def new_log(self) -> RecoveryLog:
        kept = self.limits.max_recovery_length if self._recoverable else 0
        return RecoveryLog(kept, self.limits.max_recovery_age_millis / 1000, self.kernel.ledger)

    def join(self, convoy: Convoy) -> None:
        self.convoy = convoy
        self._mark = convoy.log.sent

    def leave(self) -> None:
        self._log = self.log
        self.convoy = None

    def part(self) -> None:
        """Something happens to this session alone."""
        convoys = self.kernel.convoys
        convoys.part(self)
        convoys.watch(self)

    def congest(self) -> None:
        self.kernel.convoys.part(self)
        super().congest()

    def relieve(self) -> None:
        super().relieve()
        self.kernel.convoys.watch(self)

    def is_small(self, most: int) -> bool:
        """Whether it has no more than so many lanes: asked before all of them are gone through."""
        count = 0
        for subscription in self.subscriptions.values():
            count += len(subscription.lanes)
            if count > most:
                return False
        return True

    def may_join(self) -> bool:
        """Whether what it is sent may be the same as what others are sent."""
        return (
            self.convoy is None
            and self.channel is not None
            and not self._binding.polling
            and self._budget is None
            and all(subscription.is_common() for subscription in self.subscriptions.values())
        )

    def is_calm(self) -> bool:
        return super().is_calm() and all(lane.is_calm() for lane in self.lanes())

    def lanes(self) -> list[Lane]:
        return [lane for subscription in self.subscriptions.values() for _, lane in subscription.lanes]

    def follow(self) -> None:
        """The lanes of another session do the work from now on."""
        self.ready = False
        self._drain_at = inf
        for lane in self.lanes():
            lane.stand_by()

    def assume(self, leader: Session) -> None:
        """Do the work from now on that the leader of the convoy has done."""
        lanes = dict(zip(leader.lanes(), self.lanes(), strict=True))
        for other, lane in lanes.items():
            lane.assume(other)
        self._take_over(leader, lanes)
        self._set_alarm()

    # -- requests -------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> Messages:
        """The upstream messages; made when the first comes, for most clients send none."""
        if self._messages is None:
            self._messages = Messages(self)
        return self._messages

    def check_new(self, number: int) -> None:
        """Refuse a subscription that cannot be, whatever it is about."""
        if number in self.subscriptions:
            raise Refusal(Reason.INVALID, f"Subscription number {number} is in use")
        if len(self.subscriptions) >= self.limits.max_subscriptions_per_session:
            raise Refusal(
                Reason.INVALID,
                f"The session has reached {self.limits.max_subscriptions_per_session} subscriptions, the most allowed",
            )

    def subscribe(self, request: SubscriptionRequest) -> None:
        self.part()
        self.check_new(request.number)
        if len(request.grant.items) > self.limits.max_items_per_subscription:
            raise Refusal(Reason.GROUP, f"More than {self.limits.max_items_per_subscription} items, the most allowed")
        subscription = Subscription(self, request)
        subscription.start()
        self.subscriptions[request.number] = subscription

    def subscription(self, number: int) -> Subscription:
        subscription = self.subscriptions.get(number)
        if subscription is None:
            raise Refusal(Reason.UNKNOWN_SUBSCRIPTION, f"Subscription {number} not found")
        return subscription

    def unsubscribe(self, number: int) -> None:
        subscription = self.subscription(number)
        self.part()
        del self.subscriptions[number]
        self._stop(subscription)
        self.notify(self.codec.unsubscribed(number))

    def _stop(self, subscription: Subscription) -> None:
        subscription.stop()
        if self.kernel.observer is not None:
            self.kernel.observer.subscription_closed(self, subscription)

    def admit(self, admission: Admission, requested_bandwidth: float | None) -> None:
        """What the metadata adapter allows, and what the client asks for, before the first binding."""
        self.admission = admission
        self._limit_bandwidth(requested_bandwidth)

    def constrain(self, requested_bandwidth: float | None) -> None:
        """A new bandwidth limit in kbit/s asked for by the client; None lifts it, as far as it is allowed."""
        self.part()
        if self._budget is None:
            # What is encoded without a limit goes without one.
            self.hurry()
        self._limit_bandwidth(requested_bandwidth)
        self.confirm_constraints()
        self.ready = False
        self._mark_dirty()

    def confirm_constraints(self) -> None:
        """Tell the client the bandwidth limit that holds."""
        if self.tells_constraints:
            self._say(self._constraints())
            if self._binding.polling and self.channel is not None:
                # It is a notification like those that a poll waits for.
                self.rebind()

    def _limit_bandwidth(self, requested: float | None) -> None:
        admission = self.admission
        limits = [admission.max_bandwidth]
        if admission.manages_bandwidth:
            limits.append(requested)
        found = [limit for limit in limits if limit is not None]
        self.max_bandwidth = min(found) if found else None
        if self.max_bandwidth is None:
            self._budget = None
        elif self._budget is None:
            self._budget = Budget(self.max_bandwidth)
        else:
            self._budget.change(self.kernel.clock(), self.max_bandwidth)

    def _constraints(self) -> bytes:
        return self.codec.constrained(self.max_bandwidth, self.admission.manages_bandwidth)

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self, code: int | None, message: str, close_socket: bool = True) -> None:
        """End the session for good; a bound connection gets END. Without a code nobody is told: the client has gone."""
        if self.closed:
            return
        self.kernel.convoys.part(self)
        self.kernel.convoys.forget(self)
        self.closed = True
        channel = self.channel
        if channel is not None:
            assert code is not None
            last_line = self.codec.end(code, message)
            is_long = (code <= 0 and len(message) > MAX_TAIL_MESSAGE) or len(last_line) > TAIL_RESERVE
            if is_long and channel.room() is not None:
                last_line = self.codec.end(code, "[Custom message skipped]")
            self._leave_channel(last_line, close_socket)
        self.ready = False
        self._lines = []
        self._count_left()
        self._pending = None
        self._notices = 0
        self._stalled = None
        self._log.clear()
        for subscription in self.subscriptions.values():
            self._stop(subscription)
        self.subscriptions.clear()
        # Those of lanes have gone with them.
        self.count_told(-self._told)
        if self._messages is not None:
            self._messages.end()
        self.kernel.forget(self, code, message, told=channel is not None)


__all__ = ["Binding", "Session"]
