"""Sessions of edges at a hub with a real metadata adapter: told once of everything, whatever gets lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.adapters.authority import SetAuthority
from penstock.adapters.server import ServerHandle
from penstock.cluster.authority import EdgeAuthority
from penstock.cluster.calling import PATIENCE
from penstock.cluster.derived import is_derived, real_name
from penstock.cluster.desk import EdgeDesk
from penstock.cluster.guest import Guest, GuestSubscription
from penstock.cluster.guests import FORSAKEN, GRACE, GuestDesk
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.messages import Message
from penstock.kernel.ports import (
    Admission,
    AttendedSession,
    ClientFacts,
    Customizer,
    Event,
    PlainWish,
    Selector,
    SessionFacts,
    Statistics,
    SubscriptionFacts,
)
from penstock.kernel.session import Session
from penstock.kernel.subscription import Subscription, SubscriptionRequest
from penstock.push.refusals import PushReason, PushRefusal
from penstock.testing import Harness, MemoryChannel
from penstock.wire.fabric.calls import decode_body, encode_body
from penstock.wire.tlcp.push import (
    ActivatePush,
    DeactivatePush,
    PushControl,
    ReconfigurePush,
    RegisterDevice,
    ResetBadge,
)
from tests.cluster.link import Hub, Link

CLIENT = ClientFacts(
    "192.0.2.7", True, {"user-agent": "test", "cookie": "a=b"}, 4711, "CN=me", "R1", "stream", "lib", "1"
)
WISH = PlainWish("HAND", "gold", "x", "MERGE")


def is_odd(event: Event) -> bool:
    return int(event.get("x") or 0) % 2 == 1


def doubled(event: Event) -> Event:
    return {**event, "x": str(2 * int(event.get("x") or 0))}


class Judge(MetadataAdapter):
    """Says yes, unless a name says otherwise; answers messages when `release` allows it. Remembers what it heard."""

    quick = True

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.clients: list[ClientFacts] = []
        self.release = asyncio.Event()
        self.release.set()

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        self.clients.append(client)
        await self.release.wait()
        if password != "secret":
            raise Refusal(Reason.CREDENTIALS, "Not you", -4)
        return Admission(40.0, False, f"the {user}", frozenset(("reader", "writer")), None, True, True)

    def new_session(self, session: SessionFacts) -> float | None:
        self.heard.append(("new session", session.id, session.user, sorted(session.roles)))
        return 60.0 if session.user == "the mayfly" else None

    def session_closed(self, session: SessionFacts) -> None:
        self.heard.append(("session closed", session.id))

    def selector(self, session: SessionFacts, data_adapter: str, name: str) -> Selector:
        return is_odd

    def customizer(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> Customizer | None:
        return doubled if item == "private" else None

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:
        if group == "none":
            raise Refusal(Reason.GROUP, "no such group")
        return group.split("+")

    async def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        await self.release.wait()
        self.heard.append(("subscribed", subscription.number, subscription.items))

    def unsubscribed(
        self, session: SessionFacts, subscription: SubscriptionFacts, statistics: Sequence[Statistics]
    ) -> None:
        self.heard.append(("unsubscribed", subscription.number, subscription.items, len(statistics)))

    async def message(self, session: SessionFacts, text: str) -> str | None:
        self.heard.append(("message", text))
        await self.release.wait()
        if text == "rude":
            raise Refusal(Reason.MESSAGE_FAILED, "mind your words", -3)
        return text.upper()

    def of(self, kind: str) -> list[tuple[object, ...]]:
        return [one[1:] for one in self.heard if one[0] == kind]


class Few(Judge):
    sessions_per_user = 1


class HandDesk:
    """A desk for push notifications."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.adopted: list[tuple[str, str]] = []
        self.release = asyncio.Event()
        self.release.set()

    def adopt(self, session: AttendedSession, device: str) -> None:
        self.adopted.append((session.id, device))

    async def carry_out(
        self, session: AttendedSession, request: PushControl, answer: Callable[[Sequence[str]], None]
    ) -> None:
        if isinstance(request, ActivatePush) and request.trigger == "bad":
            raise PushRefusal(PushReason.TRIGGER, "not this trigger")
        self.heard.append(request)
        if isinstance(request, ResetBadge):
            await self.release.wait()
        answer(TOLD.get(type(request), ()))


