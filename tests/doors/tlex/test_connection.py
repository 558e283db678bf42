"""The handshake, and what each datagram means in each mode."""

from __future__ import annotations

import pytest

from penstock.doors.tlex.errors import Refusal
from penstock.doors.tlex.session import State
from penstock.wire.tlex.datagrams import (
    Bye,
    Datagram,
    IdentifiedPayload,
    KeepAlive,
    Payload,
    Reconnect,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    Unknown,
)
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.reasons import EndReason
from penstock.wire.tlex.vocabulary import SecurityMode
from tests.doors.tlex.world import BROKER, MONITOR, NOON, SINGLEPLEX, TLC, A, B, Peer, World, answer, named, plain


@pytest.fixture
def world() -> World:
    world = World()
    world.register(A, B)
    return world


# -- the handshake ----------------------------------------------------------------------------------------------------


def test_the_server_sends_its_version_at_once(world: World) -> None:
    assert world.accept().writes == [PREAMBLE]


def test_a_right_token_is_answered_with_a_request_for_timestamps(world: World) -> None:
    peer = world.connect(world.open(TLC, A))
    assert peer.take() == [TimestampsRequest(NOON)]


@pytest.mark.parametrize("pieces", ["whole", "byte by byte"])
def test_version_token_and_payloads_may_come_in_any_pieces(world: World, pieces: str) -> None:
    broker = world.join(BROKER, A)
    session = world.open(TLC, A, protocol=SINGLEPLEX)
    data = PREAMBLE + b"".join([each.encode() for each in (Token(session.token), plain("1"), KeepAlive(), plain("2"))])
    peer = world.accept()
    for piece in [data] if pieces == "whole" else [data[at : at + 1] for at in range(len(data))]:
        peer.send_bytes(piece)
    assert broker.texts() == ["1", "2"]


@pytest.mark.parametrize(
    "first",
    [KeepAlive(), Bye("x"), Reconnect(), plain("x"), named(A, "x"), TimestampsRequest(1), Unknown(8, b""), Token("x")],
    ids=lambda each: type(each).__name__,
)
def test_who_does_not_begin_with_a_right_token_is_closed_without_a_word(world: World, first: Datagram) -> None:
    broker = world.join(BROKER, A)
    session = world.open(TLC, A)
    peer = world.accept()
    peer.send_bytes(PREAMBLE + first.encode() + Token(session.token).encode())
    assert peer.closed
    assert peer.writes == [PREAMBLE]
    assert broker.take() == []
    assert session.state is State.PENDING
    assert world.hub.turned_away == 1


