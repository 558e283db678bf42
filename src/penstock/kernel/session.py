"""A session: what one client is subscribed to, what it has been sent, and the connection it is bound to, if any.

Data notifications are numbered by being sent, and kept for recovery. What waits to be sent, and for how long, is in
`outbox`.
Specification: TLCP chapter 1, "Session Life Cycle".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from penstock.kernel.bandwidth import Budget
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.limits import clamp
from penstock.kernel.messages import Messages
from penstock.kernel.outbox import Outbox
from penstock.kernel.ports import Admission
from penstock.kernel.recovery import RecoveryLog
from penstock.kernel.subscription import Subscription, SubscriptionRequest

if TYPE_CHECKING:
    from penstock.kernel.kernel import Kernel
    from penstock.kernel.ports import Channel, Codec, MessageHandler

# Room that is kept on a connection of limited length for its last line, LOOP or END.
TAIL_RESERVE = 96

# A custom END message (code 0 or negative) of more characters is not sent on a connection of limited length.
MAX_TAIL_MESSAGE = 35

# A keep-alive may be sent earlier by this share of its interval, together with those of other sessions.
KEEPALIVE_LEAD = 0.01


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


class Session(Outbox):
    """Opened by `Kernel.open_session`, bound by `bind`, gone after `close`."""

    __slots__ = (
        "_binding",
        "_bound_at",
        "_ends_at",
        "_fresh",
        "_inactivity",
        "_keepalive",
        "_last_request",
        "_last_sync",
        "_last_write",
        "_log",
        "_messages",
        "_poll_delay_millis",
        "_poll_until",
        "_recoverable",
        "_unbound_until",
        "adapter_set",
        "address",
        "admission",
        "announced_address",
        "codec",
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
        super().__init__(kernel)
        self.id = session_id
        self.codec = codec
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

        # Whether it outlives the loss of its connection.
        self._recoverable = recoverable
        kept = self.limits.max_recovery_length if recoverable else 0
        self._log = RecoveryLog(kept, self.limits.max_recovery_age_millis / 1000)

        self._binding = UNBOUND
        self._fresh = False
        duration = self.limits.max_session_duration_minutes * 60
        self._ends_at = kernel.clock() + duration if duration else inf
        self._unbound_until = kernel.clock() + self.limits.session_timeout_millis / 1000
        self._bound_at = 0.0
        self._last_write = 0.0
        self._last_sync = 0.0
        self._last_request = 0.0
        self._keepalive = 0.0
        self._inactivity = inf
        self._poll_delay_millis = 0
        self._poll_until = inf

    # -- the stream connection ------------------------------------------------------------------------------------

    def keepalive_millis(self, binding: Binding) -> int:
        """The longest silence of a connection bound like this: what CONOK announces."""
        limits = self.limits
        if binding.polling:
            return min(binding.idle_millis, limits.max_idle_millis)
        return clamp(
            binding.keepalive_millis,
            limits.default_keepalive_millis,
            limits.min_keepalive_millis,
            limits.max_keepalive_millis,
        )

    def bind(self, channel: Channel, binding: Binding, head: list[bytes], recovery_from: int | None = None) -> None:
        """Take over `channel`: write `head`, the constraints and the recovery point, then whatever is due.

        Raises a Refusal, and changes nothing, when `recovery_from` cannot be honoured.
        """
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
        self._binding = binding
        self._fresh = True
        self._congested = False
        self._rest_until = 0.0
        self._bound_at = self._last_write = self._last_sync = self._last_request = now
        self._keepalive = self.keepalive_millis(binding) / 1000
        self.lead = self._keepalive * KEEPALIVE_LEAD
        self._inactivity = inf
        if binding.inactivity_millis and not binding.polling:
            self._inactivity = (
                clamp(
                    binding.inactivity_millis,
                    0,
                    self.limits.min_inactivity_millis,
                    self.limits.max_inactivity_millis,
                )
                / 1000
            )
        channel.write(head)
        if self.tells_constraints:
            channel.write([self._constraints()])
        if recovery_from is not None:
            channel.write([self.codec.recovering(recovery_from)])
        self._poll_until = inf
        if binding.polling:
            self._poll_delay_millis = min(binding.polling_millis, self.limits.max_polling_millis)
            self._poll_until = now + self._keepalive
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
            log.append(self.kernel.clock(), known, sum(map(len, known)))
        again = log.rewind(progressive)
        assert again is not None
        self._lines = again + self._lines

    def drop(self) -> None:
        """The connection is gone without a word: keep the session for a while, the client may recover it."""
        self.channel = None
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
        now = self.kernel.clock()
        polling = self._poll_delay_millis if self._binding.polling else 0
        patience = polling if delay_millis is None else min(delay_millis, self.limits.max_polling_millis)
        if self.channel is not None:
            self._leave_channel(self.codec.loop(polling), close_socket)
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
        room = channel.room()
        if room is not None:
            lines = self._fitting(lines, room - TAIL_RESERVE)
        if lines:
            self._write(channel, lines)
        if self._lines or (self._binding.polling and self.channel is channel):
            self.rebind()

    def _fitting(self, lines: list[bytes], room: int) -> list[bytes]:
        """The lines that fit, removed from those to be sent.

        A line longer than a whole connection goes alone on a fresh one.
        """
        count = 0
        for line in lines:
            room -= len(line)
            if room < 0 and not (count == 0 and self._fresh):
                break
            count += 1
        self._lines = lines[count:]
        return lines[:count]

    def _write(self, channel: Channel, lines: list[bytes]) -> None:
        now = self.kernel.clock()
        if lines is self._lines:
            self._lines = []
        size = channel.write(lines)
        self._log.append(now, lines, size)
        self._fresh = False
        self._last_write = now
        self._room = self.limits.max_pending_bytes
        rest = self.kernel.rest
        if rest:
            self._rest_until = now + rest
            self.ready = False

    def _say(self, line: bytes) -> None:
        """A notification about the connection itself: not numbered, not recovered."""
        if self._lines:
            self.flush()
        channel = self.channel
        if channel is None:
            return
        room = channel.room()
        if room is not None and room - TAIL_RESERVE < len(line):
            self.rebind()
            return
        channel.write([line])
        self._last_write = self.kernel.clock()

    # -- requests -------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> Messages:
        """The upstream messages; made when the first comes, for most clients send none."""
        if self._messages is None:
            self._messages = Messages(self)
        return self._messages

    def touch(self) -> None:
        """A request for this session has come: the client is alive."""
        self._last_request = self.kernel.clock()

    def end_after(self, seconds: float) -> None:
        """Have the session end by then, if it has not ended before."""
        self._ends_at = min(self._ends_at, self.kernel.clock() + seconds)
        self._set_alarm()

    def subscribe(self, request: SubscriptionRequest) -> None:
        if request.number in self.subscriptions:
            raise Refusal(Reason.INVALID, f"Subscription number {request.number} is in use")
        if len(self.subscriptions) >= self.limits.max_subscriptions_per_session:
            raise Refusal(
                Reason.INVALID,
                f"The session has reached {self.limits.max_subscriptions_per_session} subscriptions, the most allowed",
            )
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
        self._limit_bandwidth(requested_bandwidth)
        self.confirm_constraints()
        self.ready = False
        self._mark_dirty()

    def confirm_constraints(self) -> None:
        """Tell the client the bandwidth limit that holds."""
        if self.tells_constraints:
            self._say(self._constraints())

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
        self._pending.clear()
        self._notices = 0
        self._stalled = None
        for subscription in self.subscriptions.values():
            self._stop(subscription)
        self.subscriptions.clear()
        self.kernel.forget(self, code, message, told=channel is not None)

    # -- time -----------------------------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """Do whatever is due, then set the next deadline.

        Conditions are written with the very sums that `_set_alarm` uses: `now - last >= interval` may still be false
        in the last bit when `last + interval` has come, and the alarm would ring for ever.
        """
        if self.closed:
            return
        if now >= self._ends_at:
            self.close(Cause.MAX_DURATION, "The maximum session duration has been reached")
            return
        channel = self.channel
        if channel is None:
            if now >= self._unbound_until:
                self.close(None, "")
                return
        elif now >= self._last_request + self._inactivity:
            channel.abort()
            self.drop()
        elif self._binding.polling:
            if now >= self._poll_until:
                self.rebind()
        else:
            self._expire_streaming(now)
        if now >= self._drain_at:
            self._drain_at = inf
            self._mark_dirty()
        self._set_alarm()

    def _expire_streaming(self, now: float) -> None:
        limit = self.limits.max_streaming_millis
        if limit and now >= self._bound_at + limit / 1000:
            self.rebind()
            return
        # It leads as well, or a keep-alive sent early would come just before it every time.
        sync = self.limits.sync_millis / 1000
        if self._binding.send_sync and now >= self._last_sync + sync - sync * KEEPALIVE_LEAD:
            self._last_sync = now
            self._say(self.codec.synchronized(round(now - self._bound_at)))
        if now >= self._last_write + self._keepalive:
            self._say(self.codec.probe())

    def _set_alarm(self) -> None:
        deadline = self._ends_at
        if self.channel is None:
            deadline = min(deadline, self._unbound_until)
        elif self._binding.polling:
            deadline = min(deadline, self._poll_until)
        else:
            deadline = min(deadline, self._last_write + self._keepalive, self._last_request + self._inactivity)
            if self._binding.send_sync:
                deadline = min(deadline, self._last_sync + self.limits.sync_millis / 1000)
            if self.limits.max_streaming_millis:
                deadline = min(deadline, self._bound_at + self.limits.max_streaming_millis / 1000)
        deadline = min(deadline, self._drain_at)
        self.kernel.set_timer(self, deadline)