# What requests are answered with.
TOLD: dict[type, Sequence[str]] = {
    RegisterDevice: ("device", "PUSH"),
    ActivatePush: ("subscription",),
    DeactivatePush: ("one", "two"),
}


def _unheard(told: Sequence[str]) -> None:
    """What is answered does not matter."""


class World:
    """A hub with one adapter set, edges, and one clock for all of them."""

    def __init__(self, judge: Judge | None = None, desk: GuestDesk | None = None) -> None:
        self.now = 1_000.0
        self.epoch = 1
        self.desk = desk
        self.edges: list[EdgeSide] = []
        self.new_hub(judge or Judge())

    def clock(self) -> float:
        return self.now

    def new_hub(self, judge: Judge) -> None:
        self.judge = judge
        self.authority = SetAuthority(AdapterSet("TEST", judge, {"HAND": DataAdapter()}, 20_000))
        authorities = {"TEST": self.authority}
        self.hub = Hub(self.epoch, authorities.get, self.desk, self.clock)
        self.hub_harness = Harness()
        self.hub_harness.kernel.guests = self.hub.guests
        self.handle = ServerHandle(self.hub_harness.kernel, "TEST")

    def replace_hub(self, judge: Judge) -> None:
        """The hub is gone, and another one is there."""
        for edge in self.edges:
            edge.link.cut()
        self.epoch += 1
        self.new_hub(judge)
        for edge in self.edges:
            edge.link.connect(self.hub)

    def edge(self, name: str, run: str = "run") -> EdgeSide:
        edge = EdgeSide(self, name, run)
        self.edges.append(edge)
        return edge

    async def rest(self) -> None:
        """Let all that is under way come to an end, or to where it waits."""
        for _ in range(60):
            await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 0.5)
            self.hub.guests.tick()
            for edge in self.edges:
                edge.link.calls.tick()
                edge.harness.advance(0.5)
            await self.rest()


class EdgeSide:
    """An edge: a kernel, its authority, and what a door does."""

    def __init__(self, world: World, name: str, run: str) -> None:
        self.harness = Harness()
        # Sessions of two edges have different names.
        self.harness._ids = 1_000 * (len(world.edges) + 1)
        self.link = Link(name, run, self.harness.kernel, world.clock)
        self.authority = EdgeAuthority(self.link.calls, "TEST")
        self.desk = EdgeDesk(self.link.calls)
        self.harness.kernel.observer = self
        self.link.connect(world.hub)

    def subscription_closed(self, session: Session, subscription: Subscription) -> None:
        grant = subscription.request.grant
        self.authority.subscription_closed(session, subscription.number, grant, subscription.statistics)

    def session_closed(self, session: Session, cause: int | None, message: str) -> None:
        self.authority.session_closed(session)

    async def open(
        self, user: str = "ann", password: str = "secret", client: ClientFacts = CLIENT
    ) -> tuple[Session, MemoryChannel]:
        admission = await self.authority.authenticate(user, password, client)
        session = self.harness.kernel.open_session(self.harness.codec, self.authority)
        session.user = admission.user
        session.adapter_set = "TEST"
        session.client = client
        session.admit(admission, None)
        try:
            await self.authority.welcome(session)
        except BaseException:
            session.close(None, "")
            raise
        return session, self.harness.bind(session)

    async def subscribe(self, session: Session, number: int, wish: PlainWish = WISH) -> None:
        grant = await self.authority.resolve(session, number, wish)
        try:
            session.subscribe(SubscriptionRequest(number, self.harness.feed, grant, Mode(wish.mode)))
        except Refusal:
            self.authority.subscription_refused(session, number, grant)
            raise

    def take(self, channel: MemoryChannel, kind: str) -> list[str]:
        self.harness.turn()
        return [line for line in channel.take() if line.startswith(kind)]


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_the_adapter_is_told_of_a_client_all_that_the_edge_knows() -> None:
    async def scene() -> None:
        world = World()
        session, _ = await world.edge("e1").open()
        assert world.judge.clients == [CLIENT]
        assert world.judge.heard == [("new session", session.id, "the ann", ["reader", "writer"])]
        assert session.admission == Admission(40.0, False, "the ann", frozenset(("reader", "writer")), None, True, True)

    play(scene)


