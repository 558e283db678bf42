"""How a conversation is kept alive, how clocks are compared, and how it ends."""

from __future__ import annotations

import pytest

from penstock.exchange.refusals import HubRefusal
from penstock.wire.tlex.datagrams import (
    Bye,
    IdentifiedPayload,
    KeepAlive,
    Reconnect,
    TimestampsRequest,
    TimestampsResponse,
    Token,
)
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.vocabulary import EndReason
from tests.exchange.world import BROKER, NOON, SINGLEPLEX, TLC, A, B, Peer, World, answer, named, plain


@pytest.fixture
def world() -> World:
    world = World()
    world.register(A, B)
    return world


@pytest.mark.parametrize(("broken", "end"), [(False, EndReason.CLIENT_DISCONNECT), (True, EndReason.CONNECTION_ERROR)])
def test_a_connection_that_is_lost_ends_its_session(world: World, broken: bool, end: EndReason) -> None:
    peer = world.join(TLC, A)
    peer.conversation.lost(broken, world.now)
    assert peer.session.end_reason is end
    assert not world.hub.sessions


def test_a_peer_without_a_session_that_does_what_is_wrong_is_closed_without_a_word(world: World) -> None:
    garbles, violates = world.accept(), world.accept()
    garbles.conversation.garble(world.now)
    violates.conversation.violate("why", world.now)
    for peer in (garbles, violates):
        assert (peer.writes, peer.closed) == ([PREAMBLE], True)
    assert world.hub.turned_away == 2


# -- keep-alive -------------------------------------------------------------------------------------------------------


def test_a_silent_peer_is_told_and_closed_after_its_timeout_and_a_little_more(world: World) -> None:
    peer = world.join(TLC, A)
    world.wait(5.25)
    assert not peer.closed
    world.wait(0.25)
    assert peer.bye() == "keep alive timeout: nothing received for 5.5 s"
    assert peer.session.end_reason is EndReason.CONNECTION_ERROR


def test_any_byte_keeps_a_connection_alive(world: World) -> None:
    peer = world.join(TLC, A)
    data = named(A, "x" * 20).encode()
    for at in range(20):
        world.wait(5)
        peer.send_bytes(data[at : at + 1])
    assert not peer.closed


def test_the_server_itself_sends_something_twice_in_a_timeout(world: World) -> None:
    peer = world.join(TLC, A)
    silences = []
    silence = 0.0
    for _ in range(240):
        world.wait(0.25, peer)
        silence += 0.25
        if peer.take():
            silences.append(silence)
            silence = 0.0
    assert max(silences) == 2.5


def test_no_keep_alive_is_sent_where_payloads_flow(world: World) -> None:
    broker, controller = world.join(BROKER, A), world.join(TLC, A)
    kinds = set()
    for _ in range(14):
        world.wait(1, broker, controller)
        controller.send(named(A, "x"))
        kinds |= {type(each) for each in broker.take()}
    assert kinds == {IdentifiedPayload}


def test_nothing_gathers_for_a_peer_that_does_not_read(world: World) -> None:
    peer = world.join(TLC, A)
    peer.conversation.set_writable(False)
    world.wait(120, peer)
    assert peer.take() == []
    peer.free()
    world.wait(2.5, peer)
    assert peer.take() == [KeepAlive()]


def test_a_peer_that_does_not_read_before_it_shows_its_token_gets_all_when_it_does(world: World) -> None:
    controller, session = world.join(TLC, A), world.open(BROKER, A)
    peer = world.accept()
    peer.conversation.set_writable(False)
    peer.send_bytes(PREAMBLE + Token(session.token).encode())
    assert peer.session is session
    controller.send(named(A, "x"))
    assert peer.writes == [PREAMBLE]
    peer.free()
    assert peer.take() == [named(A, "x")]


# -- timestamps -------------------------------------------------------------------------------------------------------


def test_timestamps_are_asked_for_every_fifteen_seconds(world: World) -> None:
    peer = world.connect(world.open(TLC, A))
    world.wait(60, peer)
    asked = [each.sent - NOON for each in peer.take() if isinstance(each, TimestampsRequest)]
    assert asked == [0, 15_000, 30_000, 45_000, 60_000]


