"""The handshake in bytes, and what each datagram means in each mode."""

from __future__ import annotations

import pytest

from penstock.exchange.session import SessionState
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
from penstock.wire.tlex.vocabulary import EndReason, SecurityMode
from tests.exchange.world import BROKER, MONITOR, NOON, SINGLEPLEX, TLC, A, B, World, named, plain


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
    [
        KeepAlive(),
        Bye("x"),
        Reconnect(),
        plain("x"),
        named(A, "x"),
        TimestampsRequest(1),
        Unknown(8, b""),
        Token("x"),
    ],
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
    assert session.state is SessionState.PENDING
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
    first.conversation.lost(False, world.now)
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
    assert world.connect(session).session.state is SessionState.LIVE


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
    peer.conversation.lost(True, world.now)
    peer.conversation.lost(True, world.now)
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