def test_a_refusal_keeps_its_reason_its_text_and_its_code() -> None:
    async def scene() -> None:
        edge = World().edge("e1")
        with pytest.raises(Refusal, match="Not you") as raised:
            await edge.open(password="guess")
        assert (raised.value.reason, raised.value.code) == (Reason.CREDENTIALS, -4)

    play(scene)


def test_the_end_of_a_session_is_told_once() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        session.close(Cause.DESTROYED_BY_CLIENT, "bye")
        await world.rest()
        edge.link.cut()
        await world.pass_time(GRACE + 1)
        assert world.judge.of("session closed") == [(session.id,)]
        assert world.hub.guests.count() == 0

    play(scene)


def test_one_session_too_many_ends_the_oldest_at_whichever_edge_it_is() -> None:
    async def scene() -> None:
        world = World(Few())
        one, two = world.edge("e1"), world.edge("e2")
        first, channel = await one.open()
        second, _ = await two.open()
        await world.rest()
        assert one.take(channel, "END") == ["END,35,Another session has been opened for this user"]
        assert (first.closed, second.closed) == (True, False)
        assert world.judge.of("session closed") == [(first.id,)]
        third, _ = await one.open()
        await world.rest()
        assert (second.closed, third.closed) == (True, False)

    play(scene)


def test_a_session_has_the_time_to_live_that_the_adapter_gives_it() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open("mayfly")
        edge.harness.advance(59)
        assert not session.closed
        edge.harness.advance(2)
        assert edge.take(channel, "END") == ["END,48,The maximum session duration has been reached"]
        await world.rest()
        assert world.judge.of("session closed") == [(session.id,)]

    play(scene)


def test_a_guest_is_found_and_ended_by_the_handle_of_its_adapter() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open()
        assert world.handle.end_session(session.id, "enough", -8)
        assert not world.handle.end_session(session.id)
        assert world.judge.of("session closed") == []
        await world.rest()
        assert edge.take(channel, "END") == ["END,-8,enough"]
        assert world.judge.of("session closed") == [(session.id,)]
        assert not world.handle.end_session(session.id)

    play(scene)


def test_a_guest_may_be_given_another_time_to_live_later() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        world.hub.guests.edges["e1"].guests[session.id].end_after(5.0)
        await world.rest()
        edge.harness.advance(6)
        assert session.closed

    play(scene)


def test_a_set_that_is_retired_ends_its_guests() -> None:
    async def scene() -> None:
        world = World()
        session, _ = await world.edge("e1").open()
        for guest in world.hub_harness.kernel.attended_sessions("TEST"):
            guest.close(Cause.CLOSED_BY_SERVER, "reload")
        assert world.hub_harness.kernel.attended_sessions("OTHER") == []
        await world.rest()
        assert session.closed

    play(scene)


# -- edges that are lost ----------------------------------------------------------------------------------------------


def test_guests_outlive_a_short_loss_of_their_edge() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        edge.link.cut()
        await world.pass_time(GRACE - 1)
        edge.link.connect(world.hub)
        await world.pass_time(GRACE + 1)
        assert not session.closed
        assert world.judge.of("session closed") == []
        assert world.judge.of("new session") == [(session.id, "the ann", ["reader", "writer"])]

    play(scene)


