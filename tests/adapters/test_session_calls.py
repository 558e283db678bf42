"""Calls about one session: so many at a time, in turn, none lost when whoever waits for one gives up."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.session_calls import MAX_CALLS, SessionCalls


class Asked:
    """One call: not begun, under way until `end` is set, or over."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self.begun = False
        self.task: asyncio.Task[object]

    async def begin(self) -> None:
        self.begun = True
        await self.end.wait()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


# A call comes, the one with this index (of those begun, or of those not) ends or is given up. The loop runs for a
# moment, in which a place is handed on and not taken yet, or until all is quiet.
KINDS = ("come", "come", "end", "give up", "give up waiting", "moment", "turn")
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 20)), max_size=80)


async def play(moves: list[tuple[str, int]]) -> None:
    calls = SessionCalls()
    asked: list[Asked] = []

    def come() -> None:
        one = Asked()
        one.task = asyncio.create_task(calls.run("S", one.begin))
        asked.append(one)

    # One more waits from the beginning on: otherwise there would hardly ever be somebody who waits.
    for _ in range(MAX_CALLS + 1):
        come()
    await turns()
    check(asked)
    for kind, index in moves:
        if kind == "come":
            come()
        elif kind == "moment":
            await asyncio.sleep(0)
        elif kind == "turn":
            await turns()
            check(asked)
        elif chosen := [one for one in asked if one.begun == (kind != "give up waiting")]:
            one = chosen[index % len(chosen)]
            asked.remove(one)
            if kind == "end":
                one.end.set()
            else:
                one.task.cancel()
    await turns()
    check(asked)
    while asked:
        ended = [one for one in asked if one.begun]
        assert ended, "calls wait, and none is under way"
        for one in ended:
            asked.remove(one)
            one.end.set()
        await turns()
        check(asked)
    await calls.settled("S")
    assert calls._sessions == {}


def check(asked: list[Asked]) -> None:
    """When all is quiet: as many are under way as may be, and they are the first that came."""
    begun = [one.begun for one in asked]
    assert begun == [True] * min(MAX_CALLS, len(asked)) + [False] * (len(asked) - MAX_CALLS)


@given(steps)
def test_as_many_calls_as_allowed_are_under_way_and_they_go_by_turn(moves: list[tuple[str, int]]) -> None:
    asyncio.run(play(moves))


def test_sessions_do_not_wait_for_each_other() -> None:
    async def run() -> None:
        calls = SessionCalls()
        asked = {name: [Asked() for _ in range(MAX_CALLS + 1)] for name in ("one", "other")}
        tasks = [asyncio.create_task(calls.run(name, one.begin)) for name, each in asked.items() for one in each]
        await turns()
        for each in asked.values():
            assert [one.begun for one in each] == [True] * MAX_CALLS + [False]
        for one in (*asked["one"], *asked["other"]):
            one.end.set()
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_a_call_that_must_be_complete_goes_on_when_it_is_given_up_and_is_undone_afterwards() -> None:
    async def run() -> None:
        calls = SessionCalls()
        one, undone = Asked(), asyncio.Event()
        waiting = asyncio.create_task(calls.complete("S", one.begin, undone.set))
        await turns()
        waiting.cancel()
        await turns()
        assert waiting.cancelled()
        settled = asyncio.create_task(calls.settled("S"))
        await turns()
        assert not settled.done()
        one.end.set()
        await settled
        await turns()
        assert undone.is_set()

    asyncio.run(run())


def test_a_call_that_has_failed_is_not_undone() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("on purpose")

    async def run() -> None:
        calls = SessionCalls()
        undone = asyncio.Event()
        waiting = asyncio.create_task(calls.complete("S", fail, undone.set))
        await asyncio.sleep(0)
        waiting.cancel()
        await turns()
        assert waiting.cancelled()
        assert not undone.is_set()

    asyncio.run(run())
