"""Lists of ten thousand entries are made in turns: nobody else waits for long."""

from __future__ import annotations

import asyncio
import time

import pytest

from penstock.services.admin import lists
from penstock.services.admin.lists import ListPart
from penstock.services.admin.routes import MAX_ENTRIES
from penstock.testing import Harness

SESSIONS = 10_000

# Seconds that the loop may stand still; measured in processor time, because the machine may have other things to do.
LONGEST_PAUSE = 0.005


@pytest.fixture(scope="module")
def crowded() -> Harness:
    harness = Harness()
    for number in range(SESSIONS):
        session = harness.kernel.open_session(harness.codec, harness.handler)
        session.adapter_set = "TEST"
        session.user = f"user{number % 3}"
    return harness


def steps(part: ListPart, harness: Harness, user: str | None) -> tuple[int, int, list[float]]:
    """How many there are and were given; how long each step took until others had a turn."""
    found = lists.sessions(part, harness.kernel, user, None)
    pauses = []
    while True:
        begin = time.thread_time()
        try:
            found.send(None)
        except StopIteration as end:
            pauses.append(time.thread_time() - begin)
            return end.value.total, len(end.value.sessions), pauses
        pauses.append(time.thread_time() - begin)


def test_ten_thousand_sessions_are_gone_through_in_short_steps(crowded: Harness) -> None:
    # Once to warm up: the first use of a model takes its time.
    steps(ListPart(0, 1), crowded, None)
    best = []
    for _ in range(3):
        total, given, pauses = steps(ListPart(SESSIONS - MAX_ENTRIES, MAX_ENTRIES), crowded, "user1")
        assert (total, given) == (3_333, 0)
        total, given, more = steps(ListPart(0, MAX_ENTRIES), crowded, None)
        assert (total, given) == (SESSIONS, MAX_ENTRIES)
        assert len(more) > SESSIONS / lists.LOOKED_AT_PER_TURN
        best.append(max([*pauses, *more]))
    assert min(best) < LONGEST_PAUSE


def test_sessions_that_end_meanwhile_do_not_break_the_list() -> None:
    harness = Harness()
    for _ in range(200):
        harness.open()

    async def main() -> None:
        asked = asyncio.get_running_loop().create_task(lists.sessions(ListPart(0, 1_000), harness.kernel, None, None))
        await asyncio.sleep(0)
        for session in list(harness.kernel.sessions.values()):
            session.close(32, "gone")
        assert (await asked).total == 200

    asyncio.run(main())
