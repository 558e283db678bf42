"""Sessions of TLCP: how they are opened and bound, and what the answers to both begin with.

Everything else is in `door`. Specification: TLCP chapter 2, session creation and binding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from penstock.doors.reception import Reception
from penstock.doors.stream.link import StreamLink
from penstock.doors.tlcp.refusals import session_error
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.kernel import EndedSession
from penstock.kernel.session import Binding, Session
from penstock.wire.tlcp import lines
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.control import Control
from penstock.wire.tlcp.differences import FORMATS
from penstock.wire.tlcp.errors import RequestError, SessionCode
from penstock.wire.tlcp.requests import BindSession, CreateSession, StreamOptions
from penstock.wire.tlcp.version import Version

# The rest of a request that has to wait.
Later = Callable[[], Awaitable[None]]

# Carries out a control request that is part of a `create_session`; raises a RequestError.
Combo = Callable[[Session, Control], Awaitable[None]]


class TlcpSessions:
    """One for the door."""

    def __init__(self, reception: Reception, combo: Combo) -> None:
        self._reception = reception
        self._combo = combo
        self._config = reception.config
        self._codecs: dict[tuple[Version, str], TlcpCodec] = {}

    def create(self, link: StreamLink, request: CreateSession, version: Version) -> Later | None:
        """Open a session and bind it; what is left to do if something has to be waited for."""
        _check_not_streaming(link)
        link.last_session = None
        try:
            arguments = (
                self._reception.find_set(request.adapter_set),
                self._codec(version, request.supported_diffs),
                request.user,
                request.password,
                request.max_bandwidth,
                link,
                request.client_id,
            )
            if request.controls:
                # Each of them may have to wait.
                return partial(self._finish, link, request, partial(self._reception.admit, *arguments))
            found = self._reception.admit_at_once(*arguments)
        except Refusal as refusal:
            raise session_error(refusal) from None
        if not isinstance(found, Session):
            return partial(self._finish, link, request, found)
        found.tells_constraints = not request.stream.reduce_head
        try:
            self._bind_new(link, found, request.stream)
        finally:
            _close_unbound(link, found)
        return None

    async def _finish(
        self, link: StreamLink, request: CreateSession, answer: Callable[[], Awaitable[Session | None]]
    ) -> None:
        """With the client's timeout, if it gives one."""
        millis = request.ttl_millis
        try:
            async with asyncio.timeout(None if millis is None else millis / 1000):
                await self._open_session(link, request, answer)
        except TimeoutError:
            raise RequestError(int(SessionCode.OVERLOADED), f"No answer within LS_ttl_millis={millis}") from None

    async def _open_session(
        self, link: StreamLink, request: CreateSession, answer: Callable[[], Awaitable[Session | None]]
    ) -> None:
        try:
            session = await answer()
        except Refusal as refusal:
            raise session_error(refusal) from None
        if session is None:
            return
        session.tells_constraints = not request.stream.reduce_head
        try:
            for control in request.controls:
                await self._combo(session, control)
            if not link.lost:
                self._bind_new(link, session, request.stream)
        finally:
            _close_unbound(link, session)

    def _bind_new(self, link: StreamLink, session: Session, options: StreamOptions) -> None:
        self._bind(link, session, options, None, is_new=True)
        link.last_session = session.id

    def _codec(self, version: Version, accepted: Sequence[str] | None) -> TlcpCodec:
        """The codec for a client; those that accept the same differences share one. None: all of its version."""
        if not version.has_differences:
            formats = ""
        else:
            formats = FORMATS if accepted is None else "".join(name for name in FORMATS if name in accepted)
        codec = self._codecs.get((version, formats))
        if codec is None:
            codec = TlcpCodec(version, formats, self._config.session.jsonpatch_min_length)
            self._codecs[version, formats] = codec
        return codec

    def bind(self, link: StreamLink, request: BindSession, version: Version) -> None:
        """Have a session go on over this link."""
        _check_not_streaming(link)
        session_id = request.session or (link.last_session if link.websocket else None)
        if not session_id:
            raise RequestError(int(SessionCode.SYNTAX), "LS_session is missing")
        try:
            session = self.find(session_id, version)
        except EndedSession as ended:
            link.write([lines.end(ended.cause, ended.message)])
            return
        except Refusal as refusal:
            raise session_error(refusal) from None
        self._bind(link, session, request.stream, request.recovery_from, is_new=False)
        link.last_session = session.id

    def find(self, session_id: str, version: Version) -> Session:
        """The session of a request; raises a Refusal, also if its client speaks another version."""
        session = self._reception.find(session_id)
        codec = session.codec
        if not isinstance(codec, TlcpCodec) or not codec.version.reads_alike(version):
            raise Refusal(
                Reason.PROTOCOL_MISMATCH,
                f"The session was opened with another protocol version than {version}",
            )
        return session

    def _bind(
        self, link: StreamLink, session: Session, options: StreamOptions, recovery_from: int | None, is_new: bool
    ) -> None:
        binding = Binding(
            polling=options.polling,
            polling_millis=options.polling_millis,
            idle_millis=options.idle_millis,
            keepalive_millis=options.keepalive_millis,
            inactivity_millis=options.inactivity_millis,
            send_sync=options.send_sync,
        )
        announced = session.announced_address, session.announced_name
        head = self._head(link, session, options, binding, is_new)
        if is_new and not options.reduce_head and binding.idle_millis:
            # A poll waits if there is nothing to send, and a new session is sent at least its constraints. Clients of
            # version 2.1 give up on a creation that waits.
            binding = replace(binding, idle_millis=0)
        length = self._reception.stream_length(options.content_length)
        filling = self._reception.filling(link, binding, length)
        if filling:
            assert isinstance(session.codec, TlcpCodec)
            head.append(session.codec.padding(filling))
        try:
            self._reception.bind(link, session, binding, head, length, recovery_from)
        except Refusal as refusal:
            session.announced_address, session.announced_name = announced
            raise session_error(refusal) from None

    def _head(
        self, link: StreamLink, session: Session, options: StreamOptions, binding: Binding, is_new: bool
    ) -> list[bytes]:
        """CONOK and the lines after it; on a rebind only what has changed."""
        head: list[bytes] = []
        if is_new or not options.reduce_head:
            limit = self._config.limits.request_limit
            head.append(lines.conok(session.id, limit, session.keepalive_millis(binding), link.entrance.control_link))
        if not options.reduce_head:
            # Each listener may have a name of its own.
            if link.entrance.server_name != session.announced_name:
                session.announced_name = link.entrance.server_name
                head.append(lines.line("SERVNAME", link.entrance.server_name))
            if link.address != session.announced_address:
                session.announced_address = link.address
                head.append(lines.line("CLIENTIP", link.address))
        return head


def _check_not_streaming(link: StreamLink) -> None:
    if link.websocket and link.session is not None:
        raise RequestError(int(SessionCode.ALREADY_STREAMING), "A session is already bound to this WebSocket")


def _close_unbound(link: StreamLink, session: Session) -> None:
    """A new session whose client has not been told of it is of no use."""
    if session.channel is None and link.last_session != session.id:
        session.close(None, "")
