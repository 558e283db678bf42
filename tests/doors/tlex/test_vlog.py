"""Controllers that send V-Log: the lines of a connection, and what becomes of them."""

from __future__ import annotations

import pytest

from penstock.exchange.session import SessionState
from penstock.exchange.settings import HubLimits, HubSettings
from penstock.wire.tlex.datagrams import IdentifiedPayload, Token
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.vlog import MAX_LINE
from penstock.wire.tlex.vocabulary import EndReason, Protocol, SecurityMode, TlcType
from tests.exchange.nodes import NodesWorld
from tests.exchange.world import BROKER, MONITOR, NOON, SINGLEPLEX, TLC, A, Peer, World, named

V = "NLZH0VLG"
TYPE = 0x56


@pytest.fixture
def world() -> World:
    return prepared(World())


def prepared(world: World) -> World:
    world.register(A)
    world.register(V, type=TlcType.VLOG)
    return world


def joined(world: World, *lines: str) -> Peer:
    """A connected controller that has sent these."""
    peer = world.accept()
    session = world.open(TLC, V, protocol=Protocol.VLOG)
    peer.send_bytes("".join([f"{each}\r\n" for each in (session.token, *lines)]).encode())
    assert peer.session is session
    return peer


def test_lines_are_payloads_with_the_identifier_and_the_time_of_the_hub(world: World) -> None:
    broker, monitor = world.join(BROKER, A, V), world.join(MONITOR, V)
    joined(world, "0600610201", "", "0E00310102")
    assert broker.payloads() == [
        IdentifiedPayload(V, TYPE, NOON, b"0600610201"),
        IdentifiedPayload(V, TYPE, NOON, b"0E00310102"),
    ]
    assert len(monitor.payloads()) == 2


@pytest.mark.parametrize("size", [1, 7])
def test_lines_may_come_in_any_pieces(world: World, size: int) -> None:
    broker = world.join(BROKER, V)
    session = world.open(TLC, V, protocol=Protocol.VLOG)
    peer = world.accept()
    data = f"{session.token}\r0600610201\r0E00310102\r".encode()
    for at in range(0, len(data), size):
        peer.send_bytes(data[at : at + size])
    assert broker.texts() == ["0600610201", "0E00310102"]


def test_what_is_no_message_is_counted_and_the_session_goes_on(world: World) -> None:
    broker = world.join(BROKER, V)
    peer = joined(world, "hello", "0", "06 00", "0600610201")
    assert broker.texts() == ["0600610201"]
    assert (peer.session.counters.unknown, peer.closed) == (3, False)


def test_a_controller_is_sent_lines_and_no_datagrams(world: World) -> None:
    peer = joined(world)
    assert peer.writes == [PREAMBLE]
    world.wait(360.0)
    assert set(peer.writes[1:]) == {b"\r\n"}, "keep-alives, and no request for timestamps"
    world.wait(60.0)
    assert peer.writes[-1] == b"BYE keep alive timeout: nothing received for 396 s\r\n"
    assert peer.closed


def test_an_empty_line_keeps_the_session_alive(world: World) -> None:
    peer = joined(world)
    for _ in range(5):
        world.wait(300.0)
        peer.send_bytes(b"\r\n")
    assert not peer.closed


def test_payloads_of_brokers_have_no_way_to_it(world: World) -> None:
    broker = world.join(BROKER, V)
    peer = joined(world)
    broker.send(named(V, "hello"))
    assert peer.writes == [PREAMBLE]
    assert broker.session.counters.unrouted == 1


def test_messages_have_limits_of_their_own() -> None:
    world = prepared(World(HubSettings(vlog=HubLimits(payloads_per_second=1, payloads_window_seconds=2.0))))
    broker = world.join(BROKER, V)
    peer = joined(world, "01", "02", "03")
    assert broker.texts() == ["01", "02"]
    assert peer.writes[-1].startswith(b"BYE payload rate limit exceeded")
    assert peer.closed


def test_a_line_that_is_too_long_ends_the_session_after_those_before_it(world: World) -> None:
    broker = world.join(BROKER, V)
    peer = joined(world, "01", "0" * (MAX_LINE + 1), "02")
    assert broker.texts() == ["01"]
    assert peer.writes[-1] == b"BYE protocol violation: a line has more than 8192 characters\r\n"


@pytest.mark.parametrize("line", ["nobody", "x" * 1_000])
def test_a_wrong_token_is_answered_with_nothing(world: World, line: str) -> None:
    peer = world.accept()
    peer.send_bytes(f"{line}\r\n0600610201\r\n".encode())
    assert (peer.writes, peer.closed) == ([PREAMBLE], True)


def test_a_token_that_never_ends_is_answered_with_nothing(world: World) -> None:
    peer = world.accept()
    peer.send_bytes(b"x" * (MAX_LINE + 1))
    assert (peer.writes, peer.closed) == ([PREAMBLE], True)


def test_each_protocol_needs_a_session_of_its_own(world: World) -> None:
    streaming = world.open(TLC, A, protocol=SINGLEPLEX)
    peer = world.accept()
    peer.send_bytes(f"{streaming.token}\r\n0600610201\r\n".encode())
    assert peer.closed
    assert streaming.end_reason is EndReason.PROTOCOL_ERROR
    vlog = world.open(TLC, V, protocol=Protocol.VLOG)
    peer = world.accept()
    peer.send_bytes(PREAMBLE + Token(vlog.token).encode())
    assert peer.writes[-1] == b"BYE protocol violation: this session has VLOG, which has no frames\r\n"


def test_a_session_is_told_to_come_again(world: World) -> None:
    peer = joined(world)
    world.hub.reconnect(peer.session, world.now)
    world.turn()
    assert peer.writes[-1] == b"RECONNECT\r\n"
    assert world.open(TLC, V, protocol=Protocol.VLOG).state is SessionState.PENDING, "another may have it at once"


def test_it_may_be_connected_to_another_node() -> None:
    world = NodesWorld("a")
    prepared(world)
    broker = world.join(BROKER, V)
    session = world.open(TLC, V, protocol=Protocol.VLOG)
    peer = world.nodes["a"].accept(SecurityMode.NONE)
    peer.send_bytes(f"{session.token}\r\n0600610201\r\n".encode())
    peer.send_bytes(b"0E00310102\r\n")
    world.settle()
    assert broker.texts() == ["0600610201", "0E00310102"]
    assert session.state is SessionState.LIVE
