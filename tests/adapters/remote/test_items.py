"""Whatever clients want and however the adapter answers: never two requests for an item at a time, never USB for what
is not subscribed, and in the end exactly what is wanted is subscribed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.remote.calls import TakeOutcome, Unanswered, Why
from penstock.adapters.remote.items import RemoteItems
from penstock.adapters.remote.link import Phase
from penstock.kernel.item import Mode
from penstock.kernel.session import Session
from penstock.testing import Harness
from penstock.testing.hands import HandSource
from penstock.wire.ari.notifications import AriEndOfSnapshot, AriUpdate
from penstock.wire.ari.replies import Done, ExceptionKind, Failed
from penstock.wire.ari.requests import Request, SubscribeItem, UnsubscribeItem

ITEMS = ("a", "b")


class Adapter:
    """Stands for the link and for the remote adapter behind it; notices whatever it must not be asked."""

    def __init__(self) -> None:
        self.phase = Phase.WAITING
        self.outstanding: dict[str, tuple[str, Request, TakeOutcome]] = {}
        self.subscribed: dict[str, str] = {}
        self._count = 0

    def ask(self, request: Request, done: TakeOutcome) -> str:
        assert self.phase is Phase.READY
        assert isinstance(request, SubscribeItem | UnsubscribeItem)
        assert request.item not in self.outstanding, "two requests for one item at a time"
        assert (request.item in self.subscribed) is isinstance(request, UnsubscribeItem), "SUB twice, or USB of nothing"
        self._count += 1
        self.outstanding[request.item] = (str(self._count), request, done)
        return str(self._count)

    def answer(self, item: str, succeeds: bool) -> None:
        identifier, request, done = self.outstanding.pop(item)
        if isinstance(request, UnsubscribeItem):
            # In any case: an adapter that fails to unsubscribe is not asked again.
            del self.subscribed[item]
        elif succeeds:
            self.subscribed[item] = identifier
        if succeeds:
            done(Done(identifier, request.method))
        else:
            done(Failed(identifier, request.method, ExceptionKind.SUBSCRIPTION, "no"))

    def lose(self) -> None:
        self.phase = Phase.WAITING
        self.subscribed.clear()
        outstanding, self.outstanding = self.outstanding, {}
        for _, request, done in outstanding.values():
            done(Unanswered(request.method, Why.LOST))


class Source(HandSource):
    """Passes on what the kernel wants."""

    items: RemoteItems

    def subscribe(self, item: str, serial: int, mode: Mode) -> None:
        assert self.feed is not None
        self.items.want(self.feed.items[item])

    def unsubscribe(self, item: str) -> None:
        self.items.unwant(item)


class World:
    def __init__(self) -> None:
        source = Source()
        self.harness = Harness(source=source)
        self.adapter = Adapter()
        self.items = source.items = RemoteItems(self.adapter, self.harness.feed, 1_000.0, 1_000.0)  # type: ignore[arg-type]
        self.session: Session = self.harness.open()[0]
        self.numbers: dict[str, int] = {}
        self._count = 0

    def toggle(self, item: str) -> None:
        """A client comes or goes."""
        if item in self.numbers:
            self.session.unsubscribe(self.numbers.pop(item))
        else:
            self._count += 1
            self.numbers[item] = self._count
            self.harness.subscribe(self.session, self._count, item, "x", Mode.DISTINCT, snapshot=True)

    def succeed(self, item: str) -> None:
        if item in self.adapter.outstanding:
            self.adapter.answer(item, True)

    def fail(self, item: str) -> None:
        if item in self.adapter.outstanding:
            self.adapter.answer(item, False)

    def publish(self, item: str) -> None:
        """Something that the adapter has sent, before or after its answer."""
        identifier = self.adapter.subscribed.get(item) or self.adapter.outstanding.get(item, ("late",))[0]
        self.items.updated([AriUpdate(1, item, identifier, True, {"x": "1"})])
        self.items.notified(AriEndOfSnapshot(1, item, identifier))

    def swap(self, item: str) -> None:
        """The adapter is lost, or comes back."""
        if self.adapter.phase is Phase.READY:
            self.adapter.lose()
            self.items.lost()
        else:
            self.adapter.phase = Phase.READY
            self.items.ready()


ACTIONS: dict[str, Callable[[World, str], None]] = {
    "toggle": World.toggle,
    "succeed": World.succeed,
    "fail": World.fail,
    "publish": World.publish,
    "swap": World.swap,
}


@given(st.lists(st.tuples(st.sampled_from(sorted(ACTIONS)), st.sampled_from(ITEMS)), max_size=60))
def test_what_is_wanted_and_what_is_subscribed_come_together(story: list[tuple[str, str]]) -> None:
    asyncio.run(play(story))


async def play(story: list[tuple[str, str]]) -> None:
    world = World()
    for action, item in story:
        ACTIONS[action](world, item)
    # A new adapter that answers everything well.
    if world.adapter.phase is Phase.READY:
        world.swap("")
    world.swap("")
    while world.adapter.outstanding:
        world.succeed(next(iter(world.adapter.outstanding)))
    assert set(world.adapter.subscribed) == set(world.numbers)
    for item in list(world.numbers):
        world.publish(item)
        world.toggle(item)
    while world.adapter.outstanding:
        world.succeed(next(iter(world.adapter.outstanding)))
    assert world.adapter.subscribed == {}
    assert world.items._entries == {}
    assert world.items._by_identifier == {}
