"""What the doors of both text protocols have in common: admitting clients, opening and binding sessions, subscribing.

Refusals here are the kernel's; each door has its own codes and forms for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from penstock.config import Config
from penstock.doors.backlog import Backlog
from penstock.doors.elsewhere import SessionElsewhere, owner, refusal_of
from penstock.doors.facts import facts_of
from penstock.doors.gate import Gate
from penstock.doors.stream.link import StreamLink
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.feed import Feed
from penstock.kernel.identity import node_of, public
from penstock.kernel.item import Mode
from penstock.kernel.kernel import FOREIGN, Kernel
from penstock.kernel.messages import Message
from penstock.kernel.ports import Admission, Authority, ClientFacts, Codec, Grant, Limits, MessageHandler, Wish
from penstock.kernel.session import Binding, Session
from penstock.kernel.subscription import Subscription, SubscriptionRequest
from penstock.log import get, incident
from penstock.transport.census import Census
from penstock.transport.episode import Episode
from penstock.transport.neighbours import Neighbours

log = get(__name__)

# A stream shorter than this gets no padding at its start, because there would be little room left for data.
LEAST_PADDED_LENGTH = 4_096

# Bindings kept for sharing; those used least go first.
MAX_BINDINGS = 1_000


@dataclass(frozen=True, slots=True)
class OpenSet:
    """An adapter set as the doors see it."""

    name: str
    authority: Authority
    handler: MessageHandler


class Reception:
    """One for all doors: it counts their sessions together."""

    def __init__(
        self,
        config: Config,
        kernel: Kernel,
        sets: Mapping[str, OpenSet],
        gate: Gate,
        neighbours: Neighbours | None = None,
    ) -> None:
        """`neighbours` are workers that have other sessions of the same server; None: there are none."""
        self.config = config
        self.neighbours = neighbours
        self.kernel = kernel
        self._sets = sets
        self._gate = gate
        self._census = Census(config.limits.sessions_per_address)
        self._backlog = Backlog(config.limits.max_pending_messages)
        self._strays = Episode(
            log, "sessions of another node are asked for here", "sessions of another node are no longer asked for here"
        )
        kernel.observer = self

    def close(self) -> None:
        self._strays.close()

    # -- sessions -------------------------------------------------------------------------------------------------

    def find(self, session_id: str) -> Session:
        """The live session with this identifier; raises a Refusal, or SessionElsewhere if a neighbour has it."""
        try:
            return self.kernel.find_session(session_id)
        except Refusal as refusal:
            if refusal.reason is not Reason.FOREIGN_SESSION:
                raise
            worker = owner(self.neighbours, session_id)
            if worker is None:
                raise self._stray(node_of(session_id)) from None
        raise SessionElsewhere(worker)

    def _stray(self, node: str | None) -> Refusal:
        """What a client is told whose session another node has, or had."""
        if self.neighbours is not None:
            refusal = refusal_of(self.neighbours, node)
            if refusal.reason is not Reason.FOREIGN_SESSION:
                return refusal
        self._strays.occurred(node=node)
        if self.config.server.foreign_sessions == "lost":
            return Refusal(Reason.UNKNOWN_SESSION, "The session was lost with its node")
        return Refusal(Reason.FOREIGN_SESSION, FOREIGN)

    def find_set(self, name: str) -> OpenSet:
        found = self._sets.get(name)
        if found is None:
            raise Refusal(Reason.ADAPTER_SET, f"Requested Adapter Set not available: {name[:60]}")
        return found

    async def admit(
        self,
        chosen: OpenSet,
        codec: Codec,
        user: str | None,
        password: str | None,
        max_bandwidth: float | None,
        link: StreamLink,
        client_id: str | None,
        recoverable: bool = True,
    ) -> Session | None:
        """A new session, unbound, for a client that may have one; None if the client has disconnected meanwhile.

        `client_id` is its LS_cid. Raises a Refusal, also when the metadata adapter fails or takes too long.
        """
        found = self.admit_at_once(chosen, codec, user, password, max_bandwidth, link, client_id, recoverable)
        return found if isinstance(found, Session) else await found()

    def admit_at_once(
        self,
        chosen: OpenSet,
        codec: Codec,
        user: str | None,
        password: str | None,
        max_bandwidth: float | None,
        link: StreamLink,
        client_id: str | None,
        recoverable: bool = True,
    ) -> Session | Callable[[], Awaitable[Session | None]]:
        """The same as `admit`; what is left to do, and nothing is open yet, if the metadata adapter must be waited for.

        Both raise a Refusal.
        """
        # Before the metadata adapter is asked, because it may be what the load comes from.
        self._gate.check(chosen.name, None)
        facts = facts_of(link, client_id)
        admission = chosen.authority.authenticate_at_once(user, password, facts)
        begin = partial(self._open, chosen, codec, user, max_bandwidth, link, recoverable, facts)
        if not isinstance(admission, Admission):
            return partial(self._admit_later, chosen, link, begin, admission)
        session = begin(admission)
        try:
            chosen.authority.welcome_at_once(session)
        except BaseException:
            session.close(None, "")
            raise
        _check_kept(session)
        return session

    async def _admit_later(
        self,
        chosen: OpenSet,
        link: StreamLink,
        begin: Callable[[Admission], Session],
        answer: Callable[[], Awaitable[Admission]],
    ) -> Session | None:
        admission = await answer()
        if link.lost:
            return None
        session = begin(admission)
        try:
            await chosen.authority.welcome(session)
        except BaseException:
            session.close(None, "")
            raise
        _check_kept(session)
        if _has_gone(link):
            session.close(None, "")
            return None
        return session

    def _open(
        self,
        chosen: OpenSet,
        codec: Codec,
        user: str | None,
        max_bandwidth: float | None,
        link: StreamLink,
        recoverable: bool,
        facts: ClientFacts,
        admission: Admission,
    ) -> Session:
        if self._census.is_full(link.address):
            self.kernel.tally.refused_sessions += 1
            raise Refusal(
                Reason.MAX_SESSIONS,
                f"Configured maximum number of sessions per address reached: {self._census.limit}",
            )
        known_as = user if admission.user is None else admission.user
        self._gate.check(chosen.name, known_as)
        session = self.kernel.open_session(codec, chosen.handler, recoverable)
        session.user = known_as
        session.adapter_set = chosen.name
        session.client = facts
        session.admit(admission, max_bandwidth)
        if admission.time_to_live is not None:
            session.end_after(admission.time_to_live)
        self._census.enter(link.address)
        log.info(
            "session opened",
            session=public(session.id),
            adapter_set=chosen.name,
            user=session.user,
            address=link.address,
            listener=facts.listener,
            library=facts.library,
        )
        return session

    def stream_length(self, asked: int | None) -> int:
        """Bytes that a stream connection may carry."""
        settings = self.config.session
        return max(settings.min_content_length, asked or settings.content_length)

    def filling(self, link: StreamLink, binding: Binding, length: int) -> int:
        """Bytes of padding at the start of a stream, for browsers and proxies that buffer a short start."""
        if link.websocket or binding.polling or length < LEAST_PADDED_LENGTH:
            return 0
        return self.config.session.noop_padding

    def bind(
        self,
        link: StreamLink,
        session: Session,
        binding: Binding,
        head: list[bytes],
        length: int,
        recovery_from: int | None = None,
    ) -> None:
        """Make the link the session's stream connection; raises a Refusal when recovery is not possible."""
        link.limit(length)
        link.session = session
        try:
            session.bind(link, shared_binding(binding), head, recovery_from)
        except Refusal:
            link.session = None
            raise
        if link.congested and link.session is session:
            session.congest()

    # -- requests -------------------------------------------------------------------------------------------------

    def subscribe(
        self, session: Session, number: int, wish: Wish, silent: bool = False
    ) -> Callable[[], Awaitable[None]] | None:
        """Subscribe; returns what is left to do if the metadata adapter must be waited for, else None.

        Raises a Refusal, also when the metadata adapter fails; so does what is left to do.
        """
        # Checked before the metadata adapter is asked: it might be told of another subscription with the same number.
        session.check_new(number)
        feed = self.kernel.feed(session.adapter_set, wish.data_adapter)
        authority = self._sets[session.adapter_set].authority
        grant = authority.resolve_at_once(session, number, wish)
        if grant is None:
            return partial(self._resolve, session, number, wish, silent, feed, authority)
        self._subscribe(session, number, wish, silent, feed, grant)
        return None

    async def _resolve(
        self, session: Session, number: int, wish: Wish, silent: bool, feed: Feed, authority: Authority
    ) -> None:
        grant = await authority.resolve(session, number, wish)
        try:
            self._subscribe(session, number, wish, silent, feed, grant)
        except Refusal:
            authority.subscription_refused(session, number, grant)
            raise

    def _subscribe(self, session: Session, number: int, wish: Wish, silent: bool, feed: Feed, grant: Grant) -> None:
        check_open(session)
        session.subscribe(
            SubscriptionRequest(
                number=number,
                feed=feed,
                grant=grant,
                mode=Mode(wish.mode),
                snapshot=wish.snapshot,
                snapshot_length=wish.snapshot_length,
                max_frequency=wish.max_frequency,
                unfiltered=wish.unfiltered,
                buffer_size=wish.buffer_size,
                silent=silent,
            )
        )

    def constrain(self, session: Session, requested: float | None) -> Callable[[], Awaitable[None]] | None:
        """Give the session another bandwidth limit; returns what is left to do if the metadata adapter, which decides
        about it again, must be waited for, else None. Both raise a Refusal.
        """
        authority = self._sets[session.adapter_set].authority
        # What an administrator has set stands in place of its decision.
        allowed = () if session.ruling is not None else authority.bandwidth_at_once(session)
        if allowed is None:
            return partial(self._constrain, session, requested, authority)
        session.constrain(requested, allowed)
        return None

    async def _constrain(self, session: Session, requested: float | None, authority: Authority) -> None:
        allowed = await authority.bandwidth(session)
        check_open(session)
        session.constrain(requested, allowed)

    def reconfigure(
        self, session: Session, number: int, requested: float | None
    ) -> Callable[[], Awaitable[None]] | None:
        """Give a subscription another frequency limit; what is returned is as with `constrain`."""
        subscription = session.subscription(number)
        authority = self._sets[session.adapter_set].authority
        is_decided = subscription.unfiltered or subscription.ruling is not None
        items = [granted.name for granted in subscription.request.grant.items]
        data_adapter = subscription.request.feed.name
        allowed = () if is_decided else authority.frequencies_at_once(session, data_adapter, items)
        if allowed is None:
            answer = partial(authority.frequencies, session, data_adapter, items)
            return partial(self._reconfigure, session, subscription, requested, answer)
        subscription.reconfigure(requested, allowed)
        return None

    async def _reconfigure(
        self,
        session: Session,
        subscription: Subscription,
        requested: float | None,
        answer: Callable[[], Awaitable[Limits]],
    ) -> None:
        allowed = await answer()
        check_open(session)
        if session.subscription(subscription.number) is not subscription:
            raise Refusal(Reason.UNKNOWN_SUBSCRIPTION, f"Subscription {subscription.number} has ended")
        subscription.reconfigure(requested, allowed)

    def submit(
        self, session: Session, message: Message, max_wait_millis: int | None
    ) -> Callable[[], Awaitable[None]] | None:
        """Accept a message; what is left to do if there is no room for it yet, else None. Both raise a Refusal."""
        places = self._backlog
        if not (places.enter(session.id) or (is_awaited(session, message) and places.enter(session.id, True))):
            return partial(self._submit_later, session, message, max_wait_millis)
        self._submit(session, message, max_wait_millis)
        return None

    async def _submit_later(self, session: Session, message: Message, max_wait_millis: int | None) -> None:
        await self._backlog.wait(session.id)
        self._submit(session, message, max_wait_millis)

    def _submit(self, session: Session, message: Message, max_wait_millis: int | None) -> None:
        message.settled = partial(self._settled, session.id)
        try:
            check_open(session)
            session.messages.submit(message, max_wait_millis)
        except Refusal:
            self._backlog.leave(session.id)
            raise

    def _settled(self, session: str, code: int | None, text: str) -> None:
        self._backlog.leave(session)

    # -- the kernel's observer ------------------------------------------------------------------------------------

    def subscription_closed(self, session: Session, subscription: Subscription) -> None:
        authority = self._sets[session.adapter_set].authority
        authority.subscription_closed(session, subscription.number, subscription.request.grant, subscription.statistics)

    def session_closed(self, session: Session, cause: int | None, message: str) -> None:
        self._census.leave(session.client.address)
        self._sets[session.adapter_set].authority.session_closed(session)
        figures = session.figures()
        log.info(
            "session closed",
            session=public(session.id),
            user=session.user,
            address=session.client.address,
            cause=cause,
            reason=message or "the client has disconnected",
            updates=figures.updates,
            bytes=figures.bytes,
            lost=figures.lost,
        )


