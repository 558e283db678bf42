"""How often the event loop is looked at. That it is, and that samples are taken: test_figures.py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from penstock.services.sampling import IDLE_LAG_PAUSE, LAG_PAUSE, SamplingService


class Loop:
    """Notes how long timers are to wait."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def call_later(self, seconds: float, *_: object) -> None:
        self.pauses.append(seconds)

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        callback(*arguments)


def test_a_loop_that_has_no_work_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = 0.0
    monkeypatch.setattr(time, "thread_time", lambda: worked)
    service, loop = SamplingService(cast(Any, None), list), Loop()
    for seconds in (0.0, 0.0001, 0.1, 0.1, 0.0001):
        worked += seconds
        service._measure_lag(cast(asyncio.AbstractEventLoop, loop))
    assert loop.pauses == [IDLE_LAG_PAUSE, IDLE_LAG_PAUSE, LAG_PAUSE, LAG_PAUSE, IDLE_LAG_PAUSE]
