"""The TLCP door: every request of chapters 2 and 4, over HTTP and WebSocket alike, against the kernel and the adapter
sets.

A request is parsed in `wire.tlcp`, decided here and in the kernel, answered on its own link. How sessions are opened
and bound is in `sessions`. A request that has to wait for the metadata adapter gets a task and others go on
concurrently: which may not is in `order`, how many a WebSocket may have in `intake`. Nothing raises: what is unexpected
becomes error 68 with a number that is also in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from penstock.doors.elsewhere import SessionElsewhere, owner, passed_on, refusal_of
from penstock.doors.reception import Reception, check_open, destroy, unexpected
from penstock.doors.stream.link import StreamLink
from penstock.doors.stream.response import HttpResponse
from penstock.doors.tlcp.asked import REQUESTS_PER_TURN, Asked
from penstock.doors.tlcp.intake import SocketIntake
from penstock.doors.tlcp.order import Order, Subject, is_awaited, subject
from penstock.doors.tlcp.push import PushCounter, PushDesk, push_error
from penstock.doors.tlcp.refusals import control_error, session_error
from penstock.doors.tlcp.sessions import Later, TlcpSessions
from penstock.kernel.errors import Refusal
from penstock.kernel.identity import node_of
from penstock.kernel.messages import Message
from penstock.kernel.session import Session
from penstock.log import RequestNumber, get
from penstock.push.refusals import PushRefusal
from penstock.transport.body import BadBody, body_text
from penstock.wire.form import FormError, parse_line, shown_name, split_lines
from penstock.wire.http1 import HttpError, HttpRequest
from penstock.wire.tlcp import lines
from penstock.wire.tlcp.control import Control, Request
from penstock.wire.tlcp.errors import ControlCode, RequestError, SessionCode, combo, form_error, malformed
from penstock.wire.tlcp.push import PushControl
from penstock.wire.tlcp.requests import (
    BindSession,
    Constrain,
    CreateSession,
    Destroy,
    ForceRebind,
    Heartbeat,
    Reconfigure,
    SendMessage,
    Subscribe,
    Unsubscribe,
    WebSocketCheck,
    parse_requests,
)
from penstock.wire.tlcp.version import (
    SUPPORTED_TEXT,
    parse_version,
    subprotocol_version,
)

if TYPE_CHECKING:
    from penstock.doors.stream.websocket import WebSocketConnection

log = get(__name__)

# Requests whose failure is a CONERR; all others answer REQERR or ERROR.
SESSION_REQUESTS = ("create_session", "bind_session")

# The name of this protocol among the doors of a listener.
TLCP = "tlcp"


class Unfinished(NamedTuple):
    """A request that has to wait: the rest of it, and what it is about, if others have to wait for it."""

    later: Later
    about: Subject | None


# The session that a line names, at any position.
_NAMED_SESSION = re.compile(r"(?:^|&)LS_session=([^&]*)")


class TlcpDoor:
    """Answers requests; one for all connections of the streaming port."""

    def __init__(self, reception: Reception, desk: PushDesk | None = None) -> None:
        """`desk` does what clients ask for about push notifications; None: they are disabled."""
        self.reception = reception
        self.push = PushCounter(desk)
        self._config = reception.config
        self._kernel = reception.kernel
        self._sessions = TlcpSessions(reception, self._combo_control)
        self._order = Order()

    # -- transports -----------------------------------------------------------------------------------------------

    async def answer_http(self, name: str, response: HttpResponse) -> None:
        """Answer one HTTP request; afterwards the response is finished or is a session's stream."""
        request = response.request
        try:
            query = parse_line(request.query)
            version = query.get("LS_protocol")
            if version is None:
                raise RequestError(ControlCode.SYNTAX, f"LS_protocol is missing in the query string; {SUPPORTED_TEXT}")
            text = body_text(request, self._config.limits.request_limit)
        except RequestError as error:
            self._refuse(response, name, error)
        except FormError as error:
            self._refuse(response, name, form_error(error))
        except BadBody as error:
            self._refuse(response, name, malformed(str(error)))
        except Exception:
            self._refuse(response, name, _unexpected(name, None))
        else:
            await self._answer_all(response, self._read(name, text, version, query))
        if response.session is None and not response.finished:
            response.finish(False)

    async def _answer_all(self, response: HttpResponse, requests: Iterator[Asked]) -> None:
        """Answer the requests of one HTTP body, or have a neighbour do it whose sessions they are about."""
        first = next(requests)
        second = next(requests, None)
        if second is not None:
            batch = chain((first, second), requests)
            worker = self._owner(first)
            if worker is not None:
                everything = list(batch)
                if all(self._owner(asked) == worker for asked in everything) and await response.move(worker):
                    return
                batch = chain(everything)
            await self._answer_batch(response, batch)
            return
        # Most are alone, and need no task but the one that runs.
        number = RequestNumber()
        with number:
            unfinished = self._begin(response, first)
        if unfinished is not None:
            task = asyncio.current_task()
            assert task is not None
            self._order.add(unfinished.about, task)
            await self._finish(response, first, unfinished.later, number)
        elif response.destination is not None and not await response.move(response.destination):
            with number:
                self.stay(response, first)

    async def _answer_batch(self, response: HttpResponse, batch: Iterator[Asked]) -> None:
        """Answer the requests of one HTTP body; those that have to wait do so concurrently.

        Those of neighbours are answered in their place among the others.
        """
        response.is_batch = True
        most = self._config.limits.max_unanswered_requests
        waiting: set[asyncio.Task[None]] = set()
        try:
            for number, asked in enumerate(batch):
                if number and number % REQUESTS_PER_TURN == 0:
                    await asyncio.sleep(0)
                is_elsewhere = self._owner(asked) is not None
                if is_elsewhere and waiting:
                    await asyncio.wait(waiting)
                    waiting = set()
                task = self.answer(response, asked)
                if task is not None:
                    waiting.add(task)
                    if is_elsewhere:
                        await asyncio.wait(waiting)
                        waiting = set()
                    elif len(waiting) >= most:
                        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if waiting:
                await asyncio.wait(waiting)
        finally:
            for task in waiting:
                task.cancel()

    def new_intake(self, socket: WebSocketConnection) -> SocketIntake:
        """For the requests of a WebSocket that had none pending."""
        return SocketIntake(self, socket, self._config.limits.max_unanswered_requests)

    def read_message(self, subprotocol: str, message: str) -> Iterator[Asked]:
        """The requests of one WebSocket message, parsed on demand."""
        name, _, text = message.partition("\r\n")
        version = subprotocol_version(subprotocol)
        assert version is not None
        return self._read(name, text, version, {})

    def _read(self, name: str, text: str, version_name: str, query: Mapping[str, str]) -> Iterator[Asked]:
        try:
            if name == "wsok":
                yield Asked(name, WebSocketCheck(None), None, text)
                return
            version = parse_version(version_name)
            batch = split_lines(text)
            step = len(batch) if name in SESSION_REQUESTS else REQUESTS_PER_TURN
            for start in range(0, len(batch), step):
                part = batch[start : start + step]
                found = parse_requests(name, part, query)
                # Only control requests come one in a line.
                for request, line in zip(found, part if len(found) == len(part) else [text], strict=True):
                    yield Asked(name, request, version, line)
        except RequestError as error:
            yield Asked(name, error, None, text)
        except Exception:
            yield Asked(name, _unexpected(name, None), None, text)

    def hear_http(self, request: HttpRequest) -> None:
        """The same as `hear`, for a request that follows another one on its connection."""
        with contextlib.suppress(FormError, BadBody):
            default_session = parse_line(request.query).get("LS_session")
            self.hear(default_session, body_text(request, self._config.limits.request_limit))

    def hear(self, default_session: str | None, text: str) -> None:
        """Requests have come that have to wait for their turn: they show that their clients are alive."""
        for line in split_lines(text):
            found = _NAMED_SESSION.search(line)
            session_id = default_session if found is None else unquote_plus(found[1])
            if session_id:
                with contextlib.suppress(Refusal):
                    self._kernel.find_session(session_id).touch()

    def choose_subprotocol(self, offered: Sequence[str]) -> str:
        """The first subprotocol of the TLCP family.

        One of an unsupported version is accepted too: its requests get error 65.
        """
        for subprotocol in offered:
            if subprotocol_version(subprotocol) is not None:
                return subprotocol
        raise HttpError(
            400,
            f"No TLCP subprotocol is offered; expected TLCP-2.4.0.lightstreamer.com or the like: {SUPPORTED_TEXT}",
        )

    # -- requests -------------------------------------------------------------------------------------------------

    def answer(self, link: StreamLink, asked: Asked) -> asyncio.Task[None] | None:
        """Answer a request; one that has to wait is answered by the task that is returned."""
        number = RequestNumber()
        # In a context of its own: that of the connection would keep the memory for a number as long as it is open.
        unfinished = copy_context().run(self._begin_numbered, number, link, asked)
        if unfinished is None:
            return None
        task = asyncio.get_running_loop().create_task(self._finish(link, asked, unfinished.later, number))
        self._order.add(unfinished.about, task)
        return task

    def _begin_numbered(self, number: RequestNumber, link: StreamLink, asked: Asked) -> Unfinished | None:
        with number:
            return self._begin(link, asked)

    def _begin(self, link: StreamLink, asked: Asked) -> Unfinished | None:
        """Answer a request, or return what is left to do."""
        request = asked.request
        try:
            _check_served(link, asked)
            if isinstance(request, RequestError):
                raise request
            self._log_unknown(request)
            if isinstance(request, Control):
                return self._control_request(link, asked, request)
            return self._session_request(link, asked, request)
        except SessionElsewhere as elsewhere:
            return self._pass_on(link, asked, elsewhere.worker)
        except RequestError as error:
            self._refuse(link, asked.name, error)
        except Exception:
            self._refuse(link, asked.name, _unexpected(asked.name, asked.request_id))
        return None

    async def _finish(self, link: StreamLink, asked: Asked, later: Later, number: RequestNumber) -> None:
        with number:
            try:
                await later()
            except RequestError as error:
                self._refuse(link, asked.name, error)
            except Exception:
                self._refuse(link, asked.name, _unexpected(asked.name, asked.request_id))

    # -- sessions of neighbours -----------------------------------------------------------------------------------

    def _owner(self, asked: Asked) -> str | None:
        """The neighbour that has the session of a request, if one has."""
        neighbours = self.reception.neighbours
        return None if neighbours is None else owner(neighbours, asked.session)

    def _pass_on(self, link: StreamLink, asked: Asked, worker: str) -> Unfinished | None:
        """Have the neighbour answer that has the session: over this connection, or this request alone."""
        binds = isinstance(asked.request, BindSession)
        if link.leave_for(worker, binds):
            return None
        if binds:
            self.stay(link, asked)
            return None
        # The session may be the one that was bound last, as of now.
        query = link.query if asked.session else f"{link.query}&LS_session={link.last_session}"
        return Unfinished(partial(self._relay, link, asked, worker, query), None)

    async def _relay(self, link: StreamLink, asked: Asked, worker: str, query: str) -> None:
        neighbours = self.reception.neighbours
        assert neighbours is not None
        answer = await passed_on(neighbours, worker, link, asked.name, query, asked.line)
        if answer is None or answer[0] != 200:
            self.stay(link, asked)
        elif not link.websocket or not _is_silent(asked.request, answer[1]):
            link.write([answer[1]])

    def stay(self, link: StreamLink, asked: Asked) -> None:
        """Answer a request whose session a neighbour has, after that has not done it."""
        neighbours = self.reception.neighbours
        assert neighbours is not None
        refusal = refusal_of(neighbours, node_of(asked.session or link.last_session or ""))
        if isinstance(asked.request, Heartbeat):
            self._beaten(link)
        elif asked.name in SESSION_REQUESTS:
            self._refuse(link, asked.name, session_error(refusal))
        else:
            self._refuse(link, asked.name, control_error(refusal, asked.request_id or ""))

    def _refuse(self, link: StreamLink, name: str, error: RequestError) -> None:
        log.debug("request refused", request=shown_name(name), code=int(error.code), reason=error.message)
        if name in SESSION_REQUESTS:
            link.write([lines.conerr(error.code, error.message)])
        else:
            link.write([lines.refused(error.request_id, error.code, error.message)])

    def _log_unknown(self, request: Request) -> None:
        if request.unknown:
            log.debug("unknown parameters ignored", names=",".join(request.unknown)[:200])

    def _session_request(self, link: StreamLink, asked: Asked, request: Request) -> Unfinished | None:
        if isinstance(request, WebSocketCheck):
            if not link.websocket:
                raise malformed("wsok is allowed on a WebSocket only")
            link.write([lines.WSOK])
            return None
        version = asked.version
        assert version is not None
        if isinstance(request, CreateSession):
            later = self._sessions.create(link, request, version)
            return None if later is None else Unfinished(later, None)
        if isinstance(request, BindSession):
            self._sessions.bind(link, request, version)
        elif isinstance(request, Heartbeat):
            self._heartbeat(link, request)
        else:
            raise malformed("Unknown request")
        return None

    # -- control --------------------------------------------------------------------------------------------------

    def _heartbeat(self, link: StreamLink, request: Heartbeat) -> None:
        session_id = request.session or link.last_session
        if session_id:
            # The specification wants no error for an unknown session here.
            with contextlib.suppress(Refusal):
                self.reception.find(session_id).touch()
        self._beaten(link)

    def _beaten(self, link: StreamLink) -> None:
        if not link.websocket:
            link.write([lines.HEARTBEAT_OK])

    def _control_request(self, link: StreamLink, asked: Asked, request: Control) -> Unfinished | None:
        session_id = request.session or link.last_session
        if not session_id:
            raise RequestError(int(ControlCode.UNKNOWN_SESSION), "LS_session is missing", request.request_id)
        assert asked.version is not None
        try:
            session = self._sessions.find(session_id, asked.version)
            session.touch()
            about = subject(session, request)
            before = self._order.last(about)
            if isinstance(request, PushControl):
                return Unfinished(partial(self._push_request, link, session, request, before), about)
            if before is None or is_awaited(session, request):
                later = self._execute(session, request)
            else:
                later = partial(self._follow, before, session, request)
        except Refusal as refusal:
            raise control_error(refusal, request.request_id) from None
        if later is None:
            self._acknowledge(link, request)
            return None
        return Unfinished(partial(self._acknowledge_after, link, request, later), about)

    async def _follow(self, before: asyncio.Task[None], session: Session, request: Control) -> None:
        """Carry out a request after the previous one about the same subject."""
        await asyncio.wait([before])
        check_open(session)
        later = self._execute(session, request)
        if later is not None:
            await later()

    async def _push_request(
        self, link: StreamLink, session: Session, request: PushControl, before: asyncio.Task[None] | None
    ) -> None:
        """Carry out a request about push notifications, after the previous one of its session."""
        try:
            if before is not None:
                await asyncio.wait([before])
                check_open(session)
            await self._serve_push(session, request, partial(self._acknowledge, link, request))
        except Refusal as refusal:
            raise control_error(refusal, request.request_id) from None

    async def _serve_push(self, session: Session, request: PushControl, acknowledge: Callable[[], None]) -> None:
        try:
            await self.push.serve(session, request, acknowledge)
        except PushRefusal as refusal:
            raise push_error(refusal, request) from None

    async def _combo_control(self, session: Session, control: Control) -> None:
        try:
            if isinstance(control, PushControl):
                await self._serve_push(session, control, _nothing)
            elif (later := self._execute(session, control)) is not None:
                await later()
        except Refusal as refusal:
            raise combo(control_error(refusal, control.request_id)) from None
        except RequestError as error:
            raise combo(error) from None
        if session.closed:
            raise RequestError(int(SessionCode.COMBO), "The control request has destroyed the session")

    async def _acknowledge_after(self, link: StreamLink, request: Control, later: Later) -> None:
        try:
            await later()
        except Refusal as refusal:
            raise control_error(refusal, request.request_id) from None
        self._acknowledge(link, request)

    def _acknowledge(self, link: StreamLink, request: Control) -> None:
        if not link.websocket or _wants_ack(request):
            link.write([lines.reqok(request.request_id)])

    def _execute(self, session: Session, request: Control) -> Later | None:
        """Carry out a request, or as much as can be done at once; raises a Refusal, and so does what is left."""
        if isinstance(request, Subscribe):
            return self.reception.subscribe(session, request.subscription, request)
        if isinstance(request, Unsubscribe):
            session.unsubscribe(request.subscription)
        elif isinstance(request, Reconfigure):
            if request.changes_frequency:
                return self.reception.reconfigure(session, request.subscription, request.max_frequency)
            session.subscription(request.subscription).confirm()
        elif isinstance(request, Constrain):
            if request.changes_bandwidth:
                return self.reception.constrain(session, request.max_bandwidth)
            session.confirm_constraints()
        elif isinstance(request, ForceRebind):
            session.rebind(request.polling_millis, request.close_socket)
        elif isinstance(request, Destroy):
            destroy(session, request.cause_code, request.cause_message, request.close_socket)
        elif isinstance(request, SendMessage):
            message = Message(request.message, request.sequence, request.progressive, request.outcome)
            return self.reception.submit(session, message, request.max_wait_millis)
        return None