@pytest.mark.parametrize("seconds", [GRACE + 1, FORSAKEN + 1])
def test_sessions_of_an_edge_that_was_away_for_long_are_over_and_told_once(seconds: float) -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open()
        edge.link.cut()
        hub, world.edges = world.hub, []
        await world.pass_time(seconds)
        assert world.judge.of("session closed") == [(session.id,)]
        edge.link.connect(hub)
        await world.rest()
        assert edge.take(channel, "END") == ["END,48,The server has lost track of the session"]
        await world.rest()
        assert world.judge.of("session closed") == [(session.id,)]
        other, _ = await edge.open()
        assert not other.closed

    play(scene)


def test_a_new_process_of_an_edge_has_none_of_the_sessions_of_the_old_one() -> None:
    async def scene() -> None:
        world = World()
        session, _ = await world.edge("e1").open()
        world.edges.clear()
        world.edge("e1", "another run")
        await world.rest()
        assert world.judge.of("session closed") == [(session.id,)]

    play(scene)


def test_what_ends_while_an_edge_is_away_ends_there_when_it_is_back_and_is_told_once() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        ended, channel = await edge.open()
        gone, _ = await edge.open()
        edge.link.cut()
        assert world.handle.end_session(ended.id, "enough")
        gone.close(Cause.DESTROYED_BY_CLIENT, "bye")
        await world.rest()
        assert world.judge.of("session closed") == [(ended.id,)]
        edge.link.connect(world.hub)
        await world.rest()
        assert edge.take(channel, "END") == ["END,32,enough"]
        assert world.judge.of("session closed") == [(ended.id,), (gone.id,)]
        assert world.hub.guests.edges["e1"].ended == set()

    play(scene)


# -- subscriptions ----------------------------------------------------------------------------------------------------


def test_subscriptions_are_told_with_their_facts_and_statistics() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        await edge.subscribe(session, 1, PlainWish("HAND", "gold+silver", "x", "MERGE"))
        session.unsubscribe(1)
        await edge.subscribe(session, 1)
        session.close(Cause.DESTROYED_BY_CLIENT, "bye")
        await world.rest()
        assert [one for one in world.judge.heard if "subscribed" in str(one[0])] == [
            ("subscribed", 1, ("gold", "silver")),
            ("unsubscribed", 1, ("gold", "silver"), 2),
            ("subscribed", 1, ("gold",)),
            ("unsubscribed", 1, ("gold",), 1),
        ]
        assert world.judge.heard[-1] == ("session closed", session.id)

    play(scene)


def test_a_subscription_that_the_kernel_refuses_is_told_as_ended() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        with pytest.raises(Refusal):
            await edge.subscribe(session, 1, PlainWish("HAND", "gold", "x", "COMMAND"))
        await world.rest()
        assert world.judge.of("unsubscribed") == [(1, ("gold",), 0)]
        assert world.hub.guests.edges["e1"].guests[session.id].subscriptions == ()

    play(scene)


def test_a_subscription_whose_client_has_gone_meanwhile_is_told_as_ended() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        world.judge.release.clear()
        asked = asyncio.create_task(edge.subscribe(session, 1))
        await world.rest()
        asked.cancel()
        await world.rest()
        world.judge.release.set()
        await world.rest()
        assert world.judge.of("subscribed") == [(1, ("gold",))]
        assert world.judge.of("unsubscribed") == [(1, ("gold",), 0)]

    play(scene)


@pytest.mark.parametrize("mode", ["RAW", "MERGE", "DISTINCT", "COMMAND"])
def test_functions_of_the_adapter_become_derived_items_in_every_mode(mode: str) -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        grant = await edge.authority.resolve(session, 1, PlainWish("HAND", "gold+private", "x", mode))
        plain, derived = [item.name for item in grant.items]
        assert (plain, is_derived(derived), real_name(derived)) == ("gold", True, "private")
        found = world.hub.derived.find(derived)
        assert found is not None
        assert (found.item, found.mode, found.selector) == ("private", Mode(mode), None)
        assert found.customizer is not None
        event = {"x": "4", "key": "k", "command": "ADD"}
        assert found.customizer(event) == {**event, "x": "8"}
        edge.authority.subscription_refused(session, 1, grant)
        await world.rest()
        assert world.hub.derived.find(derived) is None

    play(scene)