@pytest.mark.parametrize("data", [b"\x00", b"\x02", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"])
def test_another_version_is_closed_without_a_word(world: World, data: bytes) -> None:
    peer = world.accept()
    peer.send_bytes(data)
    assert peer.closed
    assert peer.writes == [PREAMBLE]


def test_a_token_can_be_used_once_and_the_first_connection_does_not_notice(world: World) -> None:
    session = world.open(TLC, A)
    first = world.connect(session)
    second = world.accept()
    second.send_bytes(PREAMBLE + Token(session.token).encode())
    assert second.closed
    assert second.writes == [PREAMBLE]
    assert not first.closed
    first.connection.lost(False, world.now)
    third = world.accept()
    third.send_bytes(PREAMBLE + Token(session.token).encode())
    assert third.closed


@pytest.mark.parametrize("wanted", SecurityMode)
def test_a_token_is_only_good_on_the_kind_of_connection_it_was_asked_for(world: World, wanted: SecurityMode) -> None:
    session = world.open(TLC, A, security=wanted)
    other = next(each for each in SecurityMode if each is not wanted)
    wrong = world.accept(other)
    wrong.send_bytes(PREAMBLE + Token(session.token).encode())
    assert wrong.closed
    assert world.connect(session).session.state is State.LIVE


@pytest.mark.parametrize("sent", [b"", PREAMBLE, PREAMBLE + Token("x" * 43).encode()[:20]])
def test_who_does_not_show_a_token_in_time_is_closed(world: World, sent: bytes) -> None:
    peer = world.accept()
    peer.send_bytes(sent)
    world.wait(4.75)
    early = peer.closed
    world.wait(0.25)
    assert (early, peer.closed) == (False, True)
    assert peer.writes == [PREAMBLE]


def test_a_byte_now_and_then_does_not_prolong_the_handshake(world: World) -> None:
    peer = world.accept()
    for byte in (PREAMBLE + Token("x" * 43).encode())[:20]:
        peer.send_bytes(bytes((byte,)))
        world.wait(0.25)
    assert peer.closed


def test_who_leaves_before_the_token_leaves_nothing_behind(world: World) -> None:
    peer = world.accept()
    peer.connection.lost(True, world.now)
    peer.connection.lost(True, world.now)
    world.wait(10)
    assert peer.closed
    assert world.hub.turned_away == 1


# -- datagrams by mode ------------------------------------------------------------------------------------------------

MODES = {
    "TLC singleplex": lambda world: world.join(TLC, A, protocol=SINGLEPLEX),
    "TLC multiplex": lambda world: world.join(TLC, A),
    "Broker": lambda world: world.join(BROKER, A),
    "Monitor": lambda world: world.join(MONITOR, A),
}

STAYS, ENDS, LEAVES = "stays", "ends", "leaves"

# What becomes of the connection in the four modes, in their order above.
DATAGRAMS: list[tuple[Datagram, tuple[str, str, str, str]]] = [
    (KeepAlive(), (STAYS, STAYS, STAYS, STAYS)),
    (Token("x"), (ENDS, ENDS, ENDS, ENDS)),
    (Bye(), (LEAVES, LEAVES, LEAVES, LEAVES)),
    (Bye("had enough"), (LEAVES, LEAVES, LEAVES, LEAVES)),
    (Reconnect(), (ENDS, ENDS, ENDS, ENDS)),
    (Payload(2, NOON, b"x"), (STAYS, ENDS, ENDS, ENDS)),
    (IdentifiedPayload(A, 2, NOON, b"x"), (ENDS, STAYS, STAYS, ENDS)),
    (TimestampsRequest(5), (STAYS, STAYS, STAYS, STAYS)),
    (TimestampsResponse(5, 6, 7), (STAYS, STAYS, STAYS, STAYS)),
    (Unknown(0x08, b"\x01"), (STAYS, STAYS, STAYS, STAYS)),
    (Unknown(0xFF, b""), (STAYS, STAYS, STAYS, STAYS)),
]


@pytest.mark.parametrize(
    ("mode", "datagram", "outcome"),
    [(mode, each, result) for each, results in DATAGRAMS for mode, result in zip(MODES, results, strict=True)],
)
def test_what_becomes_of_a_connection_by_mode_and_datagram(
    world: World, mode: str, datagram: Datagram, outcome: str
) -> None:
    peer = MODES[mode](world)
    peer.send(datagram)
    assert peer.closed == (outcome != STAYS)
    reason = peer.bye()
    if outcome == ENDS:
        assert reason is not None
        assert reason.startswith("protocol violation: ")
        assert peer.session.end_reason is EndReason.PROTOCOL_ERROR
    else:
        assert reason is None
    if outcome == LEAVES:
        assert peer.session.end_reason is EndReason.CLIENT_DISCONNECT


def test_a_violation_is_told_in_words(world: World) -> None:
    peer = world.join(MONITOR, A)
    peer.send(named(A, "x"))
    assert peer.bye() == (
        "protocol violation: Payload with TLC identifier (0x05): not allowed here, "
        "in a Monitor session with TCPStreaming_Multiplex"
    )


def test_datagrams_that_do_not_exist_are_counted(world: World) -> None:
    peer = world.join(TLC, A)
    peer.send(Unknown(0x08, b""), Unknown(0x55, b"abc"))
    assert peer.session.counters.unknown == 2


def test_nothing_is_read_after_bye(world: World) -> None:
    broker, peer = world.join(BROKER, A), world.join(TLC, A)
    peer.send(named(A, "before"), Bye(), named(A, "after"))
    peer.send(named(A, "later"))
    assert broker.texts() == ["before"]


def test_what_came_before_a_violation_is_delivered_and_nothing_after_it(world: World) -> None:
    broker, peer = world.join(BROKER, A), world.join(TLC, A)
    peer.send(named(A, "before"), plain("wrong"), named(A, "after"))
    assert broker.texts() == ["before"]


@pytest.mark.parametrize(("broken", "end"), [(False, EndReason.CLIENT_DISCONNECT), (True, EndReason.CONNECTION_ERROR)])
def test_a_connection_that_is_lost_ends_its_session(world: World, broken: bool, end: EndReason) -> None:
    peer = world.join(TLC, A)
    peer.connection.lost(broken, world.now)
    assert peer.session.end_reason is end
    assert not world.hub.sessions


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
    peer.connection.set_writable(False)
    world.wait(120, peer)
    assert peer.take() == []
    peer.free()
    world.wait(2.5, peer)
    assert peer.take() == [KeepAlive()]


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
    assert peer.connection.clock.latency == 40
    assert peer.connection.clock.difference == 1_000
    controller, other = world.hub.registry.find("test", A), world.hub.registry.find("test", B)
    assert controller is not None
    assert controller.clock is peer.connection.clock
    assert other is not None
    assert other.clock is None


def test_a_client_may_ask_for_timestamps_too_and_is_answered_before_all_payloads(world: World) -> None:
    broker, controller = world.join(BROKER, A), world.join(TLC, A)
    controller.connection.received(named(A, "x").encode(), world.now)
    broker.connection.received(TimestampsRequest(77).encode(), world.now)
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
    with pytest.raises(Refusal, match="told to reconnect"):
        world.put(peer.session, B)


def test_a_server_that_goes_down_asks_all_to_reconnect_and_sends_away_who_does_not(world: World) -> None:
    good, bad = world.join(TLC, A), world.join(BROKER, A)
    pending = world.open(TLC, B)
    stranger = world.accept()
    world.hub.go_down(world.now)
    world.turn()
    assert good.take() == bad.take() == [Reconnect()]
    assert pending.end_reason is EndReason.ADMIN_TERMINATION
    with pytest.raises(Refusal, match="going down"):
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
