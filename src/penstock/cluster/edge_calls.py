"""The edge's side of calls: questions to the hub, what the hub has done here, and the sessions that it is to know.

What is asked about whom is in `authority` and `desk`; how calls get through, in `calling`; the other side is `guests`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from msgspec import Raw

from penstock.cluster.calling import PATIENCE, Answered, FabricCallee, FabricCaller, Question, TakeAnswer
from penstock.cluster.conversions import admission_body, client_body, facts_body
from penstock.cluster.derived import is_derived
from penstock.cluster.refusals import CallUnanswered, accepted
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import AttendedSession, Clock
from penstock.log import get, incident
from penstock.push.refusals import PushRefusal
from penstock.wire.fabric.calls import (
    AdoptBody,
    AdoptedSession,
    BandwidthBody,
    EndAfterBody,
    EndBody,
    FrequencyBody,
    KnownSubscription,
    PresentBody,
    SessionBody,
    UnsubscribeBody,
    WelcomeBody,
    WishBody,
    decode_body,
    encode_body,
)
from penstock.wire.fabric.messages import Call, CallDone, CallNoted, CallRefused, FabricError

log = get(__name__)

# Sessions that are handed to a hub in one call.
ADOPTED_AT_ONCE = 200

# What has ended is told as long as there may be a hub that wants to know.
FOR_EVER = float("inf")

NOTHING = encode_body(None)

EdgeMethod: TypeAlias = Callable[[Raw], Awaitable[bytes]]


class EdgeCalls:
    """All calls of one edge. Lives on the event loop."""

    def __init__(self, run: str, kernel: Kernel, send: Callable[[bytes], None], clock: Clock) -> None:
        """`run` is the one of `Hello`; `send` takes payloads to the hub."""
        # Sessions that the hub has welcomed, and what else another hub would need to know of few of them: the device
        # that has been registered for push notifications, and those of its subscriptions that have derived items, by
        # their numbers.
        self.residents: dict[str, AttendedSession] = {}
        self.devices: dict[str, str] = {}
        self._wishes: dict[str, dict[int, WishBody]] = {}
        # Sessions that the hub is being asked to welcome.
        self.coming: set[str] = set()
        # More that the hub may ask for.
        self.methods: dict[str, EdgeMethod] = {}
        self._kernel = kernel
        self._clock = clock
        self._caller = FabricCaller(run, send)
        self._callee = FabricCallee(send, self._begin)
        self._tasks: set[asyncio.Task[None]] = set()
        # Set when everything has its answer, for whoever waits for that.
        self._idle: asyncio.Event | None = None
        # Whether the hub knows all residents; and who tells it.
        self._presented = True
        self._presenting: asyncio.Task[None] | None = None
        self._round = 0
        self._orders: dict[str, Callable[[Raw], None]] = {
            "end_session": self._end_session,
            "end_after": self._end_after,
            "unsubscribe": self._unsubscribe,
            "set_bandwidth": self._set_bandwidth,
            "set_frequency": self._set_frequency,
        }

    # -- the fabric -----------------------------------------------------------------------------------------------

    def welcomed(self, epoch: int) -> None:
        """A hub has said Welcome: it is told of the sessions here, and asked what has no answer yet."""
        if self._presenting is not None:
            self._presenting.cancel()
            self._presenting = None
        self._presented = False
        self._callee.begin(str(epoch), epoch)
        self._caller.begin(self._clock(), epoch)
        self._present()

    def lost(self) -> None:
        """There is no way to a hub."""
        self._caller.stop()

    def received(self, message: Call | CallDone | CallRefused | CallNoted) -> None:
        if isinstance(message, Call):
            self._callee.received(message)
        else:
            self._caller.heard(self._clock(), message)
            if self._idle is not None and not self._caller.pending:
                self._idle.set()

    def tick(self) -> None:
        """Called about twice a second."""
        self._caller.tick(self._clock())
        self._present()

    async def settle(self, seconds: float) -> None:
        """Wait until the hub has answered everything, such as that the last sessions have ended; but not for ever."""
        if self._caller.pending:
            self._idle = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._idle.wait()

    async def close(self) -> None:
        """Nothing is asked or answered any more."""
        self._caller.end("The server is stopping")
        self._presented = True
        tasks = [*self._tasks, *([] if self._presenting is None else [self._presenting])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- questions ------------------------------------------------------------------------------------------------

    def start(
        self,
        method: str,
        body: object,
        done: TakeAnswer,
        about: str = "",
        repeatable: bool = True,
        patience: float = PATIENCE,
    ) -> None:
        """See `FabricCaller.ask`."""
        self._caller.ask(self._clock(), method, encode_body(body), done, about, repeatable, patience)

    async def ask(
        self,
        method: str,
        body: object,
        about: str = "",
        repeatable: bool = True,
        late: Callable[[Answered], None] | None = None,
    ) -> Raw:
        """The answer; raises a Refusal or a PushRefusal, and `CallUnanswered` if there is none.

        `late` gets the answer if nobody waits for it any more.
        """
        waiting: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.start(method, body, partial(_pass_on, waiting, late), about, repeatable)
        return accepted(await waiting)

    def tell(self, method: str, body: object, about: str) -> None:
        """Something that has happened, to which there is no answer."""
        self.start(method, body, partial(self._told, method), about, patience=FOR_EVER)

    def _told(self, method: str, answered: Answered) -> None:
        if isinstance(answered, CallRefused):
            log.info("the hub refused a call", call=method, reason=answered.text)
        elif isinstance(answered, CallUnanswered):
            # The hub has to compare what it knows with what there is.
            self._presented = False

    # -- sessions that the hub is to know -------------------------------------------------------------------------

    def _present(self) -> None:
        if not self._presented and self._presenting is None:
            task = self._presenting = asyncio.get_running_loop().create_task(self._introduce())
            task.add_done_callback(self._introduced)

    def _introduced(self, task: asyncio.Task[None]) -> None:
        if self._presenting is task:
            self._presenting = None
        if not task.cancelled() and task.exception() is not None:
            log.info("the hub has not adopted all sessions yet", reason=str(task.exception()))

    async def _introduce(self) -> None:
        """Have the hub know all residents. What it has closed, or does not want, ends here."""
        self._round += 1
        now = self._round
        present = PresentBody(now, tuple(self.residents), tuple(self.coming))
        unknown = decode_body(list[str], await self.ask("present", present, repeatable=False))
        while unknown:
            some, unknown = unknown[:ADOPTED_AT_ONCE], unknown[ADOPTED_AT_ONCE:]
            entries = [self._entry(session) for session in some if session in self.residents]
            adopt = AdoptBody(now, tuple(entries), not unknown)
            for session in decode_body(list[str], await self.ask("adopt", adopt, repeatable=False)):
                if session in self.residents:
                    # The cause after which clients open a new session by themselves.
                    lost = self._kernel.find_session(session)
                    lost.close(Cause.MAX_DURATION, "The server has lost track of the session")
        self._presented = True

    def _entry(self, id: str) -> AdoptedSession:
        session = self._kernel.find_session(id)
        client, admission = client_body(session.client), admission_body(session.admission)
        welcome = WelcomeBody(id, session.user, session.adapter_set, client, admission)
        wishes = self._wishes.get(id, {})
        subscriptions = [
            KnownSubscription(
                number,
                not subscription.unfiltered,
                facts_body(subscription.request.grant.facts),
                wishes.get(number),
                tuple([item.name for item in subscription.request.grant.items]) if number in wishes else (),
            )
            for number, subscription in session.subscriptions.items()
        ]
        return AdoptedSession(welcome, self.devices.get(id), tuple(subscriptions))

    def keep_wish(self, session: str, number: int, wish: WishBody, names: list[str]) -> None:
        """Another hub would have to derive the items of this subscription again."""
        if session in self.residents and any(is_derived(name) for name in names):
            self._wishes.setdefault(session, {})[number] = wish

    def drop_wish(self, session: str, number: int) -> None:
        if session in self._wishes:
            self._wishes[session].pop(number, None)

    # -- what the hub has done ------------------------------------------------------------------------------------

    def _begin(self, question: Question) -> None:
        order = self._orders.get(question.method)
        if order is None:
            task = asyncio.get_running_loop().create_task(self._serve(question))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        try:
            order(question.body)
        except Exception as error:
            question.refuse(_as_refusal(question, error))
        else:
            question.answer(NOTHING)

    async def _serve(self, question: Question) -> None:
        try:
            method = self.methods.get(question.method)
            if method is None:
                raise Refusal(Reason.INVALID, f"There is no call {question.method[:60]} here")
            answer = await method(question.body)
        except Exception as error:
            question.refuse(_as_refusal(question, error))
        else:
            question.answer(answer)

    def _end_session(self, body: Raw) -> None:
        end = decode_body(EndBody, body)
        session = self._kernel.find_session(end.session)
        session.close(end.cause, end.message)

    def _end_after(self, body: Raw) -> None:
        end = decode_body(EndAfterBody, body)
        self._kernel.find_session(end.session).end_after(end.seconds)

    def _unsubscribe(self, body: Raw) -> None:
        end = decode_body(UnsubscribeBody, body)
        self._kernel.find_session(end.session).unsubscribe(end.number)

    def _set_bandwidth(self, body: Raw) -> None:
        limit = decode_body(BandwidthBody, body)
        self._kernel.find_session(limit.session).allow_bandwidth(limit.limit)

    def _set_frequency(self, body: Raw) -> None:
        limit = decode_body(FrequencyBody, body)
        self._kernel.find_session(limit.session).allow_frequency(limit.number, limit.limit)

    def forget(self, session: AttendedSession) -> None:
        """The session is gone for good."""
        self.residents.pop(session.id, None)
        self.devices.pop(session.id, None)
        self._wishes.pop(session.id, None)
        if session.id in self.coming:
            # Another hub would welcome it, and never hear of its end.
            self._caller.ask_only_now(session.id)
        self.tell("session_closed", SessionBody(session.id), session.id)


def _pass_on(waiting: asyncio.Future[Answered], late: Callable[[Answered], None] | None, answered: Answered) -> None:
    if not waiting.done():
        waiting.set_result(answered)
    elif late is not None:
        late(answered)


def _as_refusal(question: Question, error: Exception) -> Refusal | PushRefusal:
    if isinstance(error, Refusal | PushRefusal):
        return error
    if isinstance(error, FabricError):
        log.warning("a call cannot be read", call=question.method, reason=str(error))
        return Refusal(Reason.INVALID, f"The edge cannot read this call: {error}")
    number = incident()
    log.raised("unexpected error", error, number=number, call=question.method)
    return Refusal(Reason.AUTHORITY_ERROR, f"Internal error {number}")
