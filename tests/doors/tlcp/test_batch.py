from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from penstock.doors.stream.link import StreamLink
from penstock.doors.tlcp.asked import REQUESTS_PER_TURN
from penstock.wire.tlcp.errors import RequestError
from tests.support.background import BackgroundServer
from tests.support.hostile import FORGETFUL, Hostile, post
from tests.support.witness import Witness

pytestmark = pytest.mark.config(FORGETFUL)


def test_a_batch_of_thousands_of_lines_lets_others_have_their_turns(
    server: BackgroundServer, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = 0
    refusals: Counter[int] = Counter()
    door = server.server.tlcp
    refuse = door._refuse

    def count_turns() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(count_turns)

    def count_refusals(link: StreamLink, name: str, error: RequestError) -> None:
        refusals[turn] += 1
        refuse(link, name, error)

    monkeypatch.setattr(door, "_refuse", count_refusals)
    server.call(count_turns)
    with Hostile(server) as client:
        client.send(post("control", "x\r\n" * 16_000, "Connection: close"))
        assert client.read_all().count(b"ERROR,67,") == 16_000
    assert refusals.total() == 16_000
    assert max(refusals.values()) <= REQUESTS_PER_TURN