@lru_cache(MAX_BINDINGS)
def shared_binding(binding: Binding) -> Binding:
    """The same, but one object for all sessions: most clients want the same of their connections."""
    return binding


def is_awaited(session: Session, message: Message) -> bool:
    """Whether messages that were already accepted wait for this one: it must not wait for them."""
    return session.messages.is_awaited(message.sequence, message.progressive)


def check_open(session: Session) -> None:
    """Refuse what was asked of a session that has been closed since."""
    if session.closed:
        raise Refusal(Reason.UNKNOWN_SESSION, "The session has been closed")


def destroy(session: Session, cause_code: int | None, cause_message: str | None, close_socket: bool = True) -> None:
    """The client ends its session, with a cause of its own if it gives one: zero or below."""
    if cause_code is None:
        session.close(Cause.DESTROYED_BY_CLIENT, "Destroy invoked by client", close_socket)
    else:
        session.close(min(0, cause_code), "null" if cause_message is None else cause_message, close_socket)


def _check_kept(session: Session) -> None:
    """Refuse a session that has been closed while it was welcomed."""
    if session.closed:
        raise Refusal(Reason.MAX_SESSIONS, "The session was closed before it was bound")


def _has_gone(link: StreamLink) -> bool:
    """A function, because type checkers assume that a check before an `await` still holds after it."""
    return link.lost


def unexpected(name: str) -> str:
    """Log the exception being handled; the text to tell the client, with the number of the lines about its request."""
    number = incident()
    log.exception("unexpected error", number=number, request=name)
    return f"Internal error {number}"