def test_subscriptions_with_the_same_selector_share_a_derived_item() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        wish = PlainWish("HAND", "gold", "x", "MERGE", selector="odd")
        names = [(await edge.authority.resolve(session, number, wish)).items[0].name for number in (1, 2)]
        assert names[0] == names[1]
        found = world.hub.derived.find(names[0])
        assert found is not None
        assert found.selector is not None
        assert (found.selector({"x": "3"}), found.selector({"x": "4"})) == (True, False)
        session.close(Cause.DESTROYED_BY_CLIENT, "bye")
        await world.rest()
        assert world.hub.derived.find(names[0]) is None

    play(scene)


def test_nobody_can_ask_for_a_derived_item_by_its_name() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        grant = await edge.authority.resolve(session, 1, PlainWish("HAND", "private", "x", "MERGE"))
        with pytest.raises(Refusal, match="a character that is not allowed there") as raised:
            await edge.authority.resolve(session, 2, PlainWish("HAND", grant.items[0].name, "x", "MERGE"))
        assert raised.value.reason is Reason.GROUP
        await world.rest()
        assert world.judge.of("unsubscribed") == [(2, (grant.items[0].name,), 0)]

    play(scene)


def test_limits_are_asked_for_again_by_the_real_names_of_items() -> None:
    class Limiter(Judge):
        def max_bandwidth(self, user: str | None) -> float | None:
            return 12.0

        def max_frequency(self, session: SessionFacts, data_adapter: str, item: str) -> float | None:
            return {"gold": 2.0, "private": 3.0}[item]

    async def scene() -> None:
        world = World(Limiter())
        edge = world.edge("e1")
        session, _ = await edge.open()
        grant = await edge.authority.resolve(session, 1, PlainWish("HAND", "gold+private", "x", "MERGE"))
        names = [item.name for item in grant.items]
        assert edge.authority.frequencies_at_once(session, "HAND", names) is None
        assert list(await edge.authority.frequencies(session, "HAND", names)) == [2.0, 3.0]
        assert edge.authority.bandwidth_at_once(session) is None
        assert list(await edge.authority.bandwidth(session)) == [12.0]

    play(scene)


# -- messages ---------------------------------------------------------------------------------------------------------


def test_messages_have_their_outcomes_in_order_although_the_way_is_lost_in_between() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open()
        world.judge.release.clear()
        for number, text in enumerate(("a", "rude", "c"), 1):
            session.messages.submit(Message(text, "S", number, True), None)
        await world.rest()
        edge.link.cut()
        world.judge.release.set()
        await world.rest()
        edge.link.connect(world.hub)
        await world.rest()
        assert edge.take(channel, "MSG") == ["MSGDONE,S,1,A", "MSGFAIL,S,2,-3,mind your words", "MSGDONE,S,3,C"]
        assert world.judge.of("message") == [("a",), ("rude",), ("c",)]

    play(scene)


def test_without_a_hub_a_message_fails_and_says_that_it_was_not_done() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open()
        edge.link.cut()
        session.messages.submit(Message("a", None, 1, True), None)
        await world.pass_time(PATIENCE + 1)
        assert edge.take(channel, "MSG") == ["MSGFAIL,*,1,35,There is no hub; this was not done"]

    play(scene)


# -- hubs that are lost -----------------------------------------------------------------------------------------------


def test_what_a_hub_knows_of_clients_is_what_their_edges_know() -> None:
    others = [
        replace(CLIENT, address="192.0.2.8", port=4712, request_id="R2"),
        replace(CLIENT, secure=False, principal=None, listener="other", library=None, library_version=None),
        replace(CLIENT, headers={}),
    ]

    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        opened = {(await edge.open(client=client))[0].id: client for client in (CLIENT, *others)}
        guests = world.hub.guests.edges["e1"].guests
        assert {id: guest.client for id, guest in guests.items()} == opened

    play(scene)


