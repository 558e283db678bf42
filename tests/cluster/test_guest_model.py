"""Guests at random: edges that come, go and are replaced, hubs that are replaced, over a fabric that loses payloads.

In the end every hub has told its adapter of each session and subscription what has happened, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import Cause, Refusal
from penstock.kernel.messages import Message
from penstock.kernel.ports import PlainWish, SessionFacts, Statistics, SubscriptionFacts
from penstock.kernel.session import Session
from tests.cluster.test_guests import EdgeSide, Judge, World

KINDS = (
    "open",
    "open",
    "close",
    "end",
    "subscribe",
    "subscribe",
    "unsubscribe",
    "forbid",
    "message",
    "cut",
    "connect",
    "connect",
    "replace edge",
    "replace hub",
    "moment",
    "turns",
    "second",
    "grace",
)
moves = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30)), min_size=20, max_size=80)


class Witness(Judge):
    """Tells apart which session a subscription is of."""

    async def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        self.heard.append(("subscribed", session.id, subscription.number))

    def unsubscribed(
        self, session: SessionFacts, subscription: SubscriptionFacts, statistics: Sequence[Statistics]
    ) -> None:
        self.heard.append(("unsubscribed", session.id, subscription.number))


class Play:
    def __init__(self, chance: float) -> None:
        self.chance = chance
        self.world = World(Witness())
        self.runs = 0
        self.connected: dict[EdgeSide, bool] = {}
        for name in ("e1", "e2"):
            self.new_edge(name)
        self.tasks: set[asyncio.Task[None]] = set()
        self.numbers = 0
        self.asking: set[tuple[str, int]] = set()

    def new_edge(self, name: str) -> None:
        self.runs += 1
        edge = self.world.edge(name, f"run {self.runs}")
        edge.harness._ids = 1_000 * self.runs
        edge.link._chance = self.chance
        self.connected[edge] = True

    @property
    def edges(self) -> list[EdgeSide]:
        return self.world.edges

    def sessions(self) -> list[tuple[EdgeSide, Session]]:
        return [(edge, session) for edge in self.edges for session in edge.harness.kernel.sessions.values()]

    async def move(self, kind: str, index: int) -> None:
        edge = self.edges[index % len(self.edges)]
        if kind == "open":
            self.start(self.open(edge))
        elif kind in ("moment", "turns"):
            for _ in range(1 if kind == "moment" else 30):
                await asyncio.sleep(0)
        elif kind in ("second", "grace"):
            await self.pass_time(1 if kind == "second" else 6)
        elif kind == "cut" and self.connected[edge]:
            edge.link.cut()
            self.connected[edge] = False
        elif kind == "connect" and not self.connected[edge]:
            edge.link.connect(self.world.hub)
            self.connected[edge] = True
        elif kind == "replace edge":
            if self.connected[edge]:
                edge.link.cut()
            self.edges.remove(edge)
            await edge.link.calls.close()
            self.new_edge(edge.link.name)
        elif kind == "replace hub":
            self.replace_hub()
        elif found := self.sessions():
            edge, session = found[index % len(found)]
            if kind == "close":
                session.close(Cause.DESTROYED_BY_CLIENT, "bye")
            elif session.id in edge.link.calls.residents:
                self.with_session(kind, index, edge, session)

    def with_session(self, kind: str, index: int, edge: EdgeSide, session: Session) -> None:
        """Clients know a session when it has been welcomed."""
        if kind == "end":
            self.world.handle.end_session(session.id)
        elif kind == "subscribe":
            self.start(self.subscribe(edge, session, index % 3))
        elif kind == "unsubscribe" and session.subscriptions:
            session.unsubscribe(min(session.subscriptions))
        elif kind == "forbid":
            self.world.handle.unsubscribe(session.id, 1)
        elif kind == "message":
            self.numbers += 1
            session.messages.submit(Message(str(self.numbers), None, None, False, self.settled), None)

    def settled(self, code: int | None, text: str) -> None: ...

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def open(self, edge: EdgeSide) -> None:
        with suppress(Refusal):
            await edge.open()

    async def subscribe(self, edge: EdgeSide, session: Session, kind: int) -> None:
        # Doors do not ask for a number that they are asking for already.
        taken = {*session.subscriptions, *[number for id, number in self.asking if id == session.id]}
        number = next(number for number in range(1, 99) if number not in taken)
        self.asking.add((session.id, number))
        wish = PlainWish("HAND", ("gold", "private", "gold")[kind], "x", "MERGE", "odd" if kind == 2 else None)
        with suppress(Refusal):
            session.check_new(number)
            await edge.subscribe(session, number, wish)
        self.asking.remove((session.id, number))

    def replace_hub(self) -> None:
        self.check_history()
        for edge in self.edges:
            if self.connected[edge]:
                edge.link.cut()
        self.world.epoch += 1
        self.world.new_hub(Witness())
        for edge in self.edges:
            edge.link.connect(self.world.hub)
            self.connected[edge] = True

    async def pass_time(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.now += 0.5
            self.world.hub.guests.tick()
            for edge in self.edges:
                edge.link.calls.tick()
            for _ in range(30):
                await asyncio.sleep(0)

    def check_history(self) -> None:
        """What the adapter of a hub may have been told, at any time."""
        messages = [one[1] for one in self.world.judge.heard if one[0] == "message"]
        assert len(messages) == len(set(messages)), "a message was done twice"
        seen: dict[object, str] = {}
        active: set[tuple[object, object]] = set()
        for event in self.world.judge.heard:
            kind, session = str(event[0]), event[1]
            if kind == "new session":
                assert session not in seen, "opened twice"
                seen[session] = "open"
            elif kind == "session closed":
                assert seen.get(session, "open") == "open", "closed twice"
                seen[session] = "closed"
            elif kind == "subscribed":
                assert seen.get(session, "open") == "open"
                assert (session, event[2]) not in active, "began twice"
                active.add((session, event[2]))
            elif kind == "unsubscribed":
                assert seen.get(session, "open") == "open", "ended after its session"
                active.discard((session, event[2]))

    async def finish(self) -> None:
        """The fabric is good again: hub and edges agree."""
        for edge in self.edges:
            edge.link._chance = 0.0
            if not self.connected[edge]:
                edge.link.connect(self.world.hub)
        await self.pass_time(40)
        assert self.tasks == set()
        self.check_history()
        live = {session.id: session for _, session in self.sessions()}
        guests = {id: guest for edge in self.world.hub.guests.edges.values() for id, guest in edge.guests.items()}
        assert set(guests) == set(live)
        for id, guest in guests.items():
            assert {each.number for each in guest.subscriptions} == set(live[id].subscriptions)
        judge = self.world.judge
        opened = {one[1] for one in judge.heard if one[0] == "new session"}
        closed = {one[1] for one in judge.heard if one[0] == "session closed"}
        assert opened - closed <= set(live)
        assert not closed & set(live)
        begun = [one[1:] for one in judge.heard if one[0] == "subscribed"]
        ended = [one[1:] for one in judge.heard if one[0] == "unsubscribed"]
        for key in set(begun):
            is_live = key[0] in live and key[1] in live[str(key[0])].subscriptions
            if not is_live and key[0] in live:
                assert ended.count(key) >= begun.count(key), f"the end of {key} was not told"
        names = {
            item.name
            for session in live.values()
            for subscription in session.subscriptions.values()
            for item in subscription.request.grant.items
            if item.name.startswith("\x01")
        }
        assert set(self.world.hub.derived._by_name) == names
        for edge in self.edges:
            assert edge.link.calls._caller.pending == 0
            assert self.world.hub.guests.edges[edge.link.name].ended == set()


@given(moves, st.sampled_from((0.0, 0.1, 0.3)))
def test_hubs_tell_their_adapters_everything_once(steps: list[tuple[str, int]], chance: float) -> None:
    async def main() -> None:
        play = Play(chance)
        for kind, index in steps:
            await play.move(kind, index)
        await play.finish()

    asyncio.run(main())
