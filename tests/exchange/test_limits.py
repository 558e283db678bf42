from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.exchange.settings import KILOBYTE, HubLimits, HubSettings
from penstock.wire.tlex.datagrams import MAX_TIMESTAMP, KeepAlive, TimestampsRequest
from penstock.wire.tlex.vocabulary import EndReason
from tests.exchange.world import BROKER, MONITOR, SINGLEPLEX, TLC, A, B, Peer, World, answer, named, plain

SMALL = HubLimits(payloads_per_second=12, kilobytes_per_second=1)


@pytest.fixture
def world() -> World:
    world = World(HubSettings(tlc=SMALL))
    world.register(A, B)
    return world


# -- payload rate -----------------------------------------------------------------------------------------------------


def test_sixty_payloads_in_five_seconds_are_within_twelve_a_second_and_one_more_is_not(world: World) -> None:
    broker, peer = world.join(BROKER, A), world.join(TLC, A, protocol=SINGLEPLEX)
    for number in range(60):
        peer.send(plain(str(number)))
    assert not peer.closed
    peer.send(plain("60"))
    assert peer.bye() == "payload rate limit exceeded: at most 12 a second over 5 s"
    assert peer.session.end_reason is EndReason.PROTOCOL_ERROR
    assert broker.texts() == [str(number) for number in range(60)]


@pytest.mark.parametrize("multiplex", [False, True])
def test_of_a_burst_those_within_the_limit_are_delivered(world: World, multiplex: bool) -> None:
    broker = world.join(BROKER, A)
    if multiplex:
        peer = world.join(TLC, A)
        peer.send(*[named(A, str(number)) for number in range(200)])
    else:
        peer = world.join(TLC, A, protocol=SINGLEPLEX)
        peer.send(*[plain(str(number)) for number in range(200)])
    assert peer.closed
    assert broker.texts() == [str(number) for number in range(60)]
    assert peer.session.counters.received == 60


def test_nothing_is_read_after_the_payload_that_exceeds_the_limit(world: World) -> None:
    broker, peer = world.join(BROKER, A), world.join(TLC, A)
    peer.send(*[named(A, "x")] * 61, TimestampsRequest(5), named(A, "y"))
    assert [type(each).__name__ for each in peer.take()] == ["Bye"]
    assert broker.texts() == ["x"] * 60


def test_rate_and_throughput_can_be_looked_at_as_they_are_limited(world: World) -> None:
    peer = world.join(TLC, A)
    peer.send(*[named(A, "x" * 50)] * 20)
    assert peer.conversation.rate(world.now) == 4.0
    assert peer.conversation.throughput(world.now) == 200.0
    world.wait(5, peer)
    assert peer.conversation.rate(world.now) == peer.conversation.throughput(world.now) == 0.0
    assert peer.conversation.last_seen == world.now.utc


def test_a_rate_at_the_limit_can_go_on_for_ever(world: World) -> None:
    peer = world.join(TLC, A)
    for _ in range(100):
        peer.send(*[named(A, "x")] * 3)
        world.wait(0.25)
    assert not peer.closed


def test_payloads_that_are_dropped_count_as_well(world: World) -> None:
    peer = world.join(TLC, A)
    peer.send(*[named(B, "x")] * 30, *[named(A, "x", type=0xF1)] * 30)
    assert not peer.closed
    peer.send(named(A, "x"))
    assert peer.bye() is not None


def test_only_payloads_count(world: World) -> None:
    peer = world.join(TLC, A)
    peer.send(*[KeepAlive()] * 100, *[TimestampsRequest(1)] * 100)
    assert not peer.closed


def test_a_window_that_has_passed_is_forgotten(world: World) -> None:
    peer = world.join(TLC, A)
    peer.send(*[named(A, "x")] * 60)
    world.wait(5, peer)
    peer.send(*[named(A, "x")] * 60)
    assert not peer.closed


# -- throughput -------------------------------------------------------------------------------------------------------


def test_throughput_counts_the_bytes_of_payloads_and_nothing_else(world: World) -> None:
    broker, peer = world.join(BROKER, A), world.join(TLC, A)
    peer.send(*[named(A, "x" * 512)] * 10)
    assert not peer.closed
    peer.send(named(A, ""), named(A, "y"))
    assert peer.bye() == "payload throughput limit exceeded: at most 1 KB a second over 5 s"
    assert [len(text) for text in broker.texts()] == [512] * 10 + [0]
    assert peer.session.counters.received_bytes == 5 * KILOBYTE
    assert peer.session.end_reason is EndReason.PROTOCOL_ERROR