def test_another_hub_adopts_sessions_without_telling_its_adapter_and_knows_all_of_them() -> None:
    async def scene() -> None:
        desk = HandDesk()
        world = World(desk=desk)
        edge = world.edge("e1")
        session, channel = await edge.open()
        await edge.subscribe(session, 1)
        await edge.subscribe(session, 2, PlainWish("HAND", "silver", "x", "RAW"))
        await edge.desk.carry_out(session, RegisterDevice(session.id, "1", "Apple", "app", "token", None), _unheard)
        world.replace_hub(Judge())
        await world.rest()
        assert world.judge.heard == []
        assert desk.adopted == [(session.id, "device")]
        guest = world.hub.guests.edges["e1"].guests[session.id]
        assert (guest.user, guest.admission, guest.client) == ("the ann", session.admission, CLIENT)
        assert world.handle.set_frequency(session.id, 1, 2.0)
        with pytest.raises(ValueError, match="unfiltered"):
            world.handle.set_frequency(session.id, 2, 2.0)
        assert not world.handle.unsubscribe(session.id, 3)
        assert world.handle.unsubscribe(session.id, 1)
        await world.rest()
        assert edge.take(channel, "UNSUB") == ["UNSUB,1"]
        assert world.judge.heard == [("unsubscribed", 1, ("gold",), 1)]
        session.close(Cause.DESTROYED_BY_CLIENT, "bye")
        await world.rest()
        assert world.judge.heard[1:] == [("unsubscribed", 2, ("silver",), 1), ("session closed", session.id)]

    play(scene)


class Attentive(Judge):
    """Wants to know of what goes on, and lets silver go on no more."""

    async def resumed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        await self.release.wait()
        self.heard.append(("resumed", session.id, subscription.number, subscription.items))
        if "silver" in subscription.items:
            raise Refusal(Reason.GROUP, "no more silver")


def test_an_adapter_that_wants_to_know_is_told_of_subscriptions_before_the_edge_may_have_their_items() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open()
        await edge.subscribe(session, 1)
        await edge.subscribe(session, 2, PlainWish("HAND", "silver", "x", "MERGE"))
        settled: list[str] = []
        judge = Attentive()
        judge.release.clear()
        world.replace_hub(judge)
        world.hub.guests.settled = settled.append
        await world.rest()
        assert not world.hub.guests.serves("e1", "TEST")
        assert world.hub.guests.serves("e1", "another set")
        judge.release.set()
        await world.rest()
        assert judge.heard[:2] == [
            ("resumed", session.id, number, (item,)) for number, item in ((1, "gold"), (2, "silver"))
        ]
        assert settled == ["e1"]
        assert world.hub.guests.serves("e1", "TEST")
        assert edge.take(channel, "UNSUB") == ["UNSUB,2"]
        assert judge.of("unsubscribed") == [(2, ("silver",), 1)]

    play(scene)


def test_sessions_are_adopted_in_many_pieces() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        sessions = [(await edge.open())[0] for _ in range(450)]
        world.replace_hub(Judge())
        await world.rest()
        assert set(world.hub.guests.edges["e1"].guests) == {session.id for session in sessions}

    play(scene)


def test_what_was_under_way_when_the_hub_was_lost_is_asked_again_or_its_end_is_unknown() -> None:
    async def scene() -> None:
        desk = HandDesk()
        world = World(desk=desk)
        edge = world.edge("e1")
        session, channel = await edge.open()
        world.judge.release.clear()
        desk.release.clear()
        session.messages.submit(Message("a", None, 1, True), None)
        subscribing = asyncio.create_task(edge.subscribe(session, 1))
        opening = asyncio.create_task(edge.open("bob"))
        pushing = asyncio.create_task(edge.desk.carry_out(session, ResetBadge(session.id, "1", "device"), _unheard))
        await world.rest()
        world.replace_hub(Judge())
        await world.rest()
        await subscribing
        other, _ = await opening
        with pytest.raises(PushRefusal, match="whether this was done is unknown") as refused:
            await pushing
        assert refused.value.reason is PushReason.UNAVAILABLE
        assert len(desk.heard) == 1
        assert edge.take(channel, "MSG") == ["MSGFAIL,*,1,35,The hub was lost; whether this was done is unknown"]
        # Of the one that was adopted only the subscription.
        assert world.judge.of("new session") == [(other.id, "the bob", ["reader", "writer"])]
        assert world.judge.of("subscribed") == [(1, ("gold",))]
        assert world.judge.of("message") == []

    play(scene)


