from __future__ import annotations

import asyncio

import pytest

from penstock.doors.stream.turns import Turns
from penstock.testing import Harness


class Connection:
    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.flushed = 0
        self.cuts = 0

    def flush(self) -> None:
        if self.broken:
            raise RuntimeError("broken on purpose")
        self.flushed += 1

    def cut(self) -> None:
        self.cuts += 1


def test_a_connection_that_fails_is_cut_and_the_others_still_write(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> list[Connection]:
        turns = Turns(asyncio.get_running_loop())
        turns.run_kernel(Harness().kernel)
        connections = [Connection(), Connection(broken=True), Connection()]
        for connection in connections:
            turns.flush_later(connection)
        turns.run()
        turns.stop()
        return connections

    connections = asyncio.run(scenario())
    assert [(one.flushed, one.cuts) for one in connections] == [(1, 0), (0, 1), (1, 0)]
    assert "connection failed while writing" in caplog.text