def test_of_a_burst_that_exceeds_both_limits_the_first_one_exceeded_is_told(world: World) -> None:
    first, second = world.join(TLC, A), world.join(TLC, B)
    first.send(*[named(A, "x" * 100)] * 70)
    assert first.session.counters.received == 51
    reason = first.bye()
    assert reason is not None
    assert reason.startswith("payload throughput")
    second.send(*[named(B, "x" * 80)] * 70)
    assert second.session.counters.received == 60
    reason = second.bye()
    assert reason is not None
    assert reason.startswith("payload rate")


def test_a_payload_that_alone_exceeds_the_limit_is_not_delivered(world: World) -> None:
    broker, peer = world.join(BROKER, A), world.join(TLC, A)
    peer.send(named(A, "x" * (5 * KILOBYTE + 1)))
    assert peer.closed
    assert broker.texts() == []


# -- clock difference -------------------------------------------------------------------------------------------------


def exchange(world: World, peer: Peer, ahead: int) -> None:
    (request,) = [each for each in peer.take() if isinstance(each, TimestampsRequest)]
    peer.send(answer(request, ahead=ahead))


@pytest.mark.parametrize("ahead", [3_001, -3_001, MAX_TIMESTAMP // 2])
def test_one_difference_beyond_the_limit_ends_the_session_if_it_is_the_only_one(world: World, ahead: int) -> None:
    peer = world.connect(world.open(TLC, A))
    exchange(world, peer, ahead)
    reason = peer.bye()
    assert reason is not None
    assert reason.startswith("time sync failure: ")
    assert reason.endswith(" ms on average, at most 3000 ms is allowed")
    assert peer.session.end_reason is EndReason.PROTOCOL_ERROR


@pytest.mark.parametrize("ahead", [3_000, -3_000, 0])
def test_a_difference_at_the_limit_is_allowed(world: World, ahead: int) -> None:
    peer = world.connect(world.open(TLC, A))
    exchange(world, peer, ahead)
    assert not peer.closed


def test_it_is_the_average_that_counts(world: World) -> None:
    peer = world.connect(world.open(TLC, A))
    for ahead in (0, 5_000, 0, 6_000):
        exchange(world, peer, ahead)
        assert not peer.closed
        world.wait(15, peer)
    exchange(world, peer, 6_000)
    # The first has left the window: 5000, 0, 6000 and 6000.
    assert peer.bye() == "time sync failure: 4250 ms on average, at most 3000 ms is allowed"


def test_a_right_clock_on_a_slow_line_is_not_wrong(world: World) -> None:
    peer = world.connect(world.open(TLC, A))
    (request,) = peer.take()
    world.wait(8, peer)
    peer.send(answer(request, later=8_000))
    assert not peer.closed
    assert peer.conversation.clock.latency == 8_000


# -- by type ----------------------------------------------------------------------------------------------------------


def test_every_type_has_its_own_limits() -> None:
    settings = HubSettings(
        tlc=HubLimits(keep_alive_seconds=1),
        broker=HubLimits(keep_alive_seconds=2),
        monitor=HubLimits(keep_alive_seconds=3),
    )
    world = World(settings)
    world.register(A)
    peers = [world.join(TLC, A), world.join(BROKER, A), world.join(MONITOR, A)]
    closed = []
    for _ in range(4):
        world.wait(1.25)
        closed.append([peer.closed for peer in peers])
    assert closed == [[True, False, False], [True, True, False], [True, True, True], [True, True, True]]


def test_where_nothing_else_is_said_limits_are_these() -> None:
    settings = HubSettings()
    wide = HubLimits(
        keep_alive_seconds=5.0,
        clock_difference_millis=3_000,
        clock_difference_window_seconds=60.0,
        payloads_per_second=1_200,
        payloads_window_seconds=5.0,
        kilobytes_per_second=120,
        kilobytes_window_seconds=5.0,
        max_identifiers=10_000,
    )
    assert settings.broker == settings.monitor == wide
    assert settings.tlc == replace(wide, payloads_per_second=12, kilobytes_per_second=60, max_identifiers=100)
    vlog = replace(wide, keep_alive_seconds=360.0, payloads_per_second=100, kilobytes_per_second=60)
    assert settings.vlog == vlog
    assert settings.vlog_payload_type == ord("V")
    assert (settings.queue_frames, settings.queue_bytes) == (10_000, 1_048_576)


@pytest.mark.parametrize("name", ["keep_alive_seconds", "payloads_per_second", "kilobytes_window_seconds"])
def test_limits_are_greater_than_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it must be greater than 0"):
        HubLimits(**{name: 0})


def test_a_queue_must_have_room_for_a_frame() -> None:
    with pytest.raises(ValueError, match="queue_bytes is 65538; a frame needs up to 65539"):
        World(HubSettings(queue_bytes=65_538))
    with pytest.raises(ValueError, match="queue_frames is 0"):
        HubSettings(queue_frames=0)
    World(HubSettings(queue_bytes=65_539, queue_frames=1))
