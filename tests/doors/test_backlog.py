"""The places for messages of a session: nobody waits while there is one, and none is lost, whoever comes and goes."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.backlog import Backlog

LIMIT = 3

# Somebody comes (awaited by others or not), the one with this index leaves or goes away, the loop has a turn.
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("come", "come awaited")), st.just(0)),
        st.tuples(st.sampled_from(("leave", "give up")), st.integers(0, 5)),
        st.tuples(st.just("turn"), st.just(0)),
    ),
    max_size=60,
)


class Guest:
    """One message: it has a place, waits for one, or has gone."""

    def __init__(self, backlog: Backlog, is_awaited: bool) -> None:
        self.inside = backlog.enter("S", is_awaited)
        self.task: asyncio.Task[None] | None = None
        if not self.inside:
            self.task = asyncio.get_running_loop().create_task(self._wait(backlog))

    async def _wait(self, backlog: Backlog) -> None:
        await backlog.wait("S")
        self.inside = True


async def play(moves: list[tuple[str, int]]) -> None:
    backlog = Backlog(LIMIT)
    guests: list[Guest] = []
    beyond = 0
    for kind, index in moves:
        if kind.startswith("come"):
            is_awaited = kind == "come awaited"
            guests.append(Guest(backlog, is_awaited))
            assert guests[-1].inside or not is_awaited
            beyond += is_awaited
        elif kind == "turn":
            await turns()
            check(guests)
        else:
            chosen = [guest for guest in guests if guest.inside == (kind == "leave")]
            if not chosen:
                continue
            guest = chosen[index % len(chosen)]
            guests.remove(guest)
            if guest.inside:
                backlog.leave("S")
            elif guest.task is not None:
                guest.task.cancel()
        assert sum(guest.inside for guest in guests) <= LIMIT + beyond
    await turns()
    check(guests)
    while guests:
        inside = [guest for guest in guests if guest.inside]
        assert inside, "somebody waits, and nobody is there to leave"
        guests.remove(inside[0])
        backlog.leave("S")
        await turns()
        check(guests)
    assert backlog._sessions == {}


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def check(guests: list[Guest]) -> None:
    """When all is quiet, nobody waits while there is a place."""
    assert all(guest.inside for guest in guests) or sum(guest.inside for guest in guests) >= LIMIT


@given(steps)
def test_nobody_waits_while_there_is_a_place(moves: list[tuple[str, int]]) -> None:
    asyncio.run(play(moves))