def test_a_call_about_a_session_waits_until_the_hub_has_adopted_it() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open()
        world.replace_hub(Judge())
        # Before the hub has heard of the session.
        session.messages.submit(Message("a", None, 1, True), None)
        await edge.subscribe(session, 1)
        await world.rest()
        assert edge.take(channel, "MSG") == ["MSGDONE,*,1,A"]

    play(scene)


def test_a_session_that_ends_while_the_hub_is_changing_is_no_guest_of_the_new_one() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        sessions = [(await edge.open())[0] for _ in range(10)]
        world.replace_hub(Judge())
        for session in sessions:
            session.close(Cause.DESTROYED_BY_CLIENT, "bye")
            await asyncio.sleep(0)
        await world.rest()
        assert world.hub.guests.count() == 0
        told = world.judge.of("session closed")
        assert len(told) == len(set(told))

    play(scene)


def test_derived_items_keep_their_names_with_another_hub() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        await edge.subscribe(session, 1, PlainWish("HAND", "gold+private", "x", "MERGE"))
        name = session.subscriptions[1].request.grant.items[1].name
        world.replace_hub(Judge())
        await world.rest()
        found = world.hub.derived.find(name)
        assert found is not None
        assert (found.item, found.customizer is not None) == ("private", True)
        session.unsubscribe(1)
        await world.rest()
        assert world.hub.derived.find(name) is None

    play(scene)


