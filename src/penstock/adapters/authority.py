"""A metadata adapter as the kernel's authority and message handler: whatever goes wrong in it becomes a refusal.

Threads and timeouts are in `calls`, how many calls a session may have in `session_calls`, what is asked about a
subscription in `questions`. Calls about a session run concurrently; but its first is `new_session` and its last
`session_closed`, and those about the beginning and the end of one subscription come in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any

from penstock.adapters.api import AdapterSet, MetadataAdapter
from penstock.adapters.call_tally import CallTally
from penstock.adapters.calls import LAST_CALLS, AdapterCaller, Tasks, overrides
from penstock.adapters.faults import CONTAINED
from penstock.adapters.inside import InsideAdapter
from penstock.adapters.questions import (
    DECISIONS,
    AdapterQuestions,
    Questions,
    answered,
    answered_one_by_one,
    wrong_type,
)
from penstock.adapters.server import is_limit
from penstock.adapters.session_calls import SessionCalls
from penstock.kernel.alike import shared_admission
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.messages import Message
from penstock.kernel.ports import (
    Admission,
    AttendedSession,
    ClientFacts,
    DeviceFacts,
    Grant,
    Limits,
    PushFacts,
    SessionFacts,
    Statistics,
    SubscriptionFacts,
    Wish,
)
from penstock.log import get

log = get(__name__)

# Outcome of a message whose handling raised something unforeseen, and of one the adapter refused without a code.
MESSAGE_ERROR = 35
MESSAGE_REFUSED = 34


# Those that are asked before a session is opened.
ADMISSION = ("authenticate", "max_bandwidth", "manages_bandwidth")


class SetAuthority:
    """A metadata adapter as authority and message handler."""

    def __init__(self, adapter_set: AdapterSet) -> None:
        self._name = adapter_set.name
        self._metadata: MetadataAdapter = adapter_set.metadata
        metadata = self._metadata
        timeout = adapter_set.timeout_millis / 1000
        self._caller = AdapterCaller(metadata, MetadataAdapter, metadata.quick, timeout, f"{adapter_set.name}-metadata")
        # Those of its data adapters that decide themselves about their items.
        self._insiders = {
            name: adapter
            for name, adapter in adapter_set.data.items()
            if isinstance(adapter, InsideAdapter) and adapter.decides
        }
        self._tasks = Tasks()
        self._questions = AdapterQuestions(adapter_set.name, metadata)
        self._resolves = self._overrides("resolve")
        self._answer_all = self._manner()
        self._follows_subscriptions = self._overrides("subscribed") or self._overrides("unsubscribed")
        self._resolves_at_once = not self._resolves and self._decides_at_once()
        self._answers_at_once = self._caller.returns_at_once("message")
        self._hears_at_once = self._caller.returns_at_once("subscribed")
        self._calls = SessionCalls()
        # Subscriptions whose end the adapter has yet to be told: one with the same number begins after that.
        self._endings: dict[tuple[str, int], asyncio.Task[None]] = {}
        # The set has been removed while clients may be connecting.
        self.retired = False
        # Those that the adapter knows of, or may.
        self._sessions: dict[str, AttendedSession] = {}
        self._by_user: dict[str, list[AttendedSession]] = {}

    def _overrides(self, name: str) -> bool:
        return overrides(self._metadata, MetadataAdapter, name)

    def _manner(self) -> Callable[[Questions], Awaitable[Any]]:
        """How this adapter is asked about a subscription."""
        if self._decides_at_once():
            return self._now
        if any(asyncio.iscoroutinefunction(getattr(self._metadata, name)) for name in DECISIONS):
            return partial(answered_one_by_one, call=self._caller.call)
        # All of them in one go: there may be thousands of items.
        return partial(self._caller.run, answered)

    def _decides_at_once(self) -> bool:
        return all(self._caller.returns_at_once(name) for name in DECISIONS)

    async def _now(self, questions: Questions) -> Any:
        return self._caller.call_at_once(answered, questions)

    @property
    def calls(self) -> CallTally:
        """Those of the adapter's methods."""
        return self._caller.tally

    @property
    def vouches(self) -> bool:
        """Whether the adapter verifies who clients are: else the name that a client gives means nothing."""
        return self._overrides("authenticate") and self._metadata.knows_names

    @property
    def is_constant(self) -> bool:
        """Whether it decides by user and password only, so that its answer may be cached for a while."""
        return self._metadata.decides_by_password

    async def start(self) -> None:
        # Nobody waits for an answer yet, so there is no timeout: a remote adapter's process may take long to start.
        starter = AdapterCaller(self._metadata, MetadataAdapter, self._metadata.quick, None, f"{self._name}-metadata")
        try:
            await starter.call("start")
        finally:
            starter.close()

    async def stop(self) -> None:
        """Stop the adapter after its last call."""
        await self._tasks.settle(LAST_CALLS)
        try:
            await self._caller.call("stop")
        except Exception:
            log.exception("metadata adapter failed", adapter_set=self._name, call="stop")
        self._caller.close()

    async def _ask(self, call: str, *arguments: Any) -> Any:
        return await self._guarded(call, self._caller.call(call, *arguments))

    async def _guarded(self, call: str, answer: Awaitable[Any], late: Reason = Reason.AUTHORITY_UNAVAILABLE) -> Any:
        """The answer; any failure becomes a Refusal, with the reason `late` after a timeout."""
        try:
            with CONTAINED:
                return await answer
        except Exception as error:
            raise self._refusal(call, error, late) from None

    def _refusal(self, call: str, error: Exception, late: Reason) -> Refusal:
        """What the client is told of an exception; the log has the rest."""
        if isinstance(error, Refusal):
            return error
        if isinstance(error, TimeoutError):
            log.warning("metadata adapter timed out", adapter_set=self._name, call=call)
            return Refusal(late, "The metadata adapter has not answered in time")
        log.exception("metadata adapter failed", adapter_set=self._name, call=call)
        return Refusal(Reason.AUTHORITY_ERROR, "The metadata adapter failed on this request")

    # -- sessions -------------------------------------------------------------------------------------------------

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        admission = await self._ask("authenticate", user, password, client)
        if admission is None:
            limit = await self._ask("max_bandwidth", user)
            manages = await self._ask("manages_bandwidth", user)
            admission = _limited(limit, manages)
        return self._checked_admission(admission)

    def authenticate_at_once(
        self, user: str | None, password: str | None, client: ClientFacts
    ) -> Admission | Callable[[], Awaitable[Admission]]:
        caller, metadata = self._caller, self._metadata
        if self._overrides("new_session") or not all(map(caller.returns_at_once, ADMISSION)):
            return partial(self.authenticate, user, password, client)
        call = "authenticate"
        try:
            admission = caller.call_at_once(metadata.authenticate, user, password, client)
            if isawaitable(admission):
                # A plain method may hand back a coroutine of another.
                return partial(self._authenticate_later, admission, user)
            if admission is None:
                call = "max_bandwidth"
                limit = caller.call_at_once(metadata.max_bandwidth, user)
                call = "manages_bandwidth"
                admission = _limited(limit, caller.call_at_once(metadata.manages_bandwidth, user))
        except Exception as error:
            raise self._refusal(call, error, Reason.AUTHORITY_UNAVAILABLE) from None
        return self._checked_admission(admission)

    async def _authenticate_later(self, answer: Awaitable[Any], user: str | None) -> Admission:
        admission = await self._guarded("authenticate", self._caller.within_time(answer))
        if admission is None:
            admission = _limited(await self._ask("max_bandwidth", user), await self._ask("manages_bandwidth", user))
        return self._checked_admission(admission)

    def _checked_admission(self, admission: object) -> Admission:
        if not isinstance(admission, Admission):
            raise wrong_type(self._name, "authenticate", admission)
        self._check_open()
        return admission

    def _check_open(self) -> None:
        if self.retired:
            raise Refusal(Reason.ADAPTER_SET, f"Requested Adapter Set not available: {self._name[:60]}")

    async def welcome(self, session: AttendedSession) -> None:
        self._sessions[session.id] = session
        if self._overrides("new_session"):
            time_to_live = await self._guarded("new_session", self._about(session, "new_session", _facts(session)))
            if time_to_live is not None and not isinstance(time_to_live, int | float):
                raise wrong_type(self._name, "new_session", time_to_live)
            if time_to_live is not None and not session.closed:
                session.end_after(time_to_live)
        self._count(session)
        self._check_open()

    def welcome_at_once(self, session: AttendedSession) -> None:
        self._sessions[session.id] = session
        self._count(session)
        self._check_open()

    def adopt(self, session: AttendedSession) -> None:
        """A session that was opened before this authority was there; the adapter is not told."""
        self._check_open()
        self._sessions[session.id] = session
        self._count(session)

    @property
    def resumes(self) -> bool:
        """Whether the adapter wants to be told of subscriptions that began before this authority was there."""
        return self._overrides("resumed")

    async def resume(self, session: AttendedSession, subscription: SubscriptionFacts) -> None:
        """Such a subscription, of a session that was adopted."""
        answer = self._about(session, "resumed", self._check_known(session), subscription)
        await self._guarded("resumed", answer, Reason.AUTHORITY_ERROR)

    def _count(self, session: AttendedSession) -> None:
        """End the user's oldest sessions if there are too many now."""
        limit = self._metadata.sessions_per_user
        if limit is not None and session.user is not None and not session.closed:
            others = self._by_user.setdefault(session.user, [])
            others.append(session)
            while len(others) > limit:
                others[0].close(Cause.ANOTHER_SESSION, "Another session has been opened for this user")

    def session_closed(self, session: AttendedSession) -> None:
        known = self._sessions.pop(session.id, None)
        others = self._by_user.get(session.user or "")
        if others is not None and session in others:
            others.remove(session)
            if not others:
                del self._by_user[session.user or ""]
        if known is not None and self._overrides("session_closed"):
            self._tasks.start_after(session.id, self._tell_end_of_session(_facts(session)))

    async def _tell_end_of_session(self, facts: SessionFacts) -> None:
        await self._calls.settled(facts.id)
        await self._tell("session_closed", facts)

    async def _about(self, session: AttendedSession, call: str, *arguments: Any) -> Any:
        """The answer to a call about a session, when there is a place for it."""
        if self._caller.returns_at_once(call):
            return await self._caller.call(call, *arguments)
        return await self._calls.complete(session.id, partial(self._begin, session, call, *arguments))

    async def _begin(self, session: AttendedSession, call: str, *arguments: Any) -> Any:
        self._check_known(session)
        return await self._caller.call(call, *arguments)

    def _check_known(self, session: AttendedSession) -> SessionFacts:
        """What the adapter knows of the session; a Refusal if it has been told, or is to be told next, of its end."""
        if session.id not in self._sessions:
            raise Refusal(Reason.UNKNOWN_SESSION, "The session has been closed")
        return _facts(session)

    async def _tell(self, call: str, *arguments: Any) -> None:
        try:
            await self._caller.call(call, *arguments)
        except Exception:
            log.exception("metadata adapter failed", adapter_set=self._name, call=call)

    # -- subscriptions --------------------------------------------------------------------------------------------

    async def judge(self, session: SessionFacts, wish: Wish) -> Grant:
        """What a session would be granted. For doors without sessions that need to know what is allowed."""
        if wish.data_adapter in self._insiders:
            return self._insiders[wish.data_adapter].grant(session.id, wish)
        answer = (
            self._caller.call("resolve", session, wish)
            if self._resolves
            else self._answer_all(self._questions.of_subscription(session, wish))
        )
        grant = await self._guarded("about a subscription", answer, Reason.AUTHORITY_ERROR)
        if not isinstance(grant, Grant):
            raise wrong_type(self._name, "resolve", grant)
        if self._resolves and any(granted.customizer is not None for granted in grant.items):
            grant = self._questions.guard(grant, Mode(wish.mode))
        return grant

    def resolve_at_once(self, session: AttendedSession, number: int, wish: Wish) -> Grant | None:
        """The same as `resolve`, for an adapter that answers at once and need not be told; else None."""
        if wish.data_adapter in self._insiders:
            return self._insiders[wish.data_adapter].grant(self._check_known(session).id, wish)
        if not self._resolves_at_once or self._follows(session):
            return None
        facts = self._check_known(session)
        try:
            grant: Grant = self._caller.call_at_once(answered, self._questions.of_subscription(facts, wish))
        except Exception as error:
            raise self._refusal("about a subscription", error, Reason.AUTHORITY_ERROR) from None
        return grant

    def _follows(self, session: AttendedSession) -> bool:
        return self._follows_subscriptions and session.admission.follows_subscriptions

    async def resolve(self, session: AttendedSession, number: int, wish: Wish) -> Grant:
        grant = await self.examine(session, wish)
        if not self._follows(session):
            return grant
        subscription = SubscriptionFacts(
            number,
            wish.data_adapter,
            Mode(wish.mode),
            wish.group,
            wish.schema,
            wish.selector,
            tuple([granted.name for granted in grant.items]),
        )
        granted = Grant(grant.items, grant.fields, grant.selector, subscription)
        if self._overrides("subscribed"):
            ending = self._endings.get((session.id, number))
            if ending is not None:
                await asyncio.wait([ending])
            begin = partial(self._tell_beginning, session, subscription)
            undo = partial(self._tell_end, session, granted, ())
            await (begin() if self._hears_at_once else self._calls.complete(session.id, begin, undo))
        return granted

    async def examine(self, session: AttendedSession, wish: Wish) -> Grant:
        """What the session would be granted; for subscriptions that do not begin in it, such as those of devices."""
        judge = partial(self._judge, session, wish)
        return await (judge() if self._resolves_at_once else self._calls.complete(session.id, judge))

    async def _judge(self, session: AttendedSession, wish: Wish) -> Grant:
        return await self.judge(self._check_known(session), wish)

    async def _tell_beginning(self, session: AttendedSession, subscription: SubscriptionFacts) -> None:
        facts = self._check_known(session)
        call = self._caller.call("subscribed", facts, subscription)
        await self._guarded("subscribed", call, Reason.AUTHORITY_ERROR)
        if session.id not in self._sessions:
            # Closed meanwhile: it will not begin, and the end of the session is told after this.
            if self._overrides("unsubscribed"):
                await self._tell("unsubscribed", facts, subscription, ())
            self._check_known(session)

    def subscription_closed(
        self, session: AttendedSession, number: int, grant: Grant, statistics: Sequence[Statistics]
    ) -> None:
        self._tell_end(session, grant, statistics)

    def subscription_refused(self, session: AttendedSession, number: int, grant: Grant) -> None:
        """The kernel could not do what was granted: the end of something that has not begun."""
        self._tell_end(session, grant, ())

    def _tell_end(self, session: AttendedSession, grant: Grant, statistics: Sequence[Statistics]) -> None:
        if grant.facts is None or session.id not in self._sessions or not self._overrides("unsubscribed"):
            return
        key = session.id, grant.facts.number
        told = self._tell("unsubscribed", _facts(session), grant.facts, statistics)
        ending = self._tasks.start_after(session.id, told)
        self._endings[key] = ending
        ending.add_done_callback(lambda done: self._forget_ending(key, done))

    def _forget_ending(self, key: tuple[str, int], done: asyncio.Task[None]) -> None:
        if self._endings.get(key) is done:
            del self._endings[key]

    # -- limits, again --------------------------------------------------------------------------------------------

    def bandwidth_at_once(self, session: AttendedSession) -> Limits | None:
        if not session.admission.reexamines_bandwidth or not self._overrides("max_bandwidth"):
            return ()
        if not self._caller.returns_at_once("max_bandwidth"):
            return None
        self._check_known(session)
        try:
            limit = self._caller.call_at_once(self._metadata.max_bandwidth, session.user)
        except Exception as error:
            raise self._refusal("max_bandwidth", error, Reason.AUTHORITY_ERROR) from None
        return self._checked("max_bandwidth", (limit,), 1)

    async def bandwidth(self, session: AttendedSession) -> Limits:
        answer = self._about(session, "max_bandwidth", session.user)
        limit = await self._guarded("max_bandwidth", answer, Reason.AUTHORITY_ERROR)
        return self._checked("max_bandwidth", (limit,), 1)

    def frequencies_at_once(self, session: AttendedSession, data_adapter: str, items: Sequence[str]) -> Limits | None:
        if not self._overrides("resolve_frequencies" if self._resolves else "max_frequency"):
            return ()
        if not self._resolves_at_once:
            return None
        facts = self._check_known(session)
        try:
            limits = self._caller.call_at_once(answered, self._questions.of_frequencies(facts, data_adapter, items))
        except Exception as error:
            raise self._refusal("max_frequency", error, Reason.AUTHORITY_ERROR) from None
        return self._checked("max_frequency", limits, len(items))

    async def frequencies(self, session: AttendedSession, data_adapter: str, items: Sequence[str]) -> Limits:
        call = "resolve_frequencies" if self._resolves else "max_frequency"
        answer = self._calls.complete(session.id, partial(self._ask_frequencies, session, data_adapter, items))
        limits = await self._guarded(call, answer, Reason.AUTHORITY_ERROR)
        return () if limits is None else self._checked(call, limits, len(items))

    async def _ask_frequencies(self, session: AttendedSession, data_adapter: str, items: Sequence[str]) -> Any:
        facts = self._check_known(session)
        if self._resolves:
            return await self._caller.call("resolve_frequencies", facts, data_adapter, tuple(items))
        return await self._answer_all(self._questions.of_frequencies(facts, data_adapter, items))

    def _checked(self, call: str, limits: Any, count: int) -> Limits:
        """Limits of an adapter, which may be anything; raises a Refusal."""
        if not isinstance(limits, Sequence) or len(limits) != count:
            raise wrong_type(self._name, call, limits)
        for limit in limits:
            if limit is not None and not is_limit(limit):
                raise wrong_type(self._name, call, limit)
        return tuple(limits)

    # -- push notifications ---------------------------------------------------------------------------------------

    async def register_device(self, session: AttendedSession, device: DeviceFacts) -> None:
        await self._permit(session, "register_device", device)

    async def change_device_token(self, session: AttendedSession, device: DeviceFacts, new_token: str) -> None:
        await self._permit(session, "change_device_token", device, new_token)

    async def activate_push(self, session: AttendedSession, device: DeviceFacts, subscription: PushFacts) -> None:
        await self._permit(session, "activate_push", device, subscription)

    async def _permit(self, session: AttendedSession, call: str, *arguments: Any) -> None:
        """Ask a question that the adapter answers by raising a Refusal or not."""
        facts = self._check_known(session)
        if self._overrides(call):
            await self._guarded(call, self._about(session, call, facts, *arguments), Reason.AUTHORITY_ERROR)

    # -- messages -------------------------------------------------------------------------------------------------

    def deliver(self, session: AttendedSession, message: Message) -> None:
        self._tasks.start(self._process(session, message))

    async def _process(self, session: AttendedSession, message: Message) -> None:
        if session.id not in self._sessions:
            # The sender must get an outcome.
            session.messages.failed(message, MESSAGE_ERROR, "The session has been closed")
            return
        try:
            begin = partial(self._begin, session, "message", _facts(session), message.text)
            # It has a task of its own, which nobody cancels: unlike other calls it needs no second one.
            response = await (begin() if self._answers_at_once else self._calls.run(session.id, begin))
        except Refusal as refusal:
            code = MESSAGE_REFUSED if refusal.code is None else refusal.code
            session.messages.failed(message, code, refusal.message)
        except TimeoutError:
            log.warning("metadata adapter timed out", adapter_set=self._name, call="message")
            session.messages.failed(message, MESSAGE_ERROR, "The metadata adapter has not answered in time")
        except Exception:
            log.exception("metadata adapter failed", adapter_set=self._name, call="message")
            session.messages.failed(message, MESSAGE_ERROR, "The metadata adapter failed on this message")
        else:
            session.messages.done(message, response or "")


def _facts(session: AttendedSession) -> SessionFacts:
    """What adapters are told of it. Made whenever it is needed: there may be very many sessions."""
    return SessionFacts(session.id, session.user, session.adapter_set, session.client, session.admission.roles)


def _limited(bandwidth: Any, manages: Any) -> Admission:
    """What an adapter has decided that leaves it to `max_bandwidth` and the like."""
    return shared_admission(Admission(bandwidth, manages, reexamines_bandwidth=True))
