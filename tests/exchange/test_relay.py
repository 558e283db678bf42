"""Who gets what, in which form and order, and where every payload is counted."""

from __future__ import annotations

import pytest

from penstock.exchange.settings import HubLimits, HubSettings
from penstock.wire.tlex.datagrams import IdentifiedPayload, Payload
from penstock.wire.tlex.monitor import MonitorPayload, decode_monitor_payload
from penstock.wire.tlex.payloads import IDENTIFIED_BODY_AT, IDENTIFIER_AT
from tests.exchange.world import (
    BROKER,
    MONITOR,
    NOON,
    SINGLEPLEX,
    TLC,
    A,
    B,
    C,
    Peer,
    Tape,
    World,
    named,
    plain,
)

WIDE = HubLimits(payloads_per_second=100_000, kilobytes_per_second=100_000)


@pytest.fixture
def tape() -> Tape:
    return Tape()


@pytest.fixture
def world(tape: Tape) -> World:
    world = World(HubSettings(tlc=WIDE, broker=WIDE, monitor=WIDE, queue_frames=100), tape)
    world.register(A, B, C)
    world.register(A, domain="other")
    return world


# -- forms ------------------------------------------------------------------------------------------------------------

ORIGIN = 0xFEDC_BA98_7654_3210


@pytest.mark.parametrize("multiplex", [False, True], ids=["singleplex", "multiplex"])
def test_a_broker_receives_the_payload_of_a_controller_with_its_identifier(world: World, multiplex: bool) -> None:
    broker = world.join(BROKER, A)
    if multiplex:
        world.join(TLC, A).send(named(A, "x", 7, ORIGIN))
    else:
        world.join(TLC, A, protocol=SINGLEPLEX).send(plain("x", 7, ORIGIN))
    assert broker.take() == [IdentifiedPayload(A, 7, ORIGIN, b"x")]


def test_a_controller_receives_the_payload_of_a_broker_in_its_own_form(world: World) -> None:
    single, multi = world.join(TLC, A, protocol=SINGLEPLEX), world.join(TLC, B, C)
    broker = world.join(BROKER, A, B)
    broker.send(named(A, "x", 7, ORIGIN), named(B, "y", 8, ORIGIN))
    assert single.take() == [Payload(7, ORIGIN, b"x")]
    assert multi.take() == [IdentifiedPayload(B, 8, ORIGIN, b"y")]


@pytest.mark.parametrize("who", ["singleplex", "multiplex", "broker"])
def test_a_monitor_receives_everything_behind_a_header_of_who_and_when(world: World, who: str) -> None:
    monitor = world.join(MONITOR, A)
    if who == "singleplex":
        publisher = world.join(TLC, A, protocol=SINGLEPLEX)
        publisher.send(plain("x", 7, ORIGIN))
    else:
        publisher = world.join(TLC if who == "multiplex" else BROKER, A)
        publisher.send(named(A, "x", 7, ORIGIN))
    (payload,) = monitor.take()
    assert isinstance(payload, IdentifiedPayload)
    assert (payload.identifier, payload.type, payload.origin) == (A, 0xF0, ORIGIN)
    assert decode_monitor_payload(payload.data) == MonitorPayload(publisher.session.token, NOON, NOON, 7, b"x")


def test_empty_payloads_are_payloads(world: World) -> None:
    broker, controller = world.join(BROKER, A), world.join(TLC, A, protocol=SINGLEPLEX)
    controller.send(plain(""))
    assert broker.take() == [named(A, "")]


# -- who receives -----------------------------------------------------------------------------------------------------


def test_payloads_of_controllers_go_to_all_brokers_and_monitors_of_it_and_to_nobody_else(world: World) -> None:
    sender = world.join(TLC, A, B)
    wanted = [
        world.join(BROKER, A, account="1"),
        world.join(BROKER, A, C, account="2"),
        world.join(MONITOR, A, account="1"),
        world.join(MONITOR, A, account="2"),
    ]
    unwanted = [
        world.join(BROKER, B, account="3"),
        world.join(MONITOR, B, account="3"),
        world.join(TLC, C),
        world.join(BROKER, A, domain="other"),
        world.join(MONITOR, A, domain="other"),
        world.join(TLC, A, domain="other"),
    ]
    pending = world.open(BROKER, A, account="4")
    sender.send(named(A, "x"))
    assert [len(peer.take()) for peer in wanted] == [1, 1, 1, 1]
    assert [peer.take() for peer in (*unwanted, sender)] == [[]] * 7
    assert pending.counters.routed == 0


