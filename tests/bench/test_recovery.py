"""How the benchmark of recovery counts: windows that began before the kill do not."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.scenarios.recovery import archived, closed_after, seconds_of


def test_a_window_that_began_before_the_kill_is_passed_over() -> None:
    async def waited() -> tuple[float, int]:
        starts: asyncio.Queue[float] = asyncio.Queue()
        moment = time.time() - 5
        for start in (moment - 2, moment - 1, moment + 1, moment + 2):
            starts.put_nowait(start)
        return await closed_after(starts, moment), starts.qsize()

    took, left = asyncio.run(waited())
    assert 5 <= took < 30
    assert left == 1


def test_a_time_is_read_as_candles_have_it() -> None:
    assert seconds_of("2026-01-30T06:00:00.000Z") == 1_769_752_800


def test_an_archive_that_cannot_be_made_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "classes-1.failed").touch()
    assert not asyncio.run(archived(tmp_path))
    (tmp_path / "spark" / "classes-1.jsa").touch()
    assert asyncio.run(archived(tmp_path))
