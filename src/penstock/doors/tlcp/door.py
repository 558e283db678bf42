"""The TLCP door: every request of chapters 2 and 4, over HTTP and WebSocket alike, against the kernel and the adapter
sets.

A request is parsed in `wire.tlcp`, decided here and in the kernel, answered on its own link. Nothing it does can raise:
what is
unexpected becomes error 68 with an id that the log carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.config import Config
from penstock.doors.stream.census import Census
from penstock.doors.stream.response import HttpResponse
from penstock.doors.stream.websocket import WebSocketConnection
from penstock.doors.tlcp.body import body_text
from penstock.doors.tlcp.link import Link
from penstock.doors.tlcp.refusals import control_error, session_error
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.kernel import EndedSession, Kernel
from penstock.kernel.messages import Message
from penstock.kernel.ports import Admission, Authority, ClientFacts, MessageHandler
from penstock.kernel.session import Binding, Session
from penstock.kernel.subscription import SubscriptionRequest
from penstock.log import get
from penstock.wire.http1 import HttpError
from penstock.wire.tlcp import lines
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.differences import FORMATS
from penstock.wire.tlcp.errors import ControlCode, RequestError, SessionCode, combo, malformed
from penstock.wire.tlcp.parameters import parse_line
from penstock.wire.tlcp.requests import (
    BindSession,
    Constrain,
    Control,
    CreateSession,
    Destroy,
    ForceRebind,
    Heartbeat,
    Reconfigure,
    Request,
    SendMessage,
    StreamOptions,
    Subscribe,
    Unsubscribe,
    WebSocketCheck,
    parse_requests,
    shown_name,
    split_lines,
)
from penstock.wire.tlcp.version import (
    SUPPORTED_TEXT,
    Version,
    parse_version,
    subprotocol_version,
)

log = get(__name__)

# Requests whose failure is a CONERR; all others answer REQERR or ERROR.
SESSION_REQUESTS = ("create_session", "bind_session")

# A stream shorter than this gets no NOOP padding: there would be little left for data.
LEAST_PADDED_LENGTH = 4_096


# Lines of a batch that are answered before everybody else has a turn; no client sends so many.
LINES_PER_TURN = 200


@dataclass(frozen=True, slots=True)
class AdapterSet:
    """An adapter set as the door sees it."""

    name: str
    authority: Authority
    handler: MessageHandler


class TlcpDoor:
    """Answers requests; one for all connections of the streaming port."""

    def __init__(self, config: Config, kernel: Kernel, sets: Mapping[str, AdapterSet]) -> None:
        self._config = config
        self._kernel = kernel
        self._sets = sets
        self._codecs: dict[tuple[Version, str], TlcpCodec] = {}
        self._session_census = Census(config.limits.sessions_per_address)
        kernel.observer = self

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
        except Exception:
            self._refuse(response, name, _unexpected(name, None))
        else:
            await self._answer(response, name, text, version, query)
        if response.session is None and not response.finished:
            response.finish(False)

    async def answer_message(self, socket: WebSocketConnection, message: str) -> None:
        """Answer the requests of one WebSocket message."""
        name, text = _split_message(message)
        version = subprotocol_version(socket.subprotocol)
        assert version is not None
        await self._answer(socket, name, text, version, {})

    def refuse_message(self, socket: WebSocketConnection, message: str) -> None:
        """Say no to a message that comes while too many others wait."""
        name, _ = _split_message(message)
        limit = self._config.limits.max_unanswered_requests
        code = SessionCode.OVERLOADED if name in SESSION_REQUESTS else ControlCode.INTERNAL
        text = f"More than {limit} unanswered requests on this connection"
        self._refuse(socket, name, RequestError(int(code), text))

    def choose_subprotocol(self, offered: Sequence[str]) -> str:
        """The first subprotocol of the TLCP family.

        One of a version not spoken here is taken too: its requests get error 65.
        """
        for subprotocol in offered:
            if subprotocol_version(subprotocol) is not None:
                return subprotocol
        raise HttpError(
            400,
            f"No TLCP subprotocol is offered; expected TLCP-2.4.0.lightstreamer.com or the like: {SUPPORTED_TEXT}",
        )

    # -- requests -------------------------------------------------------------------------------------------------

    async def _answer(self, link: Link, name: str, text: str, version_name: str, query: Mapping[str, str]) -> None:
        try:
            if name == "wsok":
                if not link.websocket:
                    raise malformed("wsok is allowed on a WebSocket only")
                link.write([lines.WSOK])
                return
            version = parse_version(version_name)
            batch = split_lines(text)
            step = len(batch) if name in SESSION_REQUESTS else LINES_PER_TURN
            for start in range(0, len(batch), step):
                if start:
                    await asyncio.sleep(0)
                await self._answer_all(link, name, parse_requests(name, batch[start : start + step], query), version)
        except RequestError as error:
            self._refuse(link, name, error)

    async def _answer_all(
        self, link: Link, name: str, requests: Sequence[Request | RequestError], version: Version
    ) -> None:
        for request in requests:
            try:
                if isinstance(request, RequestError):
                    raise request
                self._log_unknown(request)
                await self._answer_one(link, request, version)
            except RequestError as error:
                self._refuse(link, name, error)
            except Exception:
                request_id = request.request_id if isinstance(request, Control) else None
                self._refuse(link, name, _unexpected(name, request_id or None))

    def _refuse(self, link: Link, name: str, error: RequestError) -> None:
        log.debug("request refused", request=shown_name(name), code=int(error.code), reason=error.message)
        if name in SESSION_REQUESTS:
            link.write([lines.conerr(error.code, error.message)])
        else:
            link.write([lines.refused(error.request_id, error.code, error.message)])

    def _log_unknown(self, request: Request) -> None:
        if request.unknown:
            log.debug("unknown parameters ignored", names=",".join(request.unknown)[:200])

    async def _answer_one(self, link: Link, request: Request, version: Version) -> None:
        if isinstance(request, CreateSession):
            await self._create_session(link, request, version)
        elif isinstance(request, BindSession):
            self._bind_session(link, request, version)
        elif isinstance(request, Heartbeat):
            self._heartbeat(link, request)
        elif isinstance(request, Control):
            await self._control_request(link, request, version)
        else:
            assert not isinstance(request, WebSocketCheck)
            raise malformed("Unknown request")

    # -- sessions -------------------------------------------------------------------------------------------------

    async def _create_session(self, link: Link, request: CreateSession, version: Version) -> None:
        _check_not_streaming(link)
        link.last_session = None
        adapter_set = self._sets.get(request.adapter_set)
        if adapter_set is None:
            raise session_error(
                Refusal(Reason.ADAPTER_SET, f"Requested Adapter Set not available: {request.adapter_set[:60]}")
            )
        admission = await self._authenticate(adapter_set, request, link)
        if link.lost:
            return
        session = self._open_session(adapter_set, request, admission, version, link)
        try:
            for control in request.controls:
                await self._combo_control(session, control)
            if not link.lost:
                self._bind(link, session, request.stream, None, is_new=True)
                link.last_session = session.id
        finally:
            if session.channel is None and link.last_session != session.id:
                session.close(None, "")

    async def _authenticate(self, adapter_set: AdapterSet, request: CreateSession, link: Link) -> Admission:
        facts = ClientFacts(link.address, link.secure, link.headers)
        patience = None if request.ttl_millis is None else request.ttl_millis / 1000
        try:
            async with asyncio.timeout(patience):
                return await adapter_set.authority.authenticate(request.user, request.password, facts)
        except TimeoutError:
            raise RequestError(
                int(SessionCode.OVERLOADED), f"No answer within LS_ttl_millis={request.ttl_millis}"
            ) from None
        except Refusal as refusal:
            raise session_error(refusal) from None
        except Exception:
            log.exception("authentication failed unexpectedly", adapter_set=adapter_set.name)
            raise RequestError(
                int(SessionCode.AUTHORITY_ERROR), "The metadata adapter failed while checking the credentials"
            ) from None

    def _codec(self, version: Version, accepted: Sequence[str] | None) -> TlcpCodec:
        """The codec for a client; those that accept the same differences share one."""
        formats = FORMATS if accepted is None else "".join(name for name in FORMATS if name in accepted)
        codec = self._codecs.get((version, formats))
        if codec is None:
            codec = TlcpCodec(version, formats, self._config.session.jsonpatch_min_length)
            self._codecs[version, formats] = codec
        return codec

    def _open_session(
        self, adapter_set: AdapterSet, request: CreateSession, admission: Admission, version: Version, link: Link
    ) -> Session:
        census = self._session_census
        if census.is_full(link.address):
            raise session_error(
                Refusal(
                    Reason.MAX_SESSIONS,
                    f"Configured maximum number of sessions per address reached: {census.limit}",
                )
            )
        try:
            session = self._kernel.open_session(self._codec(version, request.supported_diffs), adapter_set.handler)
        except Refusal as refusal:
            raise session_error(refusal) from None
        session.user = request.user
        session.adapter_set = adapter_set.name
        session.address = link.address
        session.admit(admission, request.max_bandwidth)
        session.tells_constraints = not request.stream.reduce_head
        census.enter(link.address)
        log.info(
            "session opened",
            session=short(session.id),
            adapter_set=adapter_set.name,
            user=request.user,
            address=link.address,
        )
        return session

    async def _combo_control(self, session: Session, control: Control) -> None:
        try:
            await self._execute(session, control)
        except RequestError as error:
            raise combo(error) from None
        if session.closed:
            raise RequestError(int(SessionCode.COMBO), "The control request has destroyed the session")

    def _bind_session(self, link: Link, request: BindSession, version: Version) -> None:
        _check_not_streaming(link)
        session_id = request.session or (link.last_session if link.websocket else None)
        if not session_id:
            raise RequestError(int(SessionCode.SYNTAX), "LS_session is missing")
        try:
            session = self._find(session_id, version)
        except EndedSession as ended:
            link.write([lines.end(ended.cause, ended.message)])
            return
        except Refusal as refusal:
            raise session_error(refusal) from None
        self._bind(link, session, request.stream, request.recovery_from, is_new=False)
        link.last_session = session.id

    def _find(self, session_id: str, version: Version) -> Session:
        session = self._kernel.find_session(session_id)
        codec = session.codec
        if not isinstance(codec, TlcpCodec) or codec.version.has_message_response != version.has_message_response:
            raise Refusal(
                Reason.PROTOCOL_MISMATCH,
                f"The session was opened with another protocol version than {version}",
            )
        return session

    def _bind(
        self, link: Link, session: Session, options: StreamOptions, recovery_from: int | None, is_new: bool
    ) -> None:
        settings = self._config.session
        length = options.content_length or settings.content_length
        length = max(settings.min_content_length, length)
        binding = Binding(
            polling=options.polling,
            polling_millis=options.polling_millis,
            idle_millis=options.idle_millis,
            keepalive_millis=options.keepalive_millis,
            inactivity_millis=options.inactivity_millis,
            send_sync=options.send_sync,
        )
        link.limit(length)
        announced = session.announced_address
        head = self._head(link, session, options, binding, is_new)
        if not link.websocket and not options.polling and length >= LEAST_PADDED_LENGTH and settings.noop_padding:
            assert isinstance(session.codec, TlcpCodec)
            head.append(session.codec.padding(settings.noop_padding))
        link.session = session
        try:
            session.bind(link, binding, head, recovery_from)
        except Refusal as refusal:
            link.session = None
            session.announced_address = announced
            raise session_error(refusal) from None
        if link.congested and link.session is session:
            session.congest()

    def _head(
        self, link: Link, session: Session, options: StreamOptions, binding: Binding, is_new: bool
    ) -> list[bytes]:
        """CONOK and what introduces the connection; on a rebind only what has changed."""
        head: list[bytes] = []
        if is_new or not options.reduce_head:
            control_link = self._config.stream.control_link_address
            limit = self._config.limits.request_limit
            head.append(lines.conok(session.id, limit, session.keepalive_millis(binding), control_link))
        if not options.reduce_head:
            if not session.announced_address:  # Nor has the client been told the name.
                head.append(lines.line("SERVNAME", self._config.server.name))
            if link.address != session.announced_address:
                session.announced_address = link.address
                head.append(lines.line("CLIENTIP", link.address))
        return head

    # -- control --------------------------------------------------------------------------------------------------

    def _heartbeat(self, link: Link, request: Heartbeat) -> None:
        session_id = request.session or link.last_session
        if session_id:
            # The specification wants no error for an unknown session here.
            with contextlib.suppress(Refusal):
                self._kernel.find_session(session_id).touch()
        if not link.websocket:
            link.write([lines.HEARTBEAT_OK])

    async def _control_request(self, link: Link, request: Control, version: Version) -> None:
        session_id = request.session or link.last_session
        if not session_id:
            raise RequestError(int(ControlCode.UNKNOWN_SESSION), "LS_session is missing", request.request_id)
        try:
            session = self._find(session_id, version)
        except Refusal as refusal:
            raise control_error(refusal, request.request_id) from None
        session.touch()
        await self._execute(session, request)
        if not link.websocket or _wants_ack(request):
            link.write([lines.reqok(request.request_id)])

    async def _execute(self, session: Session, request: Control) -> None:
        try:
            if isinstance(request, Subscribe):
                await self._subscribe(session, request)
            elif isinstance(request, Unsubscribe):
                session.unsubscribe(request.subscription)
            elif isinstance(request, Reconfigure):
                subscription = session.subscription(request.subscription)
                if request.changes_frequency:
                    subscription.reconfigure(request.max_frequency)
                else:
                    subscription.confirm()
            elif isinstance(request, Constrain):
                if request.changes_bandwidth:
                    session.constrain(request.max_bandwidth)
                else:
                    session.confirm_constraints()
            elif isinstance(request, ForceRebind):
                session.rebind(request.polling_millis, request.close_socket)
            elif isinstance(request, Destroy):
                _destroy(session, request)
            elif isinstance(request, SendMessage):
                message = Message(request.message, request.sequence, request.progressive, request.outcome)
                session.messages.submit(message, request.max_wait_millis)
        except Refusal as refusal:
            raise control_error(refusal, request.request_id) from None

    async def _subscribe(self, session: Session, request: Subscribe) -> None:
        feed = self._kernel.feed(session.adapter_set, request.data_adapter)
        mode = Mode(request.mode)
        try:
            grant = await self._sets[session.adapter_set].authority.resolve(
                session.user, request.data_adapter, request.group, request.schema, mode, request.selector
            )
        except Refusal:
            raise
        except Exception:
            log.exception("subscription failed unexpectedly", adapter_set=session.adapter_set)
            raise RequestError(
                int(ControlCode.AUTHORITY_ERROR),
                "The metadata adapter failed on this subscription",
                request.request_id,
            ) from None
        if session.closed:
            raise Refusal(Reason.UNKNOWN_SESSION, "The session has been closed")
        session.subscribe(
            SubscriptionRequest(
                number=request.subscription,
                feed=feed,
                grant=grant,
                mode=mode,
                snapshot=request.snapshot,
                snapshot_length=request.snapshot_length,
                max_frequency=request.max_frequency,
                unfiltered=request.unfiltered,
                buffer_size=request.buffer_size,
            )
        )

    # -- the kernel's observer ------------------------------------------------------------------------------------

    def session_closed(self, session: Session, cause: int | None, message: str) -> None:
        self._session_census.leave(session.address)
        log.info("session closed", session=short(session.id), cause=cause, reason=message or "the client has gone")


def short(session_id: str) -> str:
    """Enough of an identifier to follow a session through a log, and nothing that would let a reader use it."""
    return session_id[:9]


def _unexpected(name: str, request_id: str | None) -> RequestError:
    """Error 68 for the exception being handled, with an id that the log carries too."""
    incident = secrets.token_hex(4)
    log.exception("unexpected error", incident=incident, request=name)
    code = SessionCode.INTERNAL if name in SESSION_REQUESTS else ControlCode.INTERNAL
    return RequestError(int(code), f"Internal error {incident}", request_id)


def _split_message(message: str) -> tuple[str, str]:
    name, _, text = message.partition("\r\n")
    return name, text


def _check_not_streaming(link: Link) -> None:
    if link.websocket and link.session is not None:
        raise RequestError(int(SessionCode.ALREADY_STREAMING), "A session is already bound to this WebSocket")


def _wants_ack(request: Control) -> bool:
    return request.ack if isinstance(request, Subscribe | Unsubscribe | SendMessage) else True


def _destroy(session: Session, request: Destroy) -> None:
    if request.cause_code is None:
        code, message = int(Cause.DESTROYED_BY_CLIENT), "Destroy invoked by client"
    else:
        code, message = min(0, request.cause_code), request.cause_message or "null"
    session.close(code, message, request.close_socket)
