"""The benchmark in miniature: it runs, and every event has reached the client. Times do not matter."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.rig.child import penstock as serve
from bench.scenarios import policies


def test_events_that_wait_for_the_disk_are_timed_until_the_client_has_them(tmp_path: Path) -> None:
    with serve(tmp_path, None, policies.settings("ack")) as server:
        for size in (1, 20):
            delays = asyncio.run(policies.measure(server, 5, size))
            assert len(delays.answered) == len(delays.shown) == 5
            assert min(*delays.answered, *delays.shown) > 0
    assert list((tmp_path / "data" / "journal").glob("*")) != []
