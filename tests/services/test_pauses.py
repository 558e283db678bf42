"""Pauses of the event loop of a server with ten thousand sessions, while it is scraped and takes samples of itself.

What is measured is all that a callback has to wait for until it is called again: a pass of the loop, as processor time
of its thread, because other work of the machine is not the server's. The steps alone are in `test_figures_speed`.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from statistics import median
from urllib.request import ProxyHandler, build_opener

import pytest

from penstock.collector import THRESHOLDS
from penstock.services.sampling import SamplingService
from tests.services.crowd import fill
from tests.support.background import BackgroundServer

ATTEMPTS = 10

# Seconds that the loop may be kept from everybody else.
LONGEST_PAUSE = 0.005


class PassMeter:
    """Wants to be called in every pass of the loop, and knows the longest time between two calls."""

    def __init__(self) -> None:
        """On the loop's thread."""
        self._loop = asyncio.get_running_loop()
        self._last = time.thread_time()
        self._ended = False
        self.longest = 0.0
        self.passes = 0
        self._loop.call_soon(self._called)

    def _called(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self.passes += 1
        self._last = now
        if not self._ended:
            self._loop.call_soon(self._called)

    def stop(self) -> None:
        self._ended = True


@pytest.fixture(scope="module")
def crowded() -> Iterator[BackgroundServer]:
    """With the garbage collector as a server process has it."""
    before = gc.get_threshold()
    with BackgroundServer({}) as server:
        server.call(fill, server.server.kernel, ["TEST"])
        gc.collect()
        gc.set_threshold(*THRESHOLDS)
        yield server
        gc.set_threshold(*before)


def scrape(server: BackgroundServer) -> None:
    opener = build_opener(ProxyHandler({}))
    with opener.open(f"http://{server.host}:{server.api_port}/metrics", timeout=20) as answer:
        assert b"\npenstock_sessions_most 10000\n" in answer.read()


def sample(server: BackgroundServer) -> None:
    [sampling] = [one for one in server.server.services if isinstance(one, SamplingService)]
    server.run(sampling.step())


def stall(server: BackgroundServer) -> None:
    server.call(_work, 2 * LONGEST_PAUSE)


def _work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def pauses(server: BackgroundServer, work: Callable[[BackgroundServer], None]) -> list[float]:
    """The longest of each attempt, beginning with the shortest."""
    found = []
    for _ in range(ATTEMPTS):
        meter = server.call(PassMeter)
        work(server)
        server.call(meter.stop)
        assert meter.passes > 1
        found.append(meter.longest)
    return sorted(found)


@pytest.mark.parametrize("work", [scrape, sample])
def test_the_loop_does_not_pause_for(crowded: BackgroundServer, work: Callable[[BackgroundServer], None]) -> None:
    # Some attempts may have met a pass of the garbage collector, through all that the tests have left, or a machine
    # that is busy; a pause that the work makes is in all of them.
    assert median(pauses(crowded, work)) < LONGEST_PAUSE


def test_a_pause_would_be_seen_and_an_idle_loop_has_none(crowded: BackgroundServer) -> None:
    assert pauses(crowded, stall)[0] > LONGEST_PAUSE
    *idle, _ = pauses(crowded, lambda server: server.call(time.sleep, 0))
    assert idle[-1] < LONGEST_PAUSE
