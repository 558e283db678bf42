"""One session whose client is at an edge, as the hub knows it; and one run of an edge, which has such guests.

What edges ask about their guests is answered in `guests`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from penstock.cluster.calling import Answered, FabricCallee, FabricCaller
from penstock.cluster.conversions import admission_of, client_facts
from penstock.kernel.alike import MAX_KEPT
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.identity import public
from penstock.kernel.messages import Message
from penstock.kernel.ports import (
    Admission,
    AttendedSession,
    Authority,
    ClientFacts,
    Grant,
    MessageHandler,
    SubscriptionFacts,
    Wish,
)
from penstock.log import get
from penstock.wire.fabric.calls import (
    BandwidthBody,
    EndAfterBody,
    EndBody,
    FrequencyBody,
    UnsubscribeBody,
    WelcomeBody,
    encode_body,
)
from penstock.wire.fabric.messages import CallRefused

if TYPE_CHECKING:
    from penstock.cluster.guests import Guests

log = get(__name__)

# What an edge is told about its sessions is repeated as long as the edge may come back.
FOR_EVER = float("inf")

_NUMBER = attrgetter("number")


class Host(Authority, MessageHandler, Protocol):
    """Who decides for an adapter set."""

    def adopt(self, session: AttendedSession) -> None:
        """A session that was opened before this hub was there; nobody else is told. Raises a Refusal."""

    @property
    def resumes(self) -> bool:
        """Whether it is to be told of subscriptions that began before this hub was there."""

    async def resume(self, session: AttendedSession, subscription: SubscriptionFacts) -> None:
        """Such a subscription of a session that was adopted. Raises a Refusal."""

    async def examine(self, session: AttendedSession, wish: Wish) -> Grant:
        """What the session would be granted."""


class _Settling:
    """Passes the outcomes of messages on to whoever has delivered them."""

    def done(self, message: Message, response: str) -> None:
        assert message.settled is not None
        message.settled(None, response)

    def failed(self, message: Message, code: int, text: str) -> None:
        assert message.settled is not None
        message.settled(code, text)


_SETTLING = _Settling()


@dataclass(frozen=True, slots=True)
class GuestSubscription:
    """What the hub knows of a subscription of a guest."""

    number: int
    # Whether its frequency may be limited.
    limitable: bool
    # What the authority is told at its end.
    facts: SubscriptionFacts | None
    # The edge has been told to end it.
    ending: bool = False


# In the order of their numbers.
GuestSubscriptions = Sequence[GuestSubscription]

# As many subscriptions of a guest are in a tuple, which all guests with the same ones share: there are many guests, and
# most have one or two. More are in a list of the guest's own, because each change copies a tuple.
MAX_SHARED = 4


def shared_subscriptions(subscriptions: list[GuestSubscription]) -> GuestSubscriptions:
    if len(subscriptions) > MAX_SHARED:
        return subscriptions
    found = tuple(subscriptions)
    return found if any(each.facts is not None for each in found) else _alike(found)


@lru_cache(MAX_KEPT)
def _alike(subscriptions: tuple[GuestSubscription, ...]) -> tuple[GuestSubscription, ...]:
    return subscriptions


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class GuestKind:
    """What very many guests of an edge have alike: one object for all of them."""

    edge: Edge
    # The authority that they were welcomed by: a reload of its set brings another.
    host: Host
    adapter_set: str
    admission: Admission
    secure: bool
    principal: str | None
    listener: str
    library: str | None
    library_version: str | None


class Guest:
    """A session of an edge. What is done to it here is done there a moment later."""

    # There are as many as all edges have clients. What is not kept is made from the rest.
    __slots__ = ("_address", "_headers", "_kind", "_port", "_request_id", "id", "subscriptions", "user")

    def __init__(self, kind: GuestKind, id: str, user: str | None, client: ClientFacts) -> None:
        self._kind = kind
        self.id = id
        self.user = user
        self.subscriptions: GuestSubscriptions = ()
        self._address = client.address
        self._headers = client.headers
        self._port = client.port
        self._request_id = client.request_id

    @property
    def edge(self) -> Edge:
        return self._kind.edge

    @property
    def host(self) -> Host:
        return self._kind.host

    @property
    def adapter_set(self) -> str:
        return self._kind.adapter_set

    @property
    def admission(self) -> Admission:
        return self._kind.admission

    @property
    def client(self) -> ClientFacts:
        kind = self._kind
        return ClientFacts(
            self._address,
            kind.secure,
            self._headers,
            self._port,
            kind.principal,
            self._request_id,
            kind.listener,
            kind.library,
            kind.library_version,
        )

    @property
    def closed(self) -> bool:
        return self._kind.edge.guests.get(self.id) is not self

    @property
    def messages(self) -> _Settling:
        return _SETTLING

    def close(self, code: int | None, message: str) -> None:
        """End the session; the authority hears of it now, its client as soon as the edge does."""
        if self.closed:
            return
        self.edge.end(self)
        cause = int(Cause.CLOSED_BY_SERVER) if code is None else code
        self.edge.tell("end_session", EndBody(self.id, cause, message), self.id, self.edge.ended.discard)

    def end_after(self, seconds: float) -> None:
        if self.id in self.edge.coming:
            # Told with the answer: the time counts from then on.
            self.edge.coming[self.id] = seconds
        else:
            self.edge.tell("end_after", EndAfterBody(self.id, seconds), self.id)

    def allow_bandwidth(self, limit: float | None) -> None:
        self.edge.tell("set_bandwidth", BandwidthBody(self.id, limit), self.id)

    def unsubscribe(self, number: int) -> None:
        self.keep(replace(self._subscription(number), ending=True))
        self.edge.tell("unsubscribe", UnsubscribeBody(self.id, number), self.id)

    def allow_frequency(self, number: int, limit: float | None) -> None:
        if not self._subscription(number).limitable:
            raise Refusal(Reason.UNFILTERED, f"Subscription {number} is unfiltered; its frequency cannot be limited")
        self.edge.tell("set_frequency", FrequencyBody(self.id, number, limit), self.id)

    def _subscription(self, number: int) -> GuestSubscription:
        found = self.find(number)
        if found is None or found.ending:
            raise Refusal(Reason.UNKNOWN_SUBSCRIPTION, f"Subscription {number} not found")
        return found

    def find(self, number: int) -> GuestSubscription | None:
        place = self._place(number)
        known = self.subscriptions
        return known[place] if place < len(known) and known[place].number == number else None

    def keep(self, subscription: GuestSubscription) -> None:
        """In place of one with the same number."""
        place = self._place(subscription.number)
        known = self._changeable()
        if place < len(known) and known[place].number == subscription.number:
            known[place] = subscription
        else:
            known.insert(place, subscription)
        self.subscriptions = shared_subscriptions(known)

    def drop(self, number: int) -> GuestSubscription | None:
        found = self.find(number)
        if found is not None:
            known = self._changeable()
            del known[self._place(number)]
            self.subscriptions = shared_subscriptions(known)
        return found

    def _changeable(self) -> list[GuestSubscription]:
        known = self.subscriptions
        return known if isinstance(known, list) else list(known)

    def _place(self, number: int) -> int:
        return bisect_left(self.subscriptions, number, key=_NUMBER)


class Edge:
    """One run of an edge, as the hub knows it. It stays when the edge is lost, because it may come back."""

    def __init__(self, name: str, run: str, owner: Guests, send: Callable[[bytes], None]) -> None:
        self.name = name
        self.run = run
        self.guests: dict[str, Guest] = {}
        # Kept as long as there are guests of that kind.
        self._kinds: WeakValueDictionary[tuple[object, ...], GuestKind] = WeakValueDictionary()
        # What is kept of guests for a short time only is not in them, because there are many. The numbers of the calls
        # that they came with, as long as an earlier call may still come.
        self.arrivals: dict[str, int] = {}
        # Those that the edge has not been told yet that they may begin, and the seconds that they then have.
        self.coming: dict[str, float | None] = {}
        # Sessions that have been closed here and that the edge may still have.
        self.ended: set[str] = set()
        # It has been away for so long that all its sessions have been closed, whichever it had.
        self.forsaken = False
        # Since when there is no way to it; None if there is one.
        self.lost_at: float | None = None
        # Set when the hub knows all sessions that the edge has had before it came.
        self.settled = asyncio.Event()
        # The latest time that it has said which it has.
        self.round = 0
        self.caller = FabricCaller(str(owner.epoch), send)
        self.callee = FabricCallee(send, partial(owner.begin, self))
        self.callee.begin(run, owner.epoch)
        self._owner = owner

    def tell(self, method: str, body: object, session: str, known: Callable[[str], None] | None = None) -> None:
        """Have something done to a session of the edge; `known` is called with its name when the edge has heard it."""
        done = partial(_told, method, session, known)
        now = self._owner.clock()
        self.caller.ask(now, method, encode_body(body), done, about=session, patience=FOR_EVER)

    def end(self, guest: Guest) -> None:
        """A guest is no more, and the edge may not know it yet."""
        self.ended.add(guest.id)
        self._owner.forget(guest)

    def end_all(self) -> None:
        for guest in list(self.guests.values()):
            self.end(guest)

    def enter(self, host: Host, body: WelcomeBody, number: int) -> Guest:
        """A new guest, with the call of this number."""
        client, admission = client_facts(body.client), admission_of(body.admission)
        own = client.secure, client.principal, client.listener, client.library, client.library_version
        key = (host, body.adapter_set, admission, *own)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = GuestKind(self, host, body.adapter_set, admission, *own)
        guest = self.guests[body.session] = Guest(kind, body.session, body.user, client)
        self.arrivals[guest.id] = number
        self.coming[guest.id] = None
        return guest

    def leave(self, guest: Guest) -> None:
        """It is closed from now on."""
        del self.guests[guest.id]
        for known in (self.arrivals, self.coming):
            known.pop(guest.id, None)

    def came_before(self, guest: Guest, number: int) -> bool:
        """Whether it came with an earlier call."""
        return self.arrivals.get(guest.id, 0) < number

    def tick(self, now: float) -> None:
        self.caller.tick(now)
        if self.arrivals:
            floor = self.callee.floor
            self.arrivals = {id: number for id, number in self.arrivals.items() if number >= floor}

    def forsake(self) -> None:
        self.forsaken = True
        self.ended.clear()
        self.caller.end("The edge has been away for too long")

    def settle(self) -> None:
        """The hub knows all that the edge has."""
        self.forsaken = False
        self.settled.set()


def _told(method: str, session: str, known: Callable[[str], None] | None, answered: Answered) -> None:
    if isinstance(answered, CallRefused) and answered.reason != Reason.UNKNOWN_SESSION.name:
        log.info("an edge refused a call", call=method, session=public(session), reason=answered.text)
    if known is not None and not isinstance(answered, Exception):
        known(session)
