"""Sessions whose clients are at edges, at the hub: guests, as authorities see them, and what edges ask about them.

An authority, a server handle or the desk of push notifications treats a guest like a session of its own kernel. What an
edge asks is begun in the order it asks it. How calls get through is in `calling`, what they carry in
`penstock.wire.fabric.calls`; the other side is `edge_calls`. When to be told of edges is the shell's matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias

from msgspec import Raw

from penstock.cluster.calling import Answered, Question
from penstock.cluster.conversions import (
    admission_body,
    client_facts,
    facts_of,
    grant_body,
    statistics_of,
)
from penstock.cluster.derived import DerivedItems, is_derived, real_name
from penstock.cluster.guest import Edge, Guest, GuestSubscription, Host
from penstock.cluster.refusals import accepted
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.identity import public
from penstock.kernel.item import Mode
from penstock.kernel.messages import Message
from penstock.kernel.ports import (
    AttendedSession,
    Clock,
    Grant,
    Wish,
)
from penstock.log import get, incident
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.fabric.calls import (
    AdoptBody,
    AdoptedSession,
    AuthenticateBody,
    ClosedBody,
    FrequenciesBody,
    KnownSubscription,
    MessageBody,
    OutcomeBody,
    PresentBody,
    PushBody,
    ResolveBody,
    SessionBody,
    WelcomeBody,
    decode_body,
    encode_body,
    push_request,
)
from penstock.wire.fabric.messages import Call, CallDone, CallNoted, CallRefused, FabricError
from penstock.wire.tlcp.push import PushControl

log = get(__name__)

# Seconds that guests outlive the way to their edge.
GRACE = 5.0

# Seconds that a call about a session which the hub does not know waits for the edge to have it adopted.
ADOPTION = 15.0

# Seconds that an edge has to answer, unless told otherwise.
EDGE_PATIENCE = 15.0

# Seconds after which nothing is kept of a lost edge but that its sessions are over.
FORSAKEN = 600.0

# Lost edges of which even that is known; the oldest go first.
MAX_FORSAKEN = 1_000

NOTHING = encode_body(None)


class GuestDesk(Protocol):
    """Does what guests ask for about push notifications; see `penstock.doors.tlcp.push.PushDesk`."""

    def adopt(self, session: AttendedSession, device: str) -> None: ...
    async def carry_out(
        self, session: AttendedSession, request: PushControl, answer: Callable[[Sequence[str]], None]
    ) -> None: ...


Method: TypeAlias = Callable[[str, Raw], Awaitable[bytes]]


class Guests:
    """All guests of a hub: `kernel.ports.Sessions`. Lives on the event loop."""

    def __init__(
        self,
        epoch: int,
        authority_of: Callable[[str], Host | None],
        desk: GuestDesk | None,
        derived: DerivedItems,
        send: Callable[[str, bytes], None],
        clock: Clock,
    ) -> None:
        """`send` takes the name of an edge and a payload."""
        self.epoch = epoch
        self.clock = clock
        # By their names; those that are lost as well.
        self.edges: dict[str, Edge] = {}
        # More that edges may ask for: takes the name of the edge and the body.
        self.methods: dict[str, Method] = {}
        # Is told of an edge when the hub knows all that it has.
        self.settled: Callable[[str], None] = _ignore
        self._authority_of = authority_of
        self._desk = desk
        self._derived = derived
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, Callable[[Edge, Question], Awaitable[bytes]]] = {
            "authenticate": self._authenticate,
            "welcome": self._welcome,
            "session_closed": self._session_closed,
            "resolve": self._resolve,
            "subscription_closed": self._subscription_closed,
            "bandwidth": self._bandwidth,
            "frequencies": self._frequencies,
            "message": self._message,
            "push": self._push,
            "present": self._present,
            "adopt": self._adopt,
        }

    # -- edges ----------------------------------------------------------------------------------------------------

    def came(self, edge: str, run: str) -> None:
        """An edge has said Hello."""
        found = self.edges.get(edge)
        if found is None or found.run != run:
            if found is not None:
                # Its process is another one: the sessions of the old one are gone.
                found.caller.end("The edge has been replaced")
                found.end_all()
            found = self.edges[edge] = Edge(edge, run, self, partial(self._send, edge))
        found.lost_at = None
        found.settled.clear()
        found.caller.begin(self.clock(), self.epoch)

    def lost(self, edge: str) -> None:
        """There is no way to the edge, or it is silent."""
        found = self.edges.get(edge)
        if found is not None and found.lost_at is None:
            found.lost_at = self.clock()
            found.caller.stop()

    def received(self, edge: str, message: Call | CallDone | CallRefused | CallNoted) -> None:
        found = self.edges.get(edge)
        if found is None:
            return
        if isinstance(message, Call):
            found.callee.received(message)
        else:
            found.caller.heard(self.clock(), message)

    def tick(self) -> None:
        """Called about twice a second."""
        now = self.clock()
        for edge in self.edges.values():
            edge.tick(now)
            if edge.lost_at is not None and now - edge.lost_at >= GRACE and edge.guests:
                log.warning("an edge is lost: its sessions have ended", edge=edge.name, sessions=len(edge.guests))
                edge.end_all()
            if edge.lost_at is not None and now - edge.lost_at >= FORSAKEN and not edge.forsaken:
                edge.forsake()
        forsaken = [edge.name for edge in self.edges.values() if edge.forsaken and edge.lost_at is not None]
        for name in forsaken[: max(0, len(forsaken) - MAX_FORSAKEN)]:
            del self.edges[name]

    async def ask(self, edge: str, method: str, body: object, patience: float = EDGE_PATIENCE) -> Raw:
        """Ask an edge; raises a Refusal, also if there is no such edge or no answer."""
        found = self.edges.get(edge)
        if found is None or found.lost_at is not None:
            raise Refusal(Reason.AUTHORITY_UNAVAILABLE, f"There is no edge {edge[:60]}")
        waiting: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        done = partial(_pass_on, waiting)
        found.caller.ask(self.clock(), method, encode_body(body), done, repeatable=False, patience=patience)
        return accepted(await waiting)

    def tell(self, edge: str, method: str, body: object, known: Callable[[str], None] | None = None) -> None:
        """Have an edge do something; what it is told by one method, it does in order and once.

        `known` is called with the method when the edge has heard it.
        """
        found = self.edges.get(edge)
        if found is not None:
            found.tell(method, body, method, known)

    async def close(self) -> None:
        """Nothing is asked or answered any more."""
        for edge in self.edges.values():
            edge.caller.end("The hub is stopping")
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def serves(self, edge: str, adapter_set: str) -> bool:
        """Whether an edge may have items of a set already.

        An adapter that publishes what subscriptions ask for has to know those of the edge first: it would publish less
        than clients have.
        """
        found, host = self.edges.get(edge), self._authority_of(adapter_set)
        return found is None or found.settled.is_set() or host is None or not host.resumes

    def _settle(self, edge: Edge) -> None:
        edge.settle()
        self.settled(edge.name)

    # -- guests ---------------------------------------------------------------------------------------------------

    def count(self) -> int:
        return sum([len(edge.guests) for edge in self.edges.values()])

    def find_session(self, session_id: str) -> Guest | None:
        # Few edges, many guests: another dictionary of all of them would take more than looking into each edge's.
        for edge in self.edges.values():
            if session_id in edge.guests:
                return edge.guests[session_id]
        return None

    def of_set(self, adapter_set: str) -> list[Guest]:
        return [
            guest for edge in self.edges.values() for guest in edge.guests.values() if guest.adapter_set == adapter_set
        ]

    def forget(self, guest: Guest) -> None:
        """A guest is no more: its authority is told, once."""
        if guest.closed:
            return
        guest.edge.leave(guest)
        self._derived.forget_session(guest.edge.name, guest.id)
        guest.host.session_closed(guest)

    def _enter(self, edge: Edge, number: int, body: WelcomeBody) -> Guest:
        return edge.enter(self._host(body.adapter_set), body, number)

    def _host(self, adapter_set: str) -> Host:
        host = self._authority_of(adapter_set)
        if host is None:
            raise Refusal(Reason.ADAPTER_SET, f"Requested Adapter Set not available: {adapter_set[:60]}")
        return host

    async def _known(self, edge: Edge, session: str) -> Guest | None:
        """The guest, if the edge has it; one that the hub has yet to adopt is waited for."""
        if session not in edge.guests and not edge.settled.is_set() and session not in edge.ended:
            with suppress(TimeoutError):
                async with asyncio.timeout(ADOPTION):
                    await edge.settled.wait()
        return edge.guests.get(session)

    async def _guest(self, edge: Edge, session: str) -> Guest:
        guest = await self._known(edge, session)
        if guest is None:
            raise Refusal(Reason.UNKNOWN_SESSION, "The session has been closed")
        return guest

    # -- what edges ask for ---------------------------------------------------------------------------------------

    def begin(self, edge: Edge, question: Question) -> None:
        """Tasks begin in the order they are made."""
        task = asyncio.get_running_loop().create_task(self._serve(edge, question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, edge: Edge, question: Question) -> None:
        try:
            handler = self._handlers.get(question.method)
            if handler is not None:
                answer = await handler(edge, question)
            elif question.method in self.methods:
                answer = await self.methods[question.method](edge.name, question.body)
            else:
                raise Refusal(Reason.INVALID, f"There is no call {question.method[:60]} here")
        except (Refusal, PushRefusal) as refusal:
            question.refuse(refusal)
        except FabricError as error:
            log.warning("a call cannot be read", edge=edge.name, call=question.method, reason=str(error))
            question.refuse(Refusal(Reason.INVALID, f"The hub cannot read this call: {error}"))
        except Exception:
            number = incident()
            log.exception("unexpected error", number=number, edge=edge.name, call=question.method)
            question.refuse(Refusal(Reason.AUTHORITY_ERROR, f"Internal error {number}"))
        else:
            question.answer(answer)

    # -- sessions -------------------------------------------------------------------------------------------------

    async def _authenticate(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(AuthenticateBody, question.body)
        host = self._host(body.adapter_set)
        admission = await host.authenticate(body.user, body.password, client_facts(body.client))
        return encode_body(admission_body(admission))

    async def _welcome(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(WelcomeBody, question.body)
        guest = self._enter(edge, question.number, body)
        try:
            await guest.host.welcome(guest)
        except BaseException:
            self.forget(guest)
            raise
        if guest.closed:
            raise Refusal(Reason.MAX_SESSIONS, "The session was closed before it was bound")
        return encode_body(edge.coming.pop(guest.id))

    async def _session_closed(self, edge: Edge, question: Question) -> bytes:
        session = decode_body(SessionBody, question.body).session
        guest = await self._known(edge, session)
        edge.ended.discard(session)
        if guest is not None:
            self.forget(guest)
        return NOTHING

    # -- subscriptions --------------------------------------------------------------------------------------------

    async def _resolve(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(ResolveBody, question.body)
        wish = body.wish
        guest = await self._guest(edge, body.session)
        grant = guest.host.resolve_at_once(guest, body.number, wish)
        if grant is None:
            grant = await guest.host.resolve(guest, body.number, wish)
        try:
            if guest.closed:
                raise Refusal(Reason.UNKNOWN_SESSION, "The session has been closed")
            names = self._names(guest, body.number, wish, grant, ())
        except Refusal:
            guest.host.subscription_refused(guest, body.number, grant)
            raise
        limitable = not wish.unfiltered and wish.mode != Mode.RAW.value
        guest.keep(GuestSubscription(body.number, limitable, grant.facts))
        return encode_body(grant_body(grant, names))

    def _names(self, guest: Guest, number: int, wish: Wish, grant: Grant, given: Sequence[str]) -> list[str]:
        """How the edge knows the items; `given` is how it knows them already."""
        if any(is_derived(item.name) for item in grant.items):
            raise Refusal(Reason.GROUP, "The name of an item begins with a character that is not allowed there")
        names = []
        for position, item in enumerate(grant.items):
            is_plain = item.customizer is None and grant.selector is None
            if given and (real_name(given[position]) != item.name or is_derived(given[position]) == is_plain):
                raise Refusal(Reason.GROUP, f"Item {item.name[:60]} is granted otherwise now")
            if is_plain:
                names.append(item.name)
                continue
            names.append(
                self._derived.derive(
                    guest.edge.name,
                    guest.id,
                    number,
                    Mode(wish.mode),
                    guest.adapter_set,
                    wish.data_adapter,
                    item.name,
                    item.customizer,
                    grant.selector,
                    given[position] if given else "",
                )
            )
        return names

    async def _subscription_closed(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(ClosedBody, question.body)
        guest = await self._known(edge, body.session)
        found = None if guest is None else guest.drop(body.number)
        if guest is not None and found is not None:
            self._derived.forget(edge.name, guest.id, body.number)
            grant = Grant((), (), None, found.facts)
            guest.host.subscription_closed(guest, body.number, grant, statistics_of(body.statistics))
        return NOTHING

    async def _bandwidth(self, edge: Edge, question: Question) -> bytes:
        guest = await self._guest(edge, decode_body(SessionBody, question.body).session)
        limits = guest.host.bandwidth_at_once(guest)
        return encode_body(await guest.host.bandwidth(guest) if limits is None else limits)

    async def _frequencies(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(FrequenciesBody, question.body)
        guest = await self._guest(edge, body.session)
        limits = guest.host.frequencies_at_once(guest, body.data_adapter, body.items)
        if limits is None:
            limits = await guest.host.frequencies(guest, body.data_adapter, body.items)
        return encode_body(limits)

    # -- messages and push notifications --------------------------------------------------------------------------

    async def _message(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(MessageBody, question.body)
        guest = await self._guest(edge, body.session)
        outcome: asyncio.Future[OutcomeBody] = asyncio.get_running_loop().create_future()
        settled = partial(_settle, outcome)
        guest.host.deliver(guest, Message(body.text, None, None, False, settled))
        return encode_body(await outcome)

    async def _push(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(PushBody, question.body)
        guest = await self._guest(edge, body.session)
        desk, request = self._desk, push_request(body)
        if desk is None:
            raise PushRefusal(PushReason.DISABLED, "the MPN module is disabled")
        told: list[str] = []
        await desk.carry_out(guest, request, told.extend)
        return encode_body(told)

    # -- sessions that were there before --------------------------------------------------------------------------

    async def _present(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(PresentBody, question.body)
        if body.round < edge.round:
            raise Refusal(Reason.INVALID, "The edge has said since which sessions it has")
        edge.round = body.round
        there = {*body.sessions, *body.coming}
        for guest in list(edge.guests.values()):
            if guest.id not in there and edge.came_before(guest, question.number):
                self.forget(guest)
        # Those that it no longer has need no end.
        edge.ended &= there
        unknown = [session for session in body.sessions if session not in edge.guests]
        if unknown:
            edge.settled.clear()
        else:
            self._settle(edge)
        return encode_body(unknown)

    async def _adopt(self, edge: Edge, question: Question) -> bytes:
        body = decode_body(AdoptBody, question.body)
        if body.round != edge.round:
            # Sessions may have ended since.
            raise Refusal(Reason.INVALID, "The edge has said since which sessions it has")
        refused = [one.session.session for one in body.sessions if not self._take_in(edge, question.number, one)]
        for one in body.sessions:
            await self._resume(edge.guests.get(one.session.session), one.subscriptions)
        if body.is_last and body.round == edge.round:
            self._settle(edge)
        # Only now, because it takes time: what comes next about the sessions need not wait for it.
        for one in body.sessions:
            guest = edge.guests.get(one.session.session)
            for subscription in one.subscriptions if guest is not None else ():
                if guest is not None and subscription.wish is not None:
                    await self._derive_again(guest, subscription, subscription.wish)
        return encode_body(refused)

    def _take_in(self, edge: Edge, number: int, one: AdoptedSession) -> bool:
        session = one.session.session
        if session in edge.guests:
            return True
        if session in edge.ended or edge.forsaken:
            return False
        guest = None
        try:
            guest = self._enter(edge, number, one.session)
            guest.host.adopt(guest)
        except Refusal as refusal:
            log.info("a session is not adopted", session=public(session), reason=refusal.message)
            if guest is not None:
                self.forget(guest)
            return False
        for known in one.subscriptions:
            guest.keep(GuestSubscription(known.number, known.limitable, facts_of(known.facts)))
        edge.coming.pop(guest.id, None)
        if one.device is not None and self._desk is not None:
            self._desk.adopt(guest, one.device)
        return True

    async def _resume(self, guest: Guest | None, subscriptions: Sequence[KnownSubscription]) -> None:
        """Adapters that publish what subscriptions ask for have to know of them before the edge gets their items."""
        if guest is None or not guest.host.resumes:
            return
        for known in subscriptions:
            facts = facts_of(known.facts)
            if facts is None or guest.closed or guest.find(known.number) is None:
                continue
            try:
                await guest.host.resume(guest, facts)
            except Refusal as refusal:
                self._end_subscription(guest, known.number, refusal)

    def _end_subscription(self, guest: Guest, number: int, refusal: Refusal) -> None:
        log.info("a subscription is not granted again", session=public(guest.id), reason=refusal.message)
        found = guest.find(number)
        if found is not None and not found.ending and not guest.closed:
            guest.unsubscribe(number)

    async def _derive_again(self, guest: Guest, subscription: KnownSubscription, wish: Wish) -> None:
        """A derived item needs its functions; what is not granted any more ends."""
        number = subscription.number
        try:
            grant = await guest.host.examine(guest, wish)
            if len(grant.items) != len(subscription.items):
                raise Refusal(Reason.GROUP, "The group has other items now")
            if guest.find(number) is not None:
                self._names(guest, number, wish, grant, subscription.items)
        except Refusal as refusal:
            self._end_subscription(guest, number, refusal)


def _ignore(edge: str) -> None: ...


def _settle(outcome: asyncio.Future[OutcomeBody], code: int | None, text: str) -> None:
    if not outcome.done():
        outcome.set_result(OutcomeBody(code, text))


def _pass_on(waiting: asyncio.Future[Answered], answered: Answered) -> None:
    if not waiting.done():
        waiting.set_result(answered)
