"""The TLCP door: every request of chapters 2 and 4, over HTTP and WebSocket alike, against the kernel and the adapter
sets.

A request is parsed in `wire.tlcp`, decided here and in the kernel, answered on its own link. Nothing it does can raise:
what is
unexpected becomes error 68 with an id that the log carries.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from penstock.doors.reception import Reception, destroy, incident
from penstock.doors.stream.body import BadBody, body_text
from penstock.doors.stream.link import Link
from penstock.doors.stream.response import HttpResponse
from penstock.doors.stream.websocket import WebSocketConnection
from penstock.doors.tlcp.refusals import control_error, session_error
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.kernel import EndedSession
from penstock.kernel.messages import Message
from penstock.kernel.session import Binding, Session
from penstock.log import get
from penstock.wire.form import FormError, parse_line, shown_name, split_lines
from penstock.wire.http1 import HttpError
from penstock.wire.tlcp import lines
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.differences import FORMATS
from penstock.wire.tlcp.errors import ControlCode, RequestError, SessionCode, combo, form_error, malformed
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

# Lines of a batch that are answered before everybody else has a turn; no client sends so many.
LINES_PER_TURN = 200


class TlcpDoor:
    """Answers requests; one for all connections of the streaming port."""

    def __init__(self, reception: Reception) -> None:
        self.reception = reception
        self._config = reception.config
        self._kernel = reception.kernel
        self._codecs: dict[tuple[Version, str], TlcpCodec] = {}

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
        try:
            chosen = self.reception.find_set(request.adapter_set)
            codec = self._codec(version, request.supported_diffs)
            session = await self.reception.admit(
                chosen,
                codec,
                request.user,
                request.password,
                request.max_bandwidth,
                link,
                request.client_id,
                request.ttl_millis,
            )
        except Refusal as refusal:
            raise session_error(refusal) from None
        if session is None:
            return
        session.tells_constraints = not request.stream.reduce_head
        try:
            for control in request.controls:
                await self._combo_control(session, control)
            if not link.lost:
                self._bind(link, session, request.stream, None, is_new=True)
                link.last_session = session.id
        finally:
            if session.channel is None and link.last_session != session.id:
                session.close(None, "")

    def _codec(self, version: Version, accepted: Sequence[str] | None) -> TlcpCodec:
        """The codec for a client; those that accept the same differences share one. None: all that its version has."""
        if not version.has_differences:
            formats = ""
        else:
            formats = FORMATS if accepted is None else "".join(name for name in FORMATS if name in accepted)
        codec = self._codecs.get((version, formats))
        if codec is None:
            codec = TlcpCodec(version, formats, self._config.session.jsonpatch_min_length)
            self._codecs[version, formats] = codec
        return codec

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
        if not isinstance(codec, TlcpCodec) or not codec.version.reads_alike(version):
            raise Refusal(
                Reason.PROTOCOL_MISMATCH,
                f"The session was opened with another protocol version than {version}",
            )
        return session

    def _bind(
        self, link: Link, session: Session, options: StreamOptions, recovery_from: int | None, is_new: bool
    ) -> None:
        binding = Binding(
            polling=options.polling,
            polling_millis=options.polling_millis,
            idle_millis=options.idle_millis,
            keepalive_millis=options.keepalive_millis,
            inactivity_millis=options.inactivity_millis,
            send_sync=options.send_sync,
        )
        announced = session.announced_address
        head = self._head(link, session, options, binding, is_new)
        length = self.reception.stream_length(options.content_length)
        filling = self.reception.filling(link, binding, length)
        if filling:
            assert isinstance(session.codec, TlcpCodec)
            head.append(session.codec.padding(filling))
        try:
            self.reception.bind(link, session, binding, head, length, recovery_from)
        except Refusal as refusal:
            session.announced_address = announced
            raise session_error(refusal) from None

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
                await self.reception.subscribe(session, request.subscription, request)
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
                destroy(session, request.cause_code, request.cause_message, request.close_socket)
            elif isinstance(request, SendMessage):
                message = Message(request.message, request.sequence, request.progressive, request.outcome)
                session.messages.submit(message, request.max_wait_millis)
        except Refusal as refusal:
            raise control_error(refusal, request.request_id) from None


def _unexpected(name: str, request_id: str | None) -> RequestError:
    """Error 68 for the exception being handled, with an id that the log carries too."""
    code = SessionCode.INTERNAL if name in SESSION_REQUESTS else ControlCode.INTERNAL
    return RequestError(int(code), incident(name), request_id)


def _split_message(message: str) -> tuple[str, str]:
    name, _, text = message.partition("\r\n")
    return name, text


def _check_not_streaming(link: Link) -> None:
    if link.websocket and link.session is not None:
        raise RequestError(int(SessionCode.ALREADY_STREAMING), "A session is already bound to this WebSocket")


def _wants_ack(request: Control) -> bool:
    return request.ack if isinstance(request, Subscribe | Unsubscribe | SendMessage) else True
