"""A real kernel with a clock and turns that the test moves, and one data adapter worked by hand.

What a door would do (heads, granted requests) is done here in the smallest way. Sockets and adapters are elsewhere.
"""

from __future__ import annotations

from penstock.kernel.identity import SessionIds
from penstock.kernel.item import Mode
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.kernel.messages import Message
from penstock.kernel.ports import Admission, Codec, Grant, ItemGrant, Selector, Value
from penstock.kernel.session import Binding, Session
from penstock.kernel.subscription import Subscription, SubscriptionRequest
from penstock.testing.channel import MemoryChannel
from penstock.testing.clock import Clock
from penstock.testing.hands import HandHandler, HandSource, ManualWaker
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.lines import conok
from penstock.wire.tlcp.version import NEWEST

STREAMING = Binding()

# A kernel that asks for more turns than this at one point in time will never rest.
MAX_TURNS = 1_000

REQUEST_LIMIT = 50_000


class Harness:
    """Publish, bind, subscribe; then `turn` or `advance` and look at the channels."""

    def __init__(
        self,
        limits: SessionLimits | None = None,
        snapshots: bool = True,
        source: HandSource | None = None,
        overhead: int = 0,
    ) -> None:
        self.clock = Clock()
        self.waker = ManualWaker()
        self.handler = HandHandler()
        self.source = source or HandSource(snapshots)
        self.codec: Codec = TlcpCodec(NEWEST)
        # What the transport adds to each write of its channels, in bytes.
        self.overhead = overhead
        self._ids = 0
        self.kernel = Kernel(self.clock, self.waker, SessionIds("test", self._entropy), limits or SessionLimits())
        self.feed = self.kernel.add_feed("TEST", "HAND", self.source)
        self.source.feed = self.feed

    def _entropy(self, size: int) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(size, "little")

    # -- time -----------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Run turns until the kernel asks for no more."""
        for _ in range(MAX_TURNS):
            if not self.waker.asked:
                return
            self.waker.asked = False
            self.kernel.turn()
            deadline = self.kernel.next_deadline()
            if deadline is not None and deadline <= self.clock.now:
                self.waker.asked = True
        raise AssertionError(f"The kernel has asked for {MAX_TURNS} turns without any time passing")

    def advance(self, seconds: float) -> None:
        """Let time pass, with a turn at every deadline on the way."""
        until = self.clock.now + seconds
        self.turn()
        while (deadline := self.kernel.next_deadline()) is not None and deadline <= until:
            self.clock.move_to(max(deadline, self.clock.now))
            self.waker.asked = True
            self.turn()
        self.clock.move_to(until)

    # -- what doors and adapters do -------------------------------------------------------------------------------

    def open(
        self, binding: Binding = STREAMING, limit: int | None = None, max_bandwidth: float | None = None
    ) -> tuple[Session, MemoryChannel]:
        """A new session, bound."""
        session = self.kernel.open_session(self.codec, self.handler)
        session.adapter_set = "TEST"
        session.admit(Admission(), max_bandwidth)
        return session, self.bind(session, binding, limit)

    def bind(
        self,
        session: Session,
        binding: Binding = STREAMING,
        limit: int | None = None,
        recovery_from: int | None = None,
    ) -> MemoryChannel:
        """Bind the session to a channel of its own; `limit` is the content length. Raises what the kernel raises."""
        channel = MemoryChannel(limit, self.clock)
        channel.overhead = self.overhead
        channel.session = session
        head = conok(session.id, REQUEST_LIMIT, session.keepalive_millis(binding), "")
        session.bind(channel, binding, [head], recovery_from)
        self.turn()
        return channel

    def subscribe(
        self,
        session: Session,
        number: int,
        items: str,
        fields: str,
        mode: Mode = Mode.MERGE,
        snapshot: bool = False,
        snapshot_length: int | None = None,
        max_frequency: float | None = None,
        unfiltered: bool = False,
        buffer_size: int | None = None,
        selector: Selector | None = None,
        granted: tuple[ItemGrant, ...] | None = None,
    ) -> Subscription:
        """Subscribe, with items and fields as texts with spaces between the names.

        Everything is allowed, unless `granted` says what holds for the items.
        """
        grants = tuple(map(ItemGrant, items.split())) if granted is None else granted
        session.subscribe(
            SubscriptionRequest(
                number=number,
                feed=self.feed,
                grant=Grant(grants, tuple(fields.split()), selector),
                mode=mode,
                snapshot=snapshot and mode is not Mode.RAW,
                snapshot_length=snapshot_length,
                max_frequency=max_frequency,
                unfiltered=unfiltered or mode is Mode.RAW,
                buffer_size=buffer_size,
            )
        )
        self.turn()
        return session.subscription(number)

    def publish(self, item: str, **event: Value) -> None:
        """An event of the source, and the turn it belongs to."""
        self.source.publish(item, event)
        self.turn()

    def submit(
        self,
        session: Session,
        text: str,
        sequence: str | None = None,
        progressive: int | None = None,
        max_wait_millis: int | None = None,
        outcome: bool = True,
    ) -> None:
        """A message from the client. Raises what the kernel raises."""
        session.messages.submit(Message(text, sequence, progressive, outcome), max_wait_millis)
        self.turn()
