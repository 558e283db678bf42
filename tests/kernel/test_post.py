"""What streams write in a turn is carried at its end, before anything that is written after it."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.kernel.connection import Binding
from penstock.kernel.kernel import OneByOne
from penstock.kernel.ports import Channel
from penstock.kernel.recovery import Batch
from penstock.testing import Harness, MemoryChannel


class Counting:
    """How many batches and channels came with each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        # Which of the channels of each batch were WebSockets.
        self.kinds: list[list[bool]] = []
        self._carrier = OneByOne()

    def carry(self, batches: Sequence[Batch], channels: Sequence[Sequence[Channel]]) -> None:
        self.calls.append((len(batches), sum(map(len, channels))))
        self.kinds += [[channel.websocket for channel in readers] for readers in channels]
        self._carrier.carry(batches, channels)


def counting(harness: Harness) -> Counting:
    carrier = Counting()
    harness.kernel.post.carrier = carrier
    return carrier


def test_all_that_is_written_in_a_turn_is_carried_at_once(harness: Harness) -> None:
    channels = []
    for items in ("a b", "b a", "a b"):
        session, channel = harness.open()
        harness.subscribe(session, 1, items, "x")
        channels.append(channel)
    harness.turn()
    carrier = counting(harness)
    harness.feed.update("a", {"x": "1"})
    harness.feed.update("b", {"x": "2"})
    harness.turn()
    assert carrier.calls == [(3, 3)]
    assert [channel.take()[-2:] for channel in channels] == [
        ["U,1,1,1", "U,1,2,2"],
        ["U,1,2,1", "U,1,1,2"],
        ["U,1,1,1", "U,1,2,2"],
    ]
    harness.advance(2)
    harness.feed.update("a", {"x": "3"})
    harness.turn()
    # Two of them share a stream by now.
    assert carrier.calls[-1] == (2, 3)


def test_connections_that_end_with_what_they_carry_write_by_themselves(harness: Harness) -> None:
    polling, channel = harness.open(Binding(polling=True, polling_millis=1_000, idle_millis=5_000))
    harness.subscribe(polling, 1, "a", "x")
    limited, other = harness.open(limit=210)
    harness.subscribe(limited, 1, "a", "x")
    harness.turn()
    channel = harness.bind(polling, Binding(polling=True, polling_millis=1_000, idle_millis=5_000))
    carrier = counting(harness)
    harness.feed.update("a", {"x": "long" * 10})
    harness.turn()
    assert carrier.calls == []
    assert channel.take()[-2:] == ["U,1,1," + "long" * 10, "LOOP,1000"]
    assert other.take()[-1] == "LOOP,0"


def test_what_waits_for_a_connection_of_limited_length_counts_against_it(harness: Harness) -> None:
    """Whether its stream is its own or shared: what has been written in the same turn is not there yet."""
    limited, channel = harness.open(limit=400)
    harness.subscribe(limited, 1, "a", "x")
    twin, other = harness.open(limit=400)
    harness.subscribe(twin, 1, "a", "x")
    harness.turn()
    carrier = counting(harness)
    for number in range(2):
        harness.feed.update("a", {"x": f"{number}" * 20})
        harness.turn()
    assert carrier.calls == [(2, 2), (2, 2)]
    harness.advance(2)
    carrier.calls.clear()
    harness.feed.update("a", {"x": "shared"})
    harness.turn()
    assert carrier.calls == [(1, 2)]
    post = harness.kernel.post
    post.holds = True
    for number in range(9):
        harness.feed.update("a", {"x": f"{number}" * 20})
        limited._stream.flush()
    post.holds = False
    harness.turn()
    for one in (channel, other):
        assert one.finished
        assert one.size <= 400
        assert one.take()[-1] == "LOOP,0"


def test_a_batch_goes_to_websockets_and_to_answers_apart(harness: Harness) -> None:
    """They are framed differently, also keep-alives, which are the same for all."""
    channels = []
    for number in range(6):
        session, channel = harness.open(limit=10_000)
        channel.websocket = number % 2 == 0
        session.rebind()
        channel = MemoryChannel(10_000, harness.clock)
        channel.websocket = number % 2 == 0
        channel.session = session
        session.bind(channel, Binding(), [])
        harness.subscribe(session, 1, "a", "x")
        channels.append(channel)
    harness.advance(2)
    harness.feed.update("a", {"x": "before"})
    harness.turn()
    carrier = counting(harness)
    harness.feed.update("a", {"x": "1"})
    harness.turn()
    assert carrier.kinds == [[True] * 3, [False] * 3]
    assert [channel.take()[-1] for channel in channels] == ["U,1,1,1"] * 6
    carrier.kinds.clear()
    harness.advance(5)
    assert [len(set(kinds)) for kinds in carrier.kinds] == [1] * len(carrier.kinds)
    assert [channel.take()[-1] for channel in channels] == ["PROBE"] * 6


def test_what_ends_a_session_comes_after_what_it_was_sent(harness: Harness) -> None:
    session, channel = harness.open()
    harness.subscribe(session, 1, "a", "x")
    harness.turn()
    post = harness.kernel.post
    post.holds = True
    harness.feed.update("a", {"x": "1"})
    session._stream.flush()
    assert channel.take()[-1] != "U,1,1,1"
    post.holds = False
    session.close(31, "")
    assert channel.take()[-2:] == ["U,1,1,1", "END,31,"]


def test_very_much_does_not_wait_for_the_end_of_the_turn(harness: Harness) -> None:
    for _ in range(6):
        session, _channel = harness.open()
        harness.subscribe(session, 1, "a", "x")
    harness.turn()
    carrier = counting(harness)
    harness.feed.update("a", {"x": "y" * 400_000})
    harness.turn()
    # What an event is in bytes, three times, is more than may wait.
    assert carrier.calls == [(3, 3), (3, 3)]


def test_keepalives_of_many_sessions_are_carried_at_once(harness: Harness) -> None:
    channels = [harness.open()[1] for _ in range(5)]
    carrier = counting(harness)
    harness.advance(5)
    assert carrier.calls == [(1, 5)]
    assert [channel.take()[-1] for channel in channels] == ["PROBE"] * 5


def test_what_others_are_sent_later_does_not_put_a_keepalive_off(harness: Harness) -> None:
    silent = Binding(keepalive_millis=2_000, send_sync=False)
    _, quiet = harness.open(silent)
    session, _busy = harness.open(silent)
    harness.subscribe(session, 1, "a", "x")
    harness.turn()
    quiet.take()
    for second in range(1, 10):
        harness.advance(1)
        harness.feed.update("a", {"x": str(second)})
        harness.turn()
    assert quiet.take() == ["PROBE"] * 4
