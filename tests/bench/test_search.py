"""The benchmark of searches in miniature: all that is asked for is found, and all changes are answered."""

from __future__ import annotations

from pathlib import Path

import uvloop

from bench.rig.machine import Cores
from bench.scenarios import search


def test_searches_find_a_page_and_changes_are_indexed(tmp_path: Path) -> None:
    plan = search.Plan(things=2000, searches=3, warm_up=1, rate=200, seconds=0.5)
    figures = uvloop.run(search.measure(plan, tmp_path, Cores()))
    assert not figures.failures
    assert set(figures.times) == set(search.kinds(plan))
    assert figures.lags
