"""Many clients of a real hub, over REST and sockets, each with its twin in the naive model (`model`).

A member's `check` says whether it got what its twin must get. What is done to them at random, and what else must hold,
is in `test_two_hundred_sessions`.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.exchange.session import HubSession
from penstock.wire.tlex.datagrams import (
    MONITOR_TYPE,
    Bye,
    Datagram,
    IdentifiedPayload,
    Payload,
    TimestampsRequest,
    TimestampsResponse,
)
from penstock.wire.tlex.monitor import MonitorPayload, decode_monitor_payload
from tests.doors.tlex.site import PATIENCE, Peer
from tests.exchange.model import AnyPayload, ModelPeer


@dataclass(eq=False)
class Member:
    """A client and its twin. A `stalled` one does not read; a `silent` one never says anything."""

    twin: ModelPeer
    peer: Peer
    # The hub's own, for its counters.
    session: HubSession
    security: str
    # For its timestamps; the hub begins with it.
    request: TimestampsRequest
    stalled: bool = False
    # Payloads that were for it: all that were checked, and those of them that it did not get.
    routed: int = 0
    dropped: int = 0
    # What a silent one has received.
    heard: list[Datagram] = field(default_factory=list)

    @property
    def can_act(self) -> bool:
        return self.twin.connected and not self.stalled and not self.twin.silent

    # -- what it must have received -------------------------------------------------------------------------------

    def check(self, publisher_of: Callable[[AnyPayload], str]) -> None:
        """All that its twin expects is there: each once, and those of each publisher in order."""
        expected = self._expected()
        assert sorted_by(publisher_of, self.take(len(expected))) == sorted_by(publisher_of, expected)

    def check_nothing_more(self) -> None:
        """Nothing came that was not for it: all that had been sent before is there when the hub answers."""
        assert not self.twin.expected
        self.peer.send(TimestampsRequest(0))
        while not isinstance(found := self.peer.next(), TimestampsResponse):
            assert found is not None
            assert not isinstance(found, Payload | IdentifiedPayload)

    def check_resumed(self, waiting: int) -> None:
        """It reads again, with so many in the hub's queue: only older ones were dropped, and every one is counted."""
        expected = self._expected()
        count = self.session.counters
        dropped = count.dropped - self.dropped
        got = self.take(len(expected) - dropped)
        assert is_subsequence(got, expected)
        assert got[len(got) - waiting :] == expected[len(expected) - waiting :]
        self.dropped = count.dropped
        self.stalled = False

    def check_counters(self) -> None:
        """When its session has ended: every payload of it and for it is somewhere."""
        count = self.session.counters
        assert count.received == self.twin.received
        assert count.routed == self.routed + len(self.twin.expected)
        assert count.routed == count.sent + count.dropped + count.discarded
        assert count.oversized == 0
        if not self.stalled and not self.twin.silent:
            assert (count.dropped, count.discarded) == (self.dropped, 0)

    def _expected(self) -> list[AnyPayload]:
        expected, self.twin.expected = self.twin.expected, []
        self.routed += len(expected)
        return expected

    # -- receiving ------------------------------------------------------------------------------------------------

    def take(self, count: int) -> list[AnyPayload]:
        return [timeless(self.peer.payload()) for _ in range(count)]

    def end(self) -> str | None:
        """The reason of Bye, when nothing but that is to come before the end of the connection."""
        rest = self.peer.rest()
        assert not [each for each in rest if isinstance(each, Payload | IdentifiedPayload)]
        assert not any(isinstance(each, Bye) for each in rest[:-1])
        return rest[-1].reason if rest and isinstance(rest[-1], Bye) else None

    def listen(self) -> bool:
        """Take what is there, without waiting; whether the connection is still there."""
        while select.select([self.peer.socket], [], [], 0)[0]:
            found = self.peer.next()
            if found is None:
                return False
            self.heard.append(found)
        return True


def timeless(payload: AnyPayload) -> AnyPayload:
    """With the hub's times in a monitor's payload checked, and then as the model has them, which knows no time."""
    if payload.type != MONITOR_TYPE:
        return payload
    assert isinstance(payload, IdentifiedPayload)
    found = decode_monitor_payload(payload.data)
    now = time.time_ns() // 1_000_000
    assert now - PATIENCE * 10_000 < found.published <= found.sent <= now
    plain = MonitorPayload(found.token, 0, 0, found.type, found.data).encode()
    return IdentifiedPayload(payload.identifier, payload.type, payload.origin, plain)


def sorted_by(publisher_of: Callable[[AnyPayload], str], payloads: Iterable[AnyPayload]) -> dict[str, list[AnyPayload]]:
    """The payloads of each publisher, in order."""
    found: dict[str, list[AnyPayload]] = {}
    for payload in payloads:
        found.setdefault(publisher_of(payload), []).append(payload)
    return found


def is_subsequence(some: list[AnyPayload], all_: list[AnyPayload]) -> bool:
    rest = iter(all_)
    return all(each in rest for each in some)
