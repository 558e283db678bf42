from __future__ import annotations

import msgspec
import pytest

from penstock.doors.tlex.descriptions import described, log_entry
from penstock.store.records import SessionLog
from tests.exchange.world import BROKER, NOON, SINGLEPLEX, TLC, A, B, World


@pytest.fixture
def world() -> World:
    world = World()
    world.register(A, B)
    return world


def test_a_session_is_described_as_specified(world: World) -> None:
    session = world.open(BROKER, A, B)
    shown = msgspec.to_builtins(described(session, "n44.tlex.eu", 40344))
    assert shown == {
        "token": session.token,
        "domain": "test",
        "type": "Broker",
        "protocol": "TCPStreaming_Multiplex",
        "details": {
            "securityMode": "NONE",
            "tlcIdentifiers": (A, B),
            "listener": {"host": "n44.tlex.eu", "port": 40344, "expiration": "2023-11-14T22:13:25Z"},
            "keepAliveTimeout": "PT5S",
            "clockDiffLimit": "PT3S",
            "clockDiffLimitDuration": "PT60S",
            "payloadRateLimit": 1200,
            "payloadRateLimitDuration": "PT5S",
            "payloadThroughputLimit": 120,
            "payloadThroughputLimitDuration": "PT5S",
        },
    }


def test_a_singleplex_session_is_described_with_its_one_identifier(world: World) -> None:
    details = described(world.open(TLC, A, protocol=SINGLEPLEX), "localhost", 1).details
    assert details.tlc_identifier == A
    assert details.tlc_identifiers is msgspec.UNSET


@pytest.mark.parametrize("connects", [True, False])
def test_what_is_kept_of_a_session_is_what_happened_and_not_its_token(world: World, connects: bool) -> None:
    session = world.open(BROKER, A, B)
    if connects:
        world.move(1)
        world.connect(session).conversation.lost(True, world.now)
    else:
        world.wait(5)
    entry = log_entry(session)
    assert entry == SessionLog(
        id=session.id,
        account="ours",
        domain="test",
        type="Broker",
        protocol="TCPStreaming_Multiplex",
        identifiers=(A, B),
        created=NOON,
        connected=NOON + 1_000 if connects else None,
        ended=NOON + (1_000 if connects else 5_000),
        end_reason="CONNECTION_ERROR" if connects else "SESSION_EXPIRED",
    )
    assert session.token not in repr(entry)
