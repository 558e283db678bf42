from __future__ import annotations

import pytest

from penstock.doors.tlex.messages import TlexMessages
from penstock.exchange.counters import Counters
from penstock.exchange.instant import Instant
from penstock.exchange.receiver import Receiver, Turn
from penstock.kernel.ledger import Ledger
from penstock.wire.tlex.datagrams import KEEP_ALIVE_FRAME, IdentifiedPayload, TimestampsResponse, decode
from penstock.wire.tlex.forms import PayloadForms, for_monitor
from penstock.wire.tlex.frames import PREAMBLE, TlexFrameReader
from penstock.wire.tlex.monitor import decode_monitor_payload

NOON = 1_700_000_000_000
NOW = Instant(10.0, NOON)
LATER = Instant(11.0, NOON + 1_000)


class Pipe:
    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False
        # Set to a receiver that is to be told that the pipe is full, with the next write.
        self.full: Receiver | None = None

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        if self.full is not None:
            self.full.set_writable(False)

    def close(self) -> None:
        self.closed = True


class Bench:
    """A receiver and what is around it."""

    def __init__(self, max_frames: int = 10, max_bytes: int = 1 << 20, is_monitor: bool = False) -> None:
        self.pipe = Pipe()
        self.woken = 0
        self.turn = Turn(self._wake)
        self.counters = Counters()
        self.ledger = Ledger()
        self.receiver = Receiver(
            self.pipe,
            PayloadForms(),
            TlexMessages(),
            self.turn,
            self.counters,
            max_frames,
            max_bytes,
            is_monitor=is_monitor,
            ledger=self.ledger,
        )

    def _wake(self) -> None:
        self.woken += 1

    def put(self, *frames: bytes, now: Instant = NOW) -> None:
        self.receiver.put(list(frames), sum(map(len, frames)), now)

    def check(self) -> None:
        """Every payload is somewhere."""
        count = self.counters
        somewhere = count.sent + count.dropped + count.oversized + count.discarded + self.receiver.waiting
        assert count.routed == somewhere


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_gathers_in_a_turn_is_one_write_in_order(bench: Bench) -> None:
    bench.put(b"1", b"2")
    bench.put(b"3")
    assert bench.pipe.writes == []
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"123"]
    bench.check()


def test_the_turn_is_asked_for_once(bench: Bench) -> None:
    bench.put(b"1")
    bench.put(b"2")
    assert bench.woken == 1
    bench.turn.run(NOW)
    bench.put(b"3")
    assert bench.woken == 2


def test_a_receiver_is_for_a_broker_unless_something_else_is_said(bench: Bench) -> None:
    receiver = Receiver(Pipe(), PayloadForms(), TlexMessages(), bench.turn, Counters(), 1, 1)
    assert (receiver.is_singleplex, receiver.is_monitor) == (False, False)


def test_the_turn_is_asked_for_once_by_all_receivers_together(bench: Bench) -> None:
    other = Receiver(Pipe(), PayloadForms(), TlexMessages(), bench.turn, Counters(), 1, 1)
    bench.put(b"1")
    other.send(KEEP_ALIVE_FRAME)
    assert bench.woken == 1


def test_a_turn_in_which_nothing_came_writes_nothing(bench: Bench) -> None:
    bench.put(b"1")
    bench.turn.run(NOW)
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"1"]


def test_what_a_slow_peer_does_not_take_waits_and_is_sent_when_it_reads_again(bench: Bench) -> None:
    bench.receiver.set_writable(False)
    bench.put(b"1")
    bench.turn.run(NOW)
    bench.put(b"2")
    bench.turn.run(NOW)
    assert bench.pipe.writes == []
    assert bench.receiver.waiting == 2
    bench.receiver.set_writable(True)
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"12"]
    bench.check()


def test_beyond_its_frames_the_oldest_are_dropped_and_counted() -> None:
    bench = Bench(max_frames=3)
    bench.receiver.set_writable(False)
    for text in (b"1", b"2", b"3", b"4", b"5"):
        bench.put(text)
        bench.check()
    assert bench.counters.dropped == 2
    bench.receiver.set_writable(True)
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"345"]