def test_payloads_of_brokers_go_to_the_controller_and_its_monitors_and_not_to_brokers(world: World) -> None:
    sender = world.join(BROKER, A, B, account="1")
    wanted = [world.join(TLC, A), world.join(MONITOR, A)]
    unwanted = [
        world.join(BROKER, A, account="2"),
        world.join(TLC, B),
        world.join(TLC, A, domain="other"),
        world.join(MONITOR, A, domain="other"),
    ]
    sender.send(named(A, "x"))
    assert [len(peer.take()) for peer in wanted] == [1, 1]
    assert [peer.take() for peer in (*unwanted, sender)] == [[]] * 5


def test_who_joins_later_misses_what_was_before(world: World) -> None:
    controller = world.join(TLC, A)
    controller.send(named(A, "before"))
    broker = world.join(BROKER, A)
    controller.send(named(A, "after"))
    assert broker.texts() == ["after"]
    assert controller.session.counters.unrouted == 1


@pytest.mark.parametrize("identifier", [B, "nlzh000a", "\0" * 8, "NLZH000\n"])
def test_an_identifier_that_is_not_in_scope_is_dropped_and_the_session_goes_on(world: World, identifier: str) -> None:
    broker = world.join(BROKER, A, B)
    controller = world.join(TLC, A)
    controller.send(named(A, "1"), named(identifier, "2"), named(A, "3"))
    assert broker.texts() == ["1", "3"]
    assert controller.session.counters.out_of_scope == 1


def test_an_identifier_that_is_no_ascii_is_not_in_scope(world: World) -> None:
    controller = world.join(TLC, A)
    controller.send_bytes(named(A, "x").encode().replace(A.encode(), b"NLZH\xff\xff\xff\xff"))
    assert not controller.closed
    assert controller.session.counters.out_of_scope == 1


@pytest.mark.parametrize("type", range(0xF0, 0x100))
def test_reserved_types_are_dropped_and_counted(world: World, type: int) -> None:
    broker, monitor = world.join(BROKER, A), world.join(MONITOR, A)
    single = world.join(TLC, A, protocol=SINGLEPLEX)
    single.send(plain("1", 0xEF), plain("2", type), plain("3"))
    broker.send(named(A, "4", type))
    assert broker.texts() == ["1", "3"]
    assert len(monitor.payloads()) == 2
    assert single.session.counters.reserved == broker.session.counters.reserved == 1
    assert not single.closed


# -- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "broker_gets", "monitor_gets"), [(65_453, 1, 1), (65_454, 1, 0), (65_517, 1, 0), (65_518, 0, 0)]
)
def test_a_payload_too_long_for_somebodys_form_is_dropped_for_that_receiver_and_counted(
    world: World, size: int, broker_gets: int, monitor_gets: int
) -> None:
    broker, monitor = world.join(BROKER, A), world.join(MONITOR, A)
    controller = world.join(TLC, A, protocol=SINGLEPLEX)
    controller.send(plain("x" * size), plain("next"))
    assert len(broker.payloads()) == broker_gets + 1
    assert len(monitor.payloads()) == monitor_gets + 1
    assert broker.session.counters.oversized == 1 - broker_gets
    assert monitor.session.counters.oversized == 1 - monitor_gets


def test_the_longest_payload_with_identifier_passes_to_brokers_and_controllers(world: World) -> None:
    broker, controller = world.join(BROKER, A), world.join(TLC, A, protocol=SINGLEPLEX)
    broker.send(named(A, "x" * 65_517))
    assert [len(text) for text in controller.texts()] == [65_517]


# -- order and slowness -----------------------------------------------------------------------------------------------


def test_the_order_of_a_publisher_is_kept_across_its_controllers(world: World) -> None:
    broker, controller = world.join(BROKER, A, B, C), world.join(TLC, A, B, C)
    sent = [named((A, B, C)[number * number % 3], str(number)) for number in range(60)]
    controller.send(*sent)
    assert broker.take() == sent


def test_a_turn_is_one_write_for_each_receiver_whatever_came_from_whom(world: World) -> None:
    broker = world.join(BROKER, A, B)
    for peer, identifier in ((world.join(TLC, A), A), (world.join(TLC, B), B)):
        for text in "123":
            peer.interpreter.received(named(identifier, text).encode(), world.now)
    world.turn()
    assert len(broker.writes) == 1
    assert broker.texts() == ["1", "2", "3", "1", "2", "3"]


def check(peer: Peer) -> None:
    """Every payload that was for it is somewhere."""
    count = peer.session.counters
    waiting = peer.conversation.receiver.waiting if peer.conversation.receiver else 0
    assert count.routed == count.sent + count.dropped + count.oversized + count.discarded + waiting