def test_latency_and_clock_difference_are_measured(world: World) -> None:
    peer = world.connect(world.open(TLC, A))
    (request,) = peer.take()
    world.move(0.05)
    peer.send(answer(request, ahead=1_000, took=10, later=20))
    assert peer.conversation.clock.latency == 40
    assert peer.conversation.clock.difference == 1_000
    controller, other = world.hub.registry.find("test", A), world.hub.registry.find("test", B)
    assert controller is not None
    assert controller.clock is peer.conversation.clock
    assert other is not None
    assert other.clock is None


def test_a_client_may_ask_for_timestamps_too_and_is_answered_before_all_payloads(world: World) -> None:
    broker, controller = world.join(BROKER, A), world.join(TLC, A)
    controller.interpreter.received(named(A, "x").encode(), world.now)
    broker.interpreter.received(TimestampsRequest(77).encode(), world.now)
    world.turn()
    assert broker.take() == [TimestampsResponse(77, NOON, NOON), named(A, "x")]


# -- Reconnect --------------------------------------------------------------------------------------------------------


def test_who_is_asked_to_reconnect_may_have_a_new_session_at_once_and_both_work_until_it_has(world: World) -> None:
    broker, old = world.join(BROKER, A), world.join(TLC, A, protocol=SINGLEPLEX)
    world.hub.reconnect(old.session, world.now)
    world.turn()
    assert old.take() == [Reconnect()]
    session = world.open(TLC, A, protocol=SINGLEPLEX)
    old.send(plain("old"))
    broker.send(named(A, "to the old"))
    new = world.connect(session)
    old.send(plain("too late"))
    new.send(plain("new"))
    broker.send(named(A, "to the new"))
    assert broker.texts() == ["old", "new"]
    assert old.texts() == ["to the old"]
    assert new.texts() == ["to the new"]
    assert old.session.counters.out_of_scope == 1


def test_a_broker_that_reconnects_gets_nothing_twice(world: World) -> None:
    controller, old = world.join(TLC, A), world.join(BROKER, A, B)
    world.hub.reconnect(old.session, world.now)
    new = world.join(BROKER, A)
    controller.send(named(A, "x"))
    assert (old.texts(), new.texts()) == ([], ["x"])
    assert list(old.session.scope) == [B.encode()]
    assert old.session.identifiers == (A, B)


def test_the_end_of_the_old_session_does_not_harm_the_new_one(world: World) -> None:
    broker, old = world.join(BROKER, A), world.join(TLC, A)
    world.hub.reconnect(old.session, world.now)
    new = world.join(TLC, A)
    old.send(Bye())
    broker.send(named(A, "x"))
    assert new.texts() == ["x"]
    new.send(named(A, "y"))
    assert broker.texts() == ["y"]


def test_who_does_not_leave_when_asked_to_is_sent_away(world: World) -> None:
    peer = world.join(TLC, A)
    world.hub.reconnect(peer.session, world.now)
    world.wait(9.75, peer)
    assert not peer.closed
    world.wait(0.25, peer)
    assert peer.bye() == "system maintenance"


def test_a_session_that_is_to_go_cannot_be_changed(world: World) -> None:
    peer = world.join(BROKER, A)
    world.hub.reconnect(peer.session, world.now)
    with pytest.raises(HubRefusal, match="told to reconnect"):
        world.put(peer.session, B)


def test_a_server_that_goes_down_asks_all_to_reconnect_and_sends_away_who_does_not(world: World) -> None:
    good, bad = world.join(TLC, A), world.join(BROKER, A)
    pending = world.open(TLC, B)
    stranger = world.accept()
    world.hub.go_down(world.now)
    world.turn()
    assert good.take() == bad.take() == [Reconnect()]
    assert pending.end_reason is EndReason.ADMIN_TERMINATION
    with pytest.raises(HubRefusal, match="shutting down"):
        world.open(TLC, A)
    good.send(Bye())
    early = world.hub.is_empty
    world.wait(10, bad)
    assert bad.bye() == "normal shutdown"
    assert bad.session.end_reason is EndReason.ADMIN_TERMINATION
    assert (early, world.hub.is_empty) == (False, True)
    assert stranger.closed


def test_a_server_that_must_go_at_once_says_bye_to_all(world: World) -> None:
    peers: list[Peer] = [world.join(TLC, A), world.join(BROKER, A)]
    stranger = world.accept()
    world.hub.shut(world.now)
    assert [peer.bye() for peer in peers] == ["normal shutdown", "normal shutdown"]
    assert stranger.writes == [PREAMBLE]
    assert stranger.closed
    assert world.hub.is_empty