def _unexpected(name: str, request_id: str | None) -> RequestError:
    """Error 68 for the exception being handled, with a number that is also in the log."""
    code = SessionCode.INTERNAL if name in SESSION_REQUESTS else ControlCode.INTERNAL
    return RequestError(int(code), unexpected(name), request_id)


def _check_served(link: StreamLink, asked: Asked) -> None:
    """Refuse what the listener that the request came by does not serve."""
    entrance = link.entrance
    if TLCP not in entrance.doors and asked.name in SESSION_REQUESTS:
        raise RequestError(int(SessionCode.CLIENT_TYPE), "TLCP clients are not served at this port")
    if TLCP not in entrance.doors and not isinstance(asked.request, WebSocketCheck):
        raise RequestError(int(ControlCode.SYNTAX), "LS_protocol: TLCP is not served at this port", asked.request_id)
    if isinstance(asked.request, CreateSession) and not entrance.new_sessions:
        raise RequestError(int(SessionCode.NOT_AT_THIS_PORT), "Sessions cannot be opened at this port")


def _nothing() -> None:
    """The parts of a combo request are not acknowledged."""


def _is_silent(request: Request | RequestError, answer: bytes) -> bool:
    """Whether an answer over HTTP is one that a WebSocket is not sent."""
    if isinstance(request, Control) and not _wants_ack(request):
        return answer.startswith(b"REQOK")
    return isinstance(request, Heartbeat)


def _wants_ack(request: Control) -> bool:
    return request.ack if isinstance(request, Subscribe | Unsubscribe | SendMessage) else True