def test_a_derived_item_that_is_not_granted_any_more_ends_its_subscription() -> None:
    class Changed(Judge):
        def customizer(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> Customizer | None:
            return None

    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open()
        await edge.subscribe(session, 1, PlainWish("HAND", "private", "x", "MERGE"))
        world.replace_hub(Changed())
        await world.rest()
        assert edge.take(channel, "UNSUB") == ["UNSUB,1"]
        assert not session.closed

    play(scene)


def test_a_session_of_a_set_that_another_hub_does_not_have_is_over() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, channel = await edge.open()
        edge.link.cut()
        world.edges.clear()
        hub = Hub(2, lambda name: None, None, world.clock)
        edge.link.connect(hub)
        await world.rest()
        assert session.closed
        assert edge.take(channel, "END") == ["END,48,The server has lost track of the session"]
        assert hub.guests.count() == 0

    play(scene)


def test_adoption_that_got_lost_is_tried_again() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        world.replace_hub(Judge())
        edge.link.cut()
        await world.pass_time(PATIENCE * 2)
        edge.link.connect(world.hub)
        await world.rest()
        assert list(world.hub.guests.edges["e1"].guests) == [session.id]

    play(scene)


# -- push notifications -----------------------------------------------------------------------------------------------


def test_requests_about_push_notifications_reach_the_desk_as_they_are() -> None:
    async def scene() -> None:
        desk = HandDesk()
        world = World(desk=desk)
        edge = world.edge("e1")
        session, _ = await edge.open()
        register = RegisterDevice(session.id, "", "Apple", "app", "token", "new token")
        activate = ActivatePush(
            session.id, "", "device", None, 3, "HAND", "gold", "x", "MERGE", 5, 2.0, "{}", "true", True
        )
        reconfigure = ReconfigurePush(
            session.id, "", "device", "sub", "HAND", "gold", "x", "MERGE", True, None, "{}", None
        )
        deactivate = DeactivatePush(session.id, "", "device", None, "ACTIVE")
        reset = ResetBadge(session.id, "", "device")
        requests: list[PushControl] = [register, activate, reconfigure, deactivate, reset]
        told: list[Sequence[str]] = []
        for request in requests:
            await edge.desk.carry_out(session, request, told.append)
        assert desk.heard == requests
        assert told == [["device", "PUSH"], ["subscription"], [], ["one", "two"], []]

    play(scene)


def test_a_refusal_of_the_desk_keeps_its_reason() -> None:
    async def scene() -> None:
        edge = World(desk=HandDesk()).edge("e1")
        session, _ = await edge.open()
        bad = ActivatePush(session.id, "1", "d", None, 3, "HAND", "gold", "x", "MERGE", None, None, "{}", "bad", False)
        with pytest.raises(PushRefusal, match="not this trigger") as raised:
            await edge.desk.carry_out(session, bad, _unheard)
        assert raised.value.reason is PushReason.TRIGGER

    play(scene)


def test_a_hub_without_push_notifications_says_so() -> None:
    async def scene() -> None:
        edge = World().edge("e1")
        session, _ = await edge.open()
        with pytest.raises(PushRefusal, match="the MPN module is disabled") as raised:
            await edge.desk.carry_out(session, ResetBadge(session.id, "1", "device"), _unheard)
        assert raised.value.reason is PushReason.DISABLED

    play(scene)


# -- other calls ------------------------------------------------------------------------------------------------------


def test_other_rooms_may_add_calls_both_ways() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")

        async def count(name: str, body: Any) -> bytes:
            return encode_body([name, decode_body(int, body) + 1])

        async def figures(body: Any) -> bytes:
            return encode_body({"sessions": 3})

        world.hub.guests.methods["count"] = count
        edge.link.calls.methods["figures"] = figures
        assert decode_body(list[object], await edge.link.calls.ask("count", 4)) == ["e1", 5]
        assert decode_body(dict[str, int], await world.hub.guests.ask("e1", "figures", None)) == {"sessions": 3}

    play(scene)


def test_calls_that_make_no_sense_are_refused_with_what_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")

        async def breaks(body: Any) -> bytes:
            raise ValueError("on purpose")

        edge.link.calls.methods["breaks"] = breaks
        with pytest.raises(Refusal, match="There is no call nonsense here"):
            await edge.link.calls.ask("nonsense", None)
        with pytest.raises(Refusal, match="There is no call nonsense here"):
            await world.hub.guests.ask("e1", "nonsense", None)
        with pytest.raises(Refusal, match="The hub cannot read this call: WelcomeBody"):
            await edge.link.calls.ask("welcome", 5)
        with pytest.raises(Refusal, match="The edge cannot read this call: EndBody"):
            await world.hub.guests.ask("e1", "end_session", 5)
        with pytest.raises(Refusal, match="There is no edge e9"):
            await world.hub.guests.ask("e9", "figures", None)
        with pytest.raises(Refusal, match="Internal error"):
            await world.hub.guests.ask("e1", "breaks", None)
        assert "on purpose" in caplog.text

    play(scene)


def test_an_edge_that_stops_waits_for_its_last_answers() -> None:
    async def scene() -> None:
        world = World()
        edge = world.edge("e1")
        session, _ = await edge.open()
        session.close(Cause.MAX_DURATION, "The server is shutting down")
        await edge.link.calls.settle(5)
        await edge.link.calls.close()
        await world.hub.guests.close()
        assert world.hub.guests.count() == 0
        with pytest.raises(Refusal):
            await asyncio.wait_for(edge.open(), 0.1)

    play(scene)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9))))
def test_the_subscriptions_of_a_guest_are_those_of_a_dictionary(steps: list[tuple[bool, int]]) -> None:
    guest = Guest.__new__(Guest)
    guest.subscriptions = ()
    known: dict[int, GuestSubscription] = {}
    for keeps, number in steps:
        if keeps:
            known[number] = GuestSubscription(number, True, None)
            guest.keep(known[number])
        else:
            assert guest.drop(number) == known.pop(number, None)
        assert [guest.find(each) for each in range(11)] == [known.get(each) for each in range(11)]
    assert list(guest.subscriptions) == [known[number] for number in sorted(known)]
