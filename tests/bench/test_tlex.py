"""The benchmark of the TLEX hub in miniature: it runs, and every payload comes once and in order."""

from __future__ import annotations

import uvloop

from bench import tlex
from bench.machine import Cores
from penstock.wire.tlex.datagrams import Payload
from penstock.wire.tlex.frames import PREAMBLE


def test_every_payload_of_the_hub_and_of_the_relay_arrives_and_nobody_idle_is_cut() -> None:
    plan = tlex.Plan(controllers=10, rate=2_000, seconds=0.5, idle_controllers=10, idle_seconds=3.0, settling=0.0)
    for figures in uvloop.run(tlex.compare(plan, Cores())):
        assert not figures.failures
        assert figures.delivered > 0


def test_a_payload_that_is_lost_or_out_of_order_is_noticed() -> None:
    taker = tlex.Taker(has_version=True)
    taker.data_received(PREAMBLE + b"".join([Payload(1, number, b"").encode() for number in (0, 1, 3)]))
    assert taker.failures == {"out of order or lost": 1}
