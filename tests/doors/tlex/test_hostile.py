"""Peers that do what they must not: each is dealt with as chosen, and a witness next to it notices nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from penstock.wire.tlex.datagrams import KeepAlive, TimestampsRequest, Token
from penstock.wire.tlex.frames import PREAMBLE, frame
from penstock.wire.tlex.vocabulary import EndReason
from tests.exchange.world import BROKER, MONITOR, SINGLEPLEX, TLC, A, B, C, Peer, World, named, plain


class Witness:
    """Two peers who exchange payloads all the time."""

    def __init__(self, world: World) -> None:
        self.controller, self.broker = world.join(TLC, C, protocol=SINGLEPLEX), world.join(BROKER, C, account="witness")
        self.count = 0

    def check(self) -> None:
        self.count += 1
        self.controller.send(plain(f"up {self.count}"))
        self.broker.send(named(C, f"down {self.count}"))
        assert self.broker.texts() == [f"up {self.count}"]
        assert self.controller.texts() == [f"down {self.count}"]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.register(A, B, C)
    witness = Witness(world)
    witness.check()
    yield world
    witness.check()


PEERS = {
    "TLC singleplex": lambda world: world.join(TLC, A, protocol=SINGLEPLEX),
    "TLC multiplex": lambda world: world.join(TLC, A),
    "Broker": lambda world: world.join(BROKER, A),
    "Monitor": lambda world: world.join(MONITOR, A),
}

# Bytes after which nothing can be read any more: closed without Bye.
BROKEN = {
    "wrong first byte of the prefix": b"\xab",
    "wrong second byte of the prefix": b"\xaa\xbc",
    "prefix the wrong way round": b"\xbb\xaa\x00\x01\x00",
    "size 0": b"\xaa\xbb\x00\x00",
    "something else entirely": b"GET / HTTP/1.1\r\n",
}

# Whole frames that cannot be: Bye with a reason.
IMPOSSIBLE = {
    "KeepAlive with data": frame(b"\x00\x00"),
    "Token without token": frame(b"\x01"),
    "Reconnect with data": frame(b"\x03\x00"),
    "Payload of 9 bytes": frame(b"\x04" + bytes(8)),
    "the picture in the specification": bytes.fromhex("AABB 0004 04010323"),
    "Payload with identifier of 17 bytes": frame(b"\x05" + bytes(16)),
    "Timestamps request of 8 bytes": frame(b"\x06" + bytes(7)),
    "Timestamps request of 10 bytes": frame(b"\x06" + bytes(9)),
    "Timestamps response of 24 bytes": frame(b"\x07" + bytes(23)),
    "Timestamps response of 26 bytes": frame(b"\x07" + bytes(25)),
    "a second Token": Token("x" * 43).encode(),
}

SPLITS = {"whole": 0, "byte by byte": 1, "ten at once": 10}


def feed(peer: Peer, data: bytes, split: str) -> None:
    size = SPLITS[split]
    if size == 10:
        peer.send_bytes(KeepAlive().encode() * 10 + data)
    else:
        for at in range(0, len(data), size or len(data)):
            peer.send_bytes(data[at : at + (size or len(data))])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_stream_is_closed_at_once_without_bye(world: World, peer: str, data: str, split: str) -> None:
    bad = PEERS[peer](world)
    feed(bad, BROKEN[data], split)
    assert bad.closed
    assert bad.take() == []
    assert bad.session.end_reason is EndReason.PROTOCOL_ERROR


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("data", IMPOSSIBLE)
def test_an_impossible_datagram_is_a_violation(world: World, peer: str, data: str, split: str) -> None:
    bad = PEERS[peer](world)
    feed(bad, IMPOSSIBLE[data], split)
    reason = bad.bye()
    assert reason is not None
    assert reason.startswith("protocol violation: ")


@pytest.mark.parametrize("data", [*BROKEN.values(), *IMPOSSIBLE.values()])
def test_before_the_token_no_bad_bytes_are_answered(world: World, data: bytes) -> None:
    bad = world.accept()
    bad.send_bytes(PREAMBLE + data)
    assert bad.closed
    assert bad.writes == [PREAMBLE]


def test_a_frame_that_is_too_long_is_refused_by_its_header() -> None:
    world = World()
    world.max_frame = 1_000
    world.register(A)
    bad = world.join(TLC, A)
    bad.send_bytes(bytes.fromhex("AABB 03E9"))
    assert bad.closed


def test_a_frame_that_never_ends_is_a_silent_peer(world: World) -> None:
    bad = world.join(TLC, A)
    bad.send_bytes(named(A, "x" * 100).encode()[:50])
    world.hub.tick(world.now)
    world.move(5.5)
    # Only this one's deadline: the witness is not to be silent.
    bad.conversation.run(world.now)
    assert bad.bye() == "keep alive timeout: nothing received for 5.5 s"


def test_frames_after_the_end_are_ignored(world: World) -> None:
    bad = world.join(TLC, A)
    bad.send_bytes(b"\xff")
    bad.send(named(A, "x"), KeepAlive(), TimestampsRequest(1))
    bad.conversation.set_writable(False)
    bad.conversation.set_writable(True)
    bad.conversation.lost(True, world.now)
    bad.conversation.run(world.now)
    world.turn()
    assert bad.take() == []


@pytest.mark.parametrize(
    "token", ["", "x", "x" * 43, "x" * 60_000, "\0" * 43, "'; drop table sessions; --"], ids=lambda text: str(len(text))
)
def test_tokens_of_nobody_are_turned_away(world: World, token: str) -> None:
    bad = world.accept()
    bad.send_bytes(PREAMBLE + frame(b"\x01" + token.encode()))
    assert bad.closed
    assert bad.writes == [PREAMBLE]


def test_a_token_that_is_no_ascii_is_turned_away(world: World) -> None:
    bad = world.accept()
    bad.send_bytes(PREAMBLE + frame(b"\x01" + b"\xff" * 43))
    assert bad.closed
    assert bad.writes == [PREAMBLE]


def test_a_thousand_strangers_are_gone_after_the_handshake_time(world: World) -> None:
    strangers = [world.accept() for _ in range(1_000)]
    world.move(4.5)
    session = world.open(TLC, A)
    world.move(0.5)
    world.hub.tick(world.now)
    assert all(each.closed for each in strangers)
    world.connect(session)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_end_no_session_but_their_own(world: World, seed: int) -> None:
    chance = random.Random(seed)
    good = [
        KeepAlive().encode(),
        named(A, "x").encode(),
        named(B, "x", 0xF0).encode(),
        TimestampsRequest(3).encode(),
        frame(b"\x09abc"),
    ]
    for _ in range(20):
        bad = world.join(TLC, A)
        data = b"".join(chance.choices(good, k=5)) + chance.randbytes(40)
        while not bad.closed and data:
            size = chance.randint(1, 30)
            bad.send_bytes(data[:size])
            data = data[size:]
        if not bad.closed:
            bad.conversation.lost(True, world.now)
    assert {each.account for each in world.hub.sessions.values()} == {"ours", "witness"}
    assert len(world.hub.sessions) == 2
