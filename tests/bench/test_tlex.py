"""The benchmark of the TLEX hub in miniature: it runs, and every payload comes once and in order."""

from __future__ import annotations

import pytest
import uvloop

from bench.rig.machine import Cores
from bench.rig.tlex_peers import FILLING, Bursts, Taker
from bench.scenarios import tlex
from penstock.wire.tlex.datagrams import KEEP_ALIVE_FRAME, IdentifiedPayload
from penstock.wire.tlex.frames import PREAMBLE


def test_every_payload_of_the_hub_and_of_the_relay_arrives_and_nobody_idle_is_cut() -> None:
    plan = tlex.Plan(
        controllers=10, rate=2_000, seconds=0.5, idle_controllers=10, idle_seconds=3.0, window=200, settling=0.0
    )
    for figures in uvloop.run(tlex.compare(plan, Cores())):
        assert not figures.failures
        assert figures.paced.delivered > 0
        assert figures.most.delivered > 0


def payloads(*numbers: int, filling: bytes = FILLING) -> bytes:
    return b"".join([IdentifiedPayload("TLC00001", 1, number, filling).encode() for number in numbers])


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_payloads_are_counted_with_anything_between_them_and_in_any_pieces(piece: int) -> None:
    taker = Taker(has_version=True)
    data = PREAMBLE + KEEP_ALIVE_FRAME + payloads(0, 1) + KEEP_ALIVE_FRAME + payloads(2) + KEEP_ALIVE_FRAME
    for start in range(0, len(data), piece):
        taker.data_received(data[start : start + piece])
    assert not taker.failures
    assert (taker.taken, taker.came) == (3, 3)


@pytest.mark.parametrize("numbers", [(0, 1, 3), (0, 1, 1), (1,)])
def test_a_payload_that_is_lost_twice_there_or_out_of_order_is_noticed(numbers: tuple[int, ...]) -> None:
    taker = Taker(has_version=True)
    taker.data_received(PREAMBLE + payloads(*numbers))
    assert taker.failures == {"out of order or lost": 1}


def test_a_payload_of_another_size_is_noticed() -> None:
    taker = Taker(has_version=True)
    taker.data_received(PREAMBLE + payloads(0) + payloads(1, filling=FILLING[1:]))
    assert taker.failures == {"not as it was sent": 1}


def test_a_burst_is_the_next_payloads_of_its_controller() -> None:
    bursts, taker = Bursts(3), Taker(has_version=False)
    for controller in (0, 1, 0):
        taker.data_received(bursts.make(controller))
    assert not taker.failures
    assert taker.taken == 9
