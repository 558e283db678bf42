"""Which types of payloads the sessions of an authorization may send and receive; a sieve keeps the others back.

What a session may not send is dropped in `relay`. Both are counted, and the session goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.exchange.counters import Counters
from penstock.exchange.instant import Instant
from penstock.exchange.ports import PayloadReceiver


@dataclass(frozen=True, slots=True)
class PayloadPolicy:
    """None: all types."""

    send: frozenset[int] | None = None
    receive: frozenset[int] | None = None

    def includes(self, other: PayloadPolicy) -> bool:
        """Whether the other one allows nothing more."""
        return _includes(self.send, other.send) and _includes(self.receive, other.receive)


EVERYTHING = PayloadPolicy()


def _includes(types: frozenset[int] | None, others: frozenset[int] | None) -> bool:
    return types is None or (others is not None and others <= types)


class Sieve:
    """Before a receiver that may have some types only."""

    __slots__ = ("_allowed", "_counters", "_receiver", "_type_of", "is_singleplex")

    def __init__(
        self,
        receiver: PayloadReceiver,
        allowed: frozenset[int],
        type_of: Callable[[bytes], int],
        counters: Counters,
    ) -> None:
        self.is_singleplex = receiver.is_singleplex
        self._receiver = receiver
        self._allowed = allowed
        self._type_of = type_of
        self._counters = counters

    def put(self, frames: list[bytes], size: int, now: Instant) -> None:
        kept = [frame for frame in frames if self._type_of(frame) in self._allowed]
        if len(kept) == len(frames):
            self._receiver.put(frames, size, now)
            return
        self._counters.withheld += len(frames) - len(kept)
        if kept:
            self._receiver.put(kept, sum(map(len, kept)), now)

    def refuse(self, count: int) -> None:
        self._receiver.refuse(count)
