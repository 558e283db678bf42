"""The hub's decisions, at an edge: an authority and message handler for one adapter set, over calls.

Every decision is awaited, because it is made elsewhere. A hub that does not answer refuses: clients try again.
The hub's side is `guests`; what hubs are told of sessions when they change is in `edge_calls`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.cluster.calling import Answered
from penstock.cluster.conversions import (
    admission_body,
    admission_of,
    client_body,
    grant_of,
    statistics_body,
    wish_body,
)
from penstock.cluster.derived import real_name
from penstock.cluster.edge_calls import EdgeCalls
from penstock.cluster.refusals import CallUnanswered
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.messages import NEVER_PROCESSED, Message
from penstock.kernel.ports import (
    Admission,
    AttendedSession,
    ClientFacts,
    Grant,
    Limits,
    Statistics,
    Wish,
)
from penstock.log import get
from penstock.wire.fabric.calls import (
    AdmissionBody,
    AuthenticateBody,
    ClosedBody,
    FrequenciesBody,
    GrantBody,
    MessageBody,
    OutcomeBody,
    ResolveBody,
    SessionBody,
    WelcomeBody,
    decode_body,
)
from penstock.wire.fabric.messages import CallRefused, FabricError

log = get(__name__)


class EdgeAuthority:
    """For one adapter set of the hub."""

    def __init__(self, calls: EdgeCalls, adapter_set: str) -> None:
        # The set has been removed while clients may be connecting.
        self.retired = False
        self._calls = calls
        self._adapter_set = adapter_set

    # -- sessions -------------------------------------------------------------------------------------------------

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        body = AuthenticateBody(self._adapter_set, user, password, client_body(client))
        answer = await self._calls.ask("authenticate", body)
        self._check_open()
        return admission_of(decode_body(AdmissionBody, answer))

    def authenticate_at_once(
        self, user: str | None, password: str | None, client: ClientFacts
    ) -> Callable[[], Awaitable[Admission]]:
        return partial(self.authenticate, user, password, client)

    def _check_open(self) -> None:
        if self.retired:
            raise Refusal(Reason.ADAPTER_SET, f"Requested Adapter Set not available: {self._adapter_set[:60]}")

    async def welcome(self, session: AttendedSession) -> None:
        admission = admission_body(session.admission)
        body = WelcomeBody(session.id, session.user, session.adapter_set, client_body(session.client), admission)
        self._calls.coming.add(session.id)
        try:
            answer = await self._calls.ask("welcome", body, session.id)
            lifetime = decode_body(float | None, answer)  # type: ignore[arg-type]
            if not session.closed:
                if lifetime is not None:
                    session.end_after(lifetime)
                self._calls.residents[session.id] = session
        finally:
            self._calls.coming.discard(session.id)
        self._check_open()

    def welcome_at_once(self, session: AttendedSession) -> None:
        raise NotImplementedError("no admission of a hub comes at once")

    def session_closed(self, session: AttendedSession) -> None:
        self._calls.forget(session)

    # -- subscriptions --------------------------------------------------------------------------------------------

    def resolve_at_once(self, session: AttendedSession, number: int, wish: Wish) -> Grant | None:
        return None

    async def resolve(self, session: AttendedSession, number: int, wish: Wish) -> Grant:
        asked = wish_body(wish)
        try:
            late = partial(self._undo, session, number)
            answer = await self._calls.ask("resolve", ResolveBody(session.id, number, asked), session.id, late=late)
        except CallUnanswered:
            # It may have been granted.
            self._tell_end(session, number, ())
            raise
        body = decode_body(GrantBody, answer)
        self._calls.keep_wish(session.id, number, asked, [item.name for item in body.items])
        return grant_of(body)

    def _undo(self, session: AttendedSession, number: int, answered: Answered) -> None:
        """The client has gone before its subscription was granted."""
        if not isinstance(answered, CallRefused):
            self._tell_end(session, number, ())

    def subscription_refused(self, session: AttendedSession, number: int, grant: Grant) -> None:
        self._tell_end(session, number, ())

    def subscription_closed(
        self, session: AttendedSession, number: int, grant: Grant, statistics: Sequence[Statistics]
    ) -> None:
        # The end of a session is that of its subscriptions too; only who wants their statistics is told of each.
        if grant.facts is not None or not session.closed:
            self._tell_end(session, number, statistics)

    def _tell_end(self, session: AttendedSession, number: int, statistics: Sequence[Statistics]) -> None:
        self._calls.drop_wish(session.id, number)
        body = ClosedBody(session.id, number, statistics_body(statistics))
        self._calls.tell("subscription_closed", body, session.id)

    # -- limits, again --------------------------------------------------------------------------------------------

    def bandwidth_at_once(self, session: AttendedSession) -> Limits | None:
        return None if session.admission.reexamines_bandwidth else ()

    async def bandwidth(self, session: AttendedSession) -> Limits:
        answer = await self._calls.ask("bandwidth", SessionBody(session.id), session.id)
        return decode_body(list[float | None], answer)

    def frequencies_at_once(self, session: AttendedSession, data_adapter: str, items: Sequence[str]) -> Limits | None:
        return None

    async def frequencies(self, session: AttendedSession, data_adapter: str, items: Sequence[str]) -> Limits:
        names = tuple([real_name(item) for item in items])
        answer = await self._calls.ask("frequencies", FrequenciesBody(session.id, data_adapter, names), session.id)
        return decode_body(list[float | None], answer)

    # -- messages -------------------------------------------------------------------------------------------------

    def deliver(self, session: AttendedSession, message: Message) -> None:
        done = partial(_settle, session, message)
        self._calls.start("message", MessageBody(session.id, message.text), done, session.id, repeatable=False)


def _settle(session: AttendedSession, message: Message, answered: Answered) -> None:
    """Tell the outcome of a message to the kernel."""
    if isinstance(answered, CallUnanswered):
        session.messages.failed(message, NEVER_PROCESSED, answered.message)
        return
    if isinstance(answered, CallRefused):
        session.messages.failed(message, NEVER_PROCESSED, answered.text)
        return
    try:
        outcome = decode_body(OutcomeBody, answered)
    except FabricError as error:
        log.warning("the outcome of a message cannot be read", reason=str(error))
        outcome = OutcomeBody(NEVER_PROCESSED, "The outcome of the message cannot be read")
    if outcome.code is None:
        session.messages.done(message, outcome.text)
    else:
        session.messages.failed(message, outcome.code, outcome.text)
