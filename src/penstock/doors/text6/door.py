"""The text protocol's door: requests without LS_protocol, over HTTP, against the same sessions, items and adapters.

A codec and a mapping: how requests read is in `wire.text6`, what they do is in `doors.reception` and the kernel.
Specification: text protocol 6.0.2, chapter 4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from penstock.doors.elsewhere import SessionElsewhere, owner, passed_on
from penstock.doors.reception import Reception, destroy, unexpected
from penstock.doors.stream.response import HttpResponse
from penstock.doors.text6.refusals import LOST_SESSION, request_error
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.kernel import EndedSession
from penstock.kernel.messages import Message
from penstock.kernel.session import Binding, Session
from penstock.log import RequestNumber, get
from penstock.transport.body import BadBody, body_text
from penstock.wire.form import FormError, parse_line, split_lines
from penstock.wire.text6 import answers
from penstock.wire.text6.codec import Text6Codec
from penstock.wire.text6.errors import RequestError, protocol_error
from penstock.wire.text6.requests import (
    BindSession,
    BoundRequest,
    Constrain,
    CreateSession,
    Destroy,
    ForceRebind,
    Reconfigure,
    Request,
    SendMessage,
    Start,
    StreamOptions,
    Subscribe,
    Unsubscribe,
    parse_requests,
)

log = get(__name__)

BIND = "bind_session"

# Lines of a batch that are answered before others get a turn; no client sends so many.
LINES_PER_TURN = 200


class Text6Door:
    """Answers requests; one for all connections of the streaming port."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._config = reception.config
        # All sessions share it, and so share what is encoded.
        self._codec = Text6Codec()

    async def answer_http(self, name: str, response: HttpResponse) -> None:
        """Answer one HTTP request; afterwards the response is finished or is a session's stream."""
        with RequestNumber():
            try:
                query = parse_line(response.request.query)
                lines = split_lines(body_text(response.request, self._config.limits.request_limit))
                await self._answer(response, name, lines, query)
            except (RequestError, FormError, BadBody) as error:
                self._fail(response, name, str(error))
            except Exception:
                self._fail(response, name, unexpected(name))
        if response.session is None and not response.finished:
            response.finish(False)

    def _fail(self, response: HttpResponse, name: str, message: str) -> None:
        """An error without a code in this protocol is an HTTP error, and replaces all answers so far."""
        log.debug("request refused", request=name, reason=message)
        if response.session is None and not response.finished:
            response.fail(500, message)

    async def _answer(self, response: HttpResponse, name: str, lines: Sequence[str], query: Mapping[str, str]) -> None:
        """Answer the requests of a batch in order; their answers are written together, or an HTTP error instead."""
        found: list[bytes] = []
        for start in range(0, len(lines), LINES_PER_TURN):
            if start:
                await asyncio.sleep(0)
            for request in parse_requests(name, lines[start : start + LINES_PER_TURN], query):
                try:
                    if isinstance(request, RequestError):
                        raise request
                    if request.unknown:
                        log.debug("unknown parameters ignored", names=",".join(request.unknown)[:200])
                    found.append(await self._answer_one(response, request))
                except SessionElsewhere as elsewhere:
                    if not found and await self._move(response, elsewhere.worker, name, lines, query):
                        return
                    found.append(await self._relay(response, elsewhere.worker, name, lines[len(found)]))
                except RequestError as error:
                    if error.code is None:
                        raise
                    log.debug("request refused", request=name, code=int(error.code), reason=error.message)
                    found.append(answers.error(error.code, error.message))
        if response.session is None and not response.finished:
            response.write(found)

    async def _answer_one(self, response: HttpResponse, request: Request) -> bytes:
        """The answer to a request; empty when the response has become a session's stream."""
        try:
            if isinstance(request, CreateSession):
                await self._create_session(response, request)
                return b""
            assert isinstance(request, BoundRequest)
            session = self._find(request.session)
            if isinstance(request, BindSession):
                await self._constrain_anew(session, request.stream.max_bandwidth)
                self._bind(response, session, request.stream, is_new=False)
                return b""
            session.touch()
            await self._execute(session, request)
        except EndedSession as ended:
            return answers.ended(ended.cause) if isinstance(request, BindSession) else answers.SYNC_ERROR
        except Refusal as refusal:
            if refusal.reason in LOST_SESSION:
                return answers.SYNC_ERROR
            raise request_error(refusal) from None
        return answers.OK

    # -- sessions of neighbours -----------------------------------------------------------------------------------

    async def _move(
        self, response: HttpResponse, worker: str, name: str, lines: Sequence[str], query: Mapping[str, str]
    ) -> bool:
        """Have the neighbour go on with the connection that has the sessions of all these requests."""
        for request in parse_requests(name, lines, query):
            session = request.session if isinstance(request, BoundRequest) else None
            if owner(self._reception.neighbours, session) != worker:
                return False
        return await response.move(worker)

    async def _relay(self, response: HttpResponse, worker: str, name: str, line: str) -> bytes:
        """What the neighbour answers to this request alone; one that binds needs a connection of its own."""
        neighbours = self._reception.neighbours
        assert neighbours is not None
        if name == BIND:
            return answers.SYNC_ERROR
        answer = await passed_on(neighbours, worker, response, name, response.query, line)
        if answer is None:
            return answers.SYNC_ERROR
        status, body = answer
        if status != 200:
            raise protocol_error(body.decode(errors="replace").strip())
        return body

    def _find(self, session_id: str) -> Session:
        session = self._reception.find(session_id)
        if session.codec is not self._codec:
            raise Refusal(Reason.PROTOCOL_MISMATCH, "The session was opened with TLCP")
        return session

    # -- sessions -------------------------------------------------------------------------------------------------

    async def _create_session(self, response: HttpResponse, request: CreateSession) -> None:
        if not response.entrance.new_sessions:
            # A code would have clients come again, or take it for a fault of their version.
            raise protocol_error("Sessions cannot be opened at this port")
        reception = self._reception
        chosen = reception.find_set(request.adapter_set)
        session = await reception.admit(
            chosen,
            self._codec,
            request.user,
            request.password,
            request.stream.max_bandwidth,
            response,
            request.client_id,
            recoverable=False,
        )
        if session is None:
            return
        session.tells_constraints = False
        self._bind(response, session, request.stream, is_new=True)

    def _bind(self, response: HttpResponse, session: Session, options: StreamOptions, is_new: bool) -> None:
        binding = Binding(
            polling=options.polling,
            polling_millis=options.polling_millis,
            idle_millis=options.idle_millis,
            keepalive_millis=options.keepalive_millis,
            send_sync=False,
        )
        length = self._reception.stream_length(options.content_length)
        info = options.report_info
        header = answers.header(
            session.id,
            session.keepalive_millis(binding),
            session.allowed_bandwidth,
            session.admission.manages_bandwidth,
            control_address=response.entrance.control_link,
            request_limit=self._config.limits.request_limit if info else None,
            server_name=response.entrance.server_name if info and is_new else None,
            preamble=self._reception.filling(response, binding, length),
        )
        self._reception.bind(response, session, binding, [header], length)

    async def _constrain_anew(self, session: Session, max_bandwidth: float | None) -> None:
        """A client says with each connection what it wants; something new is decided about."""
        if max_bandwidth != session.requested_bandwidth:
            await _done(self._reception.constrain(session, max_bandwidth))

    # -- control --------------------------------------------------------------------------------------------------

    async def _execute(self, session: Session, request: BoundRequest) -> None:
        if isinstance(request, Subscribe):
            await _done(self._reception.subscribe(session, request.table, request, request.silent))
        elif isinstance(request, Start):
            session.subscription(request.table).activate()
        elif isinstance(request, Unsubscribe):
            session.unsubscribe(request.table)
        elif isinstance(request, Reconfigure):
            session.subscription(request.table)
            if request.changes_frequency:
                await _done(self._reception.reconfigure(session, request.table, request.max_frequency))
        elif isinstance(request, Constrain):
            await _done(self._reception.constrain(session, request.max_bandwidth))
        elif isinstance(request, ForceRebind):
            session.rebind()
        elif isinstance(request, Destroy):
            destroy(session, request.cause_code, None)
        elif isinstance(request, SendMessage):
            await self._send(session, request)
        else:
            raise protocol_error("Unknown request")

    async def _send(self, session: Session, request: SendMessage) -> None:
        """Accept a message; the answer to a synchronous one is its outcome."""
        if not request.is_synchronous:
            message = Message(request.message, request.sequence, request.progressive, True)
            later = self._reception.submit(session, message, request.max_wait_millis)
            if later is not None:
                await later()
            return
        outcome: asyncio.Future[tuple[int | None, str]] = asyncio.get_running_loop().create_future()

        def settled(code: int | None, text: str) -> None:
            if not outcome.done():
                outcome.set_result((code, text))

        session.messages.submit(Message(request.message, None, None, False, settled), None)
        code, text = await outcome
        if session.closed:
            raise Refusal(Reason.UNKNOWN_SESSION, "The session has been closed")
        if code is not None:
            raise RequestError(code, text)


async def _done(later: Callable[[], Awaitable[None]] | None) -> None:
    """Wait for what is left to do, if anything is."""
    if later is not None:
        await later()
