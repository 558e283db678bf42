"""Plain counters that others read: of a session, and of the traffic of a controller in one direction.

They only grow, except for rates, so that a reader needs only differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf


class Counters:
    """Of a session. As a receiver: routed = sent + waiting + dropped + oversized + discarded."""

    __slots__ = (
        "discarded",
        "dropped",
        "forbidden",
        "out_of_scope",
        "oversized",
        "received",
        "received_bytes",
        "reserved",
        "routed",
        "sent",
        "unknown",
        "unrouted",
        "withheld",
    )

    def __init__(self) -> None:
        # Payloads it has published, and their bytes: all within its limits, including those that were then dropped:
        self.received = 0
        self.received_bytes = 0
        # for an identifier that is not in its scope,
        self.out_of_scope = 0
        # of a type that is reserved for the protocol,
        self.reserved = 0
        # of a type that its authorization may not send,
        self.forbidden = 0
        # without a connected receiver.
        self.unrouted = 0
        # Datagrams of a kind that does not exist.
        self.unknown = 0
        # Payloads of types that its authorization may not receive, which are not routed to it.
        self.withheld = 0
        # Payloads for it: all,
        self.routed = 0
        # written,
        self.sent = 0
        # dropped because it is slow,
        self.dropped = 0
        # too long for a frame in its form,
        self.oversized = 0
        # and still waiting when the session ended.
        self.discarded = 0

    @classmethod
    def sum(cls, all: Sequence[Counters]) -> Counters:
        found = cls()
        for name in cls.__slots__:
            setattr(found, name, sum([getattr(each, name) for each in all]))
        return found


class Traffic:
    """Payloads of a controller in one direction."""

    __slots__ = ("_bytes_then", "_payloads_then", "_then", "bytes", "last_seen", "payloads", "rate", "throughput")

    def __init__(self) -> None:
        self.payloads = 0
        self.bytes = 0
        # When the last one came, in milliseconds since 1970; 0: never.
        self.last_seen = 0
        # Payloads and bytes a second, between the last two measurements.
        self.rate = 0.0
        self.throughput = 0.0
        self._then = -inf
        self._payloads_then = 0
        self._bytes_then = 0

    def measure(self, now: float) -> None:
        if now > self._then:
            seconds = now - self._then
            self.rate = (self.payloads - self._payloads_then) / seconds
            self.throughput = (self.bytes - self._bytes_then) / seconds
        self._then = now
        self._payloads_then = self.payloads
        self._bytes_then = self.bytes
