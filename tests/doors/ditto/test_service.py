from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.doors.ditto.change_log import JournalChangeLog
from penstock.doors.ditto.service import ask
from penstock.journal.journal import Journal
from penstock.twins.decision import Effect
from penstock.twins.reasons import TwinRefusal
from penstock.twins.registry import Twins
from tests.twins.world import OWNER, asked_of_one


def test_an_awaited_command_is_on_a_real_disk_when_it_is_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        journal = Journal(tmp_path)
        twins = Twins(
            JournalChangeLog(journal, asyncio.get_running_loop().call_soon_threadsafe), lambda: 1, lambda key: None
        )
        try:
            results = await asyncio.gather(
                *(ask(twins, asked_of_one("create", value={}, id=f"ns:t{n}"), OWNER) for n in range(50))
            )
            assert [result.effect for result in results] == [Effect.CREATED] * 50
            assert journal.committed == 100
            with pytest.raises(TwinRefusal):
                await ask(twins, asked_of_one("create", value={}, id="ns:t7"), OWNER)
            cancelled = asyncio.create_task(ask(twins, asked_of_one("delete", id="ns:t7"), OWNER))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(TwinRefusal):
                await ask(twins, asked_of_one("retrieve", id="ns:t7"), OWNER)
        finally:
            journal.close()

    asyncio.run(scenario())
