"""The benchmark of the monitoring in miniature: the sampler is switched off and on again, and /metrics is read."""

from __future__ import annotations

import argparse
import asyncio

import pytest

from bench.peers import penstock
from bench.rig.child import ChildError
from bench.rig.contest import serving
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios import monitoring


def options(words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    monitoring.add_options(parser)
    return parser.parse_args(words.split())


def test_both_are_measured_as_often_and_all_updates_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Report, "is_kept", False)
    few = options("--subscribers 20 --sessions 20 --items 20 --seconds 0.2 --rounds 2 --scrapes 2")
    assert asyncio.run(monitoring.run(few, Cores()))


def test_a_server_that_misunderstands_an_order_is_noticed() -> None:
    with serving(penstock.PEER, Cores()) as server:
        monitoring.order(server, "off")
        monitoring.order(server, "on")
        server.tell("off")
        with pytest.raises(ChildError, match="was told 'on' and said 'off'"):
            monitoring.order(server, "on")