def test_a_receiver_that_does_not_read_loses_the_oldest_and_nobody_else_waits(world: World) -> None:
    slow, quick = world.join(BROKER, A, account="slow"), world.join(BROKER, A, account="quick")
    monitor, controller = world.join(MONITOR, A), world.join(TLC, A)
    slow.stuck = True
    received = []
    for number in range(500):
        controller.send(named(A, str(number)))
        received += quick.texts()
        check(slow)
    assert received == [str(number) for number in range(500)]
    assert len(monitor.payloads()) == 500
    counters = slow.session.counters
    assert (counters.routed, counters.sent, counters.dropped) == (500, 1, 399)
    assert quick.session.counters.dropped == controller.session.counters.dropped == 0
    slow.free()
    assert slow.texts() == ["0"] + [str(number) for number in range(400, 500)]
    check(slow)


def test_a_slow_controller_does_not_keep_its_broker_waiting(world: World) -> None:
    slow, quick, broker = world.join(TLC, A), world.join(TLC, B), world.join(BROKER, A, B)
    slow.stuck = True
    for number in range(300):
        broker.send(named(A, str(number)), named(B, str(number)))
    assert quick.texts() == [str(number) for number in range(300)]
    assert slow.session.counters.dropped == 199


def test_what_waits_when_a_session_ends_is_counted(world: World) -> None:
    slow, controller = world.join(BROKER, A), world.join(TLC, A)
    slow.conversation.set_writable(False)
    controller.send(named(A, "1"), named(A, "2"))
    slow.conversation.lost(True, world.now)
    assert slow.session.counters.discarded == 2
    check(slow)


@pytest.mark.parametrize("broken", [True, False])
def test_what_waits_for_the_end_of_the_turn_when_the_peer_goes_does_not_count_as_sent(
    world: World, broken: bool
) -> None:
    broker, controller = world.join(BROKER, A), world.join(TLC, A)
    controller.interpreter.received(named(A, "x").encode(), world.now)
    broker.conversation.lost(broken, world.now)
    world.turn()
    assert broker.take() == []
    assert (broker.session.counters.sent, broker.session.counters.discarded) == (0, 1)


# -- what others see --------------------------------------------------------------------------------------------------


def test_the_traffic_of_a_controller_is_counted_in_both_directions(world: World) -> None:
    broker, single = world.join(BROKER, A), world.join(TLC, A, protocol=SINGLEPLEX)
    controller = world.hub.registry.find("test", A)
    assert controller is not None
    assert controller.owner is single.session
    world.wait(1)
    for _ in range(4):
        world.wait(0.25)
        single.send(plain("x" * 100))
    broker.send(named(A, "abc"))
    world.hub.tick(world.now)
    assert (controller.up.payloads, controller.up.bytes, controller.up.last_seen) == (4, 400, world.now.utc)
    assert (controller.down.payloads, controller.down.bytes) == (1, 3)
    world.wait(1)
    # Measured once a second: the last time shortly after all four had come.
    assert (controller.up.rate, controller.up.throughput) == (4.0, 400.0)
    assert (controller.down.rate, controller.down.throughput) == (1.0, 3.0)
    world.wait(1)
    assert controller.up.rate == 0.0
    single.conversation.lost(False, world.now)
    assert controller.owner is None


def test_every_accepted_payload_is_recorded_once_a_turn_as_it_came_whether_or_not_anybody_receives_it(
    world: World, tape: Tape
) -> None:
    single, multi = world.join(TLC, A, protocol=SINGLEPLEX), world.join(TLC, B, C)
    tape.turns.clear()
    frames = [named(B, "1").encode(), named(B, "2").encode(), named(C, "3").encode()]
    multi.interpreter.received(frames[0] + named(A, "foreign").encode() + frames[1], world.now)
    multi.interpreter.received(named(B, "reserved", 0xF3).encode() + frames[2], world.now)
    single.interpreter.received(plain("4").encode(), world.now)
    world.turn()
    (batches,) = tape.turns
    assert [(each.publisher, each.identifier, each.frames, each.received) for each in batches] == [
        (multi.session, B, frames[:2], NOON),
        (multi.session, C, frames[2:], NOON),
        (single.session, A, [plain("4").encode()], NOON),
    ]
    assert batches[0].frames[0][IDENTIFIER_AT:IDENTIFIED_BODY_AT] == B.encode()
    world.turn()
    assert len(tape.turns) == 1


def test_payloads_that_are_only_recorded_ask_for_a_turn(world: World) -> None:
    controller = world.join(TLC, A)
    before = world.woken
    for _ in range(2):
        controller.interpreter.received(named(A, "x").encode(), world.now)
        assert world.woken == before + 1
    world.turn()
    controller.interpreter.received(named(A, "x").encode(), world.now)
    assert world.woken == before + 2
