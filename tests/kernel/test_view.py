"""Shared encoding: what is the same for many clients is encoded once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.kernel.item import Mode
from penstock.kernel.ports import State
from penstock.kernel.session import Binding
from penstock.testing import Harness, MemoryChannel
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import NEWEST

QUIET = Binding(send_sync=False, keepalive_millis=30_000)


class CountingCodec(TlcpCodec):
    """A real codec that counts what it is asked to encode."""

    def __init__(self) -> None:
        super().__init__(NEWEST)
        self.bodies = 0

    def update_body(
        self, values: State, previous: State | None, differences: Sequence[str], patched: int
    ) -> tuple[bytes, int]:
        self.bodies += 1
        return super().update_body(values, previous, differences, patched)


class Crowd:
    """Many sessions subscribed to item a."""

    def __init__(self, size: int, mode: Mode = Mode.MERGE, fields: str = "x y") -> None:
        self.harness = Harness()
        self.codec = self.harness.codec = CountingCodec()
        self.channels: list[MemoryChannel] = []
        for _ in range(size):
            session, channel = self.harness.open(QUIET)
            self.harness.subscribe(session, 1, "a", fields, mode)
            self.channels.append(channel)
        self.publish(x="0", y="0")
        self.take()

    def publish(self, **event: str) -> None:
        self.codec.bodies = 0
        self.harness.publish("a", **event)

    def take(self) -> list[list[str]]:
        return [channel.take() for channel in self.channels]


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.RAW, Mode.DISTINCT])
def test_an_update_for_many_clients_in_the_same_state_is_encoded_once(mode: Mode) -> None:
    crowd = Crowd(50, mode)
    crowd.publish(x="1", y="0")
    assert crowd.codec.bodies == 1
    assert crowd.take() == [["U,1,1,1|"]] * 50


def test_clients_that_lag_behind_cost_one_encoding_more_and_none_when_they_have_caught_up() -> None:
    crowd = Crowd(50)
    for channel in crowd.channels[:10]:
        channel.congest()
    crowd.publish(x="1", y="1")
    for channel in crowd.channels[:10]:
        channel.relieve()
    crowd.harness.turn()
    crowd.codec.bodies = 0
    crowd.publish(y="2")
    assert crowd.codec.bodies == 1
    assert crowd.take() == [["U,1,1,1|1", "U,1,1,|2"]] * 50


def test_clients_that_catch_up_together_share_the_encoding() -> None:
    crowd = Crowd(20)
    for channel in crowd.channels:
        channel.congest()
    crowd.publish(x="1")
    crowd.publish(x="2")
    crowd.codec.bodies = 0
    for channel in crowd.channels:
        channel.relieve()
    crowd.harness.turn()
    assert crowd.codec.bodies == 1
    assert crowd.take() == [["U,1,1,2|"]] * 20


def test_snapshots_for_many_late_subscribers_are_encoded_once() -> None:
    crowd = Crowd(1)
    assert crowd.codec.bodies == 1
    for _ in range(30):
        session, channel = crowd.harness.open(QUIET)
        crowd.harness.subscribe(session, 1, "a", "x y", snapshot=True)
        assert channel.take()[-1] == "U,1,1,0|0"
    assert crowd.codec.bodies == 1


def test_different_numbers_and_positions_share_the_values() -> None:
    harness = Harness()
    codec = harness.codec = CountingCodec()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 7, "a", "x y")
    harness.subscribe(session, 8, "b a", "x y")
    harness.publish("a", x="1", y="2")
    assert codec.bodies == 1
    assert channel.take()[-2:] == ["U,7,1,1|2", "U,8,2,1|2"]


def test_other_fields_are_another_view() -> None:
    harness = Harness()
    codec = harness.codec = CountingCodec()
    session, channel = harness.open(QUIET)
    harness.subscribe(session, 1, "a", "x")
    harness.subscribe(session, 2, "a", "y x")
    harness.publish("a", x="1", y="2")
    assert codec.bodies == 2
    assert channel.take()[-2:] == ["U,1,1,1", "U,2,1,2|1"]


def test_a_view_without_clients_goes_and_the_others_stay_in_place() -> None:
    harness = Harness()
    session, channel = harness.open(QUIET)
    for number in range(1, 6):
        harness.subscribe(session, number, "a", "x")
    harness.subscribe(session, 6, "a", "y")
    for number in (1, 5, 3, 6):
        session.unsubscribe(number)
    channel.take()
    harness.publish("a", x="1", y="1")
    assert sorted(line for line in channel.take() if line[0:2] == "U,") == ["U,2,1,1", "U,4,1,1"]
    assert len(harness.feed.items["a"]._views) == 1