def test_beyond_its_bytes_the_oldest_are_dropped_and_counted() -> None:
    bench = Bench(max_bytes=100)
    bench.receiver.set_writable(False)
    bench.put(b"a" * 60)
    bench.put(b"b" * 30, b"c" * 30)
    assert bench.counters.dropped == 1
    assert bench.receiver.waiting_bytes == 60
    bench.check()
    bench.receiver.set_writable(True)
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"b" * 30 + b"c" * 30]
    assert bench.receiver.waiting_bytes == 0


def test_what_is_too_long_for_its_form_is_routed_to_it_and_counted(bench: Bench) -> None:
    bench.receiver.refuse(2)
    bench.put(b"1")
    bench.receiver.refuse(1)
    assert (bench.counters.routed, bench.counters.oversized) == (4, 3)
    bench.check()


def test_a_burst_is_not_dropped_as_long_as_the_peer_takes_it_but_written_before_the_turn_ends() -> None:
    bench = Bench(max_frames=3)
    for text in (b"1", b"2", b"3", b"4", b"5"):
        bench.put(text)
    assert bench.pipe.writes == [b"1234"]
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"1234", b"5"]
    assert bench.counters.dropped == 0
    bench.check()


def test_a_turn_of_as_much_as_may_wait_is_still_one_write() -> None:
    for bench in (Bench(max_bytes=3), Bench(max_frames=3)):
        bench.put(b"1")
        bench.put(b"2")
        bench.put(b"3")
        assert bench.pipe.writes == []
        bench.turn.run(NOW)
        assert bench.pipe.writes == [b"123"]


def test_as_much_as_may_wait_is_kept_for_a_slow_peer_to_the_last_byte() -> None:
    for bench in (Bench(max_bytes=3), Bench(max_frames=3)):
        bench.receiver.set_writable(False)
        bench.put(b"0", b"1", b"2", b"3")
        assert bench.counters.dropped == 1
        bench.receiver.set_writable(True)
        bench.turn.run(NOW)
        assert bench.pipe.writes == [b"123"]


def test_a_peer_that_is_full_in_the_middle_of_a_burst_has_the_rest_bounded() -> None:
    bench = Bench(max_frames=3)
    bench.pipe.full = bench.receiver
    for number in range(20):
        bench.put(b"%02d" % number)
        bench.check()
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"00010203"]
    assert bench.receiver.waiting == 3
    assert bench.counters.dropped == 13


def test_what_belongs_to_the_connection_passes_ahead_of_payloads(bench: Bench) -> None:
    bench.put(b"payload")
    bench.receiver.send(KEEP_ALIVE_FRAME)
    bench.turn.run(NOW)
    assert bench.pipe.writes == [KEEP_ALIVE_FRAME + b"payload"]


def answers(bench: Bench) -> list[TimestampsResponse]:
    reader = TlexFrameReader()
    reader.feed(PREAMBLE)
    found = [decode(frame) for frame in reader.feed(b"".join(bench.pipe.writes))]
    return [each for each in found if isinstance(each, TimestampsResponse)]


def test_an_answer_has_the_times_at_which_the_request_came_and_at_which_it_is_written(bench: Bench) -> None:
    bench.receiver.answer(7, NOW)
    bench.turn.run(LATER)
    assert answers(bench) == [TimestampsResponse(7, NOW.utc, LATER.utc)]


def test_every_request_of_a_flood_is_answered_as_long_as_the_peer_reads(bench: Bench) -> None:
    for number in range(1_000):
        bench.receiver.answer(number, NOW)
    bench.turn.run(NOW)
    assert [each.request_sent for each in answers(bench)] == list(range(1_000))


def test_a_flood_of_requests_by_a_peer_that_does_not_read_is_bounded(bench: Bench) -> None:
    bench.receiver.set_writable(False)
    for number in range(1_000):
        bench.receiver.answer(number, NOW)
    bench.receiver.set_writable(True)
    bench.turn.run(NOW)
    # The last 64.
    assert [each.request_sent for each in answers(bench)] == list(range(936, 1_000))


def test_as_many_requests_as_may_be_unanswered_are_answered_in_one_write(bench: Bench) -> None:
    for number in range(64):
        bench.receiver.answer(number, NOW)
    assert bench.pipe.writes == []
    bench.turn.run(NOW)
    assert len(bench.pipe.writes) == 1
    assert [each.request_sent for each in answers(bench)] == list(range(64))


def monitored(bench: Bench) -> list[int]:
    """The times at which payloads claim to have been sent."""
    reader = TlexFrameReader()
    reader.feed(PREAMBLE)
    found = [decode(frame) for frame in reader.feed(b"".join(bench.pipe.writes))]
    bench.pipe.writes.clear()
    return [decode_monitor_payload(each.data).sent for each in found if isinstance(each, IdentifiedPayload)]


def test_a_monitor_is_told_when_a_payload_that_has_waited_was_really_sent() -> None:
    bench = Bench(is_monitor=True)
    frame = for_monitor(IdentifiedPayload("NLZH0001", 2, 5, b"x").encode(), b"NLZH0001", b"token", NOON, NOON)
    assert frame is not None
    bench.put(frame)
    bench.turn.run(NOW)
    bench.receiver.set_writable(False)
    bench.put(frame, frame)
    bench.receiver.set_writable(True)
    bench.turn.run(LATER)
    assert monitored(bench) == [NOW.utc, LATER.utc, LATER.utc]
    bench.put(frame, now=LATER)
    bench.turn.run(LATER)
    assert monitored(bench) == [NOON]


def test_a_payload_that_has_waited_for_its_turn_only_keeps_the_time_that_it_has() -> None:
    bench = Bench(is_monitor=True)
    frame = for_monitor(IdentifiedPayload("NLZH0001", 2, 5, b"x").encode(), b"NLZH0001", b"token", NOON, NOON)
    assert frame is not None
    bench.put(frame)
    bench.turn.run(LATER)
    assert monitored(bench) == [NOON]


def test_at_the_end_what_can_be_written_is_and_then_the_last_datagram(bench: Bench) -> None:
    bench.put(b"1")
    bench.receiver.end(b"bye", NOW)
    assert bench.pipe.writes == [b"1", b"bye"]
    assert bench.pipe.closed
    bench.check()


def test_at_the_end_what_a_slow_peer_has_not_taken_is_discarded_and_counted(bench: Bench) -> None:
    bench.receiver.set_writable(False)
    bench.put(b"1", b"2")
    bench.receiver.end(b"bye", NOW)
    assert bench.pipe.writes == [b"bye"]
    assert bench.counters.discarded == 2
    bench.check()


def test_a_turn_after_the_end_writes_nothing(bench: Bench) -> None:
    bench.put(b"1")
    bench.receiver.end(b"", NOW)
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"1"]


def test_what_a_slow_peer_has_not_taken_at_the_end_is_not_written_when_it_reads_again(bench: Bench) -> None:
    bench.receiver.set_writable(False)
    bench.put(b"1")
    bench.receiver.send(KEEP_ALIVE_FRAME)
    bench.receiver.answer(7, NOW)
    bench.receiver.end(b"bye", NOW)
    bench.receiver.set_writable(True)
    bench.turn.run(LATER)
    assert bench.pipe.writes == [b"bye"]
    assert bench.receiver.waiting_bytes == 0


def test_what_waits_for_longer_than_a_turn_is_in_the_ledger_until_it_is_written(bench: Bench) -> None:
    bench.put(b"123")
    assert bench.ledger.total == 0
    bench.receiver.set_writable(False)
    bench.put(b"45")
    assert bench.ledger.total == 5
    bench.put(b"6")
    assert bench.ledger.total == 6
    bench.receiver.set_writable(True)
    bench.turn.run(NOW)
    assert bench.ledger.total == 0


def test_what_waits_is_in_the_ledger_until_the_end(bench: Bench) -> None:
    bench.receiver.set_writable(False)
    bench.put(b"123")
    bench.receiver.end(b"", NOW)
    assert bench.ledger.total == 0


def test_what_is_cut_because_too_much_waits_for_all_together_is_dropped_and_counted(bench: Bench) -> None:
    bench.receiver.set_writable(False)
    bench.put(b"1", b"23")
    bench.ledger.limit = 2
    bench.ledger.relieve([], [])
    assert (bench.counters.dropped, bench.receiver.waiting, bench.receiver.waiting_bytes) == (2, 0, 0)
    assert bench.ledger.total == 0
    bench.check()
    bench.put(b"4")
    bench.receiver.set_writable(True)
    bench.turn.run(NOW)
    assert bench.pipe.writes == [b"4"]
