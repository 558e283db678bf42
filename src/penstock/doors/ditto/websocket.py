"""The socket of `/ws/2` on the API port: who may open one, and what passes between it and its `DittoConversation`.

The socket itself is in `transport.websocket`; what messages mean is in `connection`. Read next: docs/ditto.md, "The
socket".
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from penstock.doors.ditto.connection import DittoConversation
from penstock.doors.ditto.identity import Login
from penstock.doors.ditto.live import Edition
from penstock.doors.ditto.service import TwinService
from penstock.doors.ditto.streaming import answer_to
from penstock.doors.ditto.tasks import ConversationTasks
from penstock.doors.facts import request_id
from penstock.kernel.ports import ClientFacts
from penstock.log import get
from penstock.transport.http import HttpConnection
from penstock.transport.websocket import WebSocket, handshake
from penstock.wire.ditto.acks import labels_in
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.unsupported import NAMES, check_headers
from penstock.wire.http1 import HttpError, HttpRequest
from penstock.wire.websocket import Acceptance, message_frame

log = get(__name__)

T = TypeVar("T")

PATHS = ("/ws/2", "/ws/2/")

# Bytes of one message after decompression, enough for the largest thing; more is close code 1009.
MAX_MESSAGE_BYTES = 1_048_576

# Bytes that may wait to be sent. Beyond it no message and no history is read. High, because events cannot be merged.
HIGH_WATER = 262_144

# The close code when the server stops.
SERVICE_RESTART = 1012


class Sockets(ConversationTasks):
    """What the sockets share: the service, who is connected, and counters for the monitor."""

    def __init__(self, service: TwinService) -> None:
        super().__init__()
        self.service = service
        self.edition = Edition(service.losses)
        self.open: set[Socket] = set()

    def take_over(self, connection: HttpConnection, request: HttpRequest) -> None:
        """A request for a WebSocket; raises HttpError if there is none at this path."""
        if request.raw_path not in PATHS:
            raise HttpError(404, f"There is no WebSocket at this path; there is one at {PATHS[0]}.")
        acceptance = handshake(connection.http_port, request, may_compress=True)
        Arrival(self, connection, request, acceptance).start()


class Arrival:
    """A client that wants a socket, until it is authenticated: the pending answer, for the HTTP connection."""

    # transport.http.Answering: a client that closes its side before it is admitted is gone.
    needs_peer = True

    def __init__(
        self, sockets: Sockets, connection: HttpConnection, request: HttpRequest, acceptance: Acceptance
    ) -> None:
        self._sockets = sockets
        self._connection = connection
        self._request = request
        self._acceptance = acceptance
        self._is_gone = False
        # Labels of acknowledgements that the client will issue.
        self._declared: tuple[str, ...] = ()

    def start(self) -> None:
        self._connection.answer_by(self)
        self._sockets.run(self._authenticate(), self._authenticated)

    async def _authenticate(self) -> Login:
        """Authenticate the client. Raises DittoError."""
        connection, headers = self._connection, self._request.headers
        port = connection.client_port
        entrance = connection.entrance
        client = ClientFacts(
            connection.address,
            entrance.secure,
            headers,
            port,
            request_id=request_id(),
            listener=entrance.name,
            is_from_proxy=connection.is_from_proxy,
        )
        # An object that identifies the connection.
        login = await self._sockets.service.authenticate(headers, client, origin=object())
        given = {**dict(parse_qsl(self._request.query)), **headers}
        check_headers({name: given[name] for name in NAMES if name in given})
        self._declared = labels_in(given, "declared-acks") or ()
        return login

    def _authenticated(self, result: Login | Exception) -> None:
        if self._is_gone:
            return
        if isinstance(result, Exception):
            self._refuse(answer_to(result, PATHS[0]))
        elif self._connection.http_port.stopping:
            self._connection.refuse(HttpError(503, "The server is shutting down"))
        else:
            try:
                self._sockets.service.live.check_free(self._declared)
            except DittoError as error:
                self._refuse(error)
                return
            socket = Socket(self._sockets, self._connection, self._acceptance, result, self._declared)
            socket.start(self._connection, self._acceptance)

    def _refuse(self, error: DittoError) -> None:
        headers = [("Content-Type", "application/json")]
        if error.status == 401:
            headers += [("WWW-Authenticate", 'Basic realm="Ditto", charset="UTF-8"'), ("WWW-Authenticate", "Bearer")]
        body = json.dumps(error.as_value()).encode()
        self._connection.send_complete(self._request, error.status, headers, body, close=True)

    # -- transport.http.Answering ---------------------------------------------------------------------------------

    def body_arrived(self) -> None:
        """Such a request has no body."""

    def break_off(self, error: HttpError) -> None:
        self._is_gone = True
        self._connection.refuse(error)

    def peer_ended(self) -> None:
        """The client is gone then."""

    def congested_now(self) -> None:
        """Little is written."""

    def relieved(self) -> None:
        """Little is written."""

    def connection_lost(self) -> None:
        self._is_gone = True


class Socket(WebSocket):
    """One open socket of an authenticated client."""

    __slots__ = (
        "_connection",
        "_inbox",
        "_is_delivering",
        "_loop",
        "_reading",
        "_reason",
        "_received",
        "_run_timer",
        "_sent",
        "_user",
        "sockets",
    )

    high_water = HIGH_WATER
    # Binary messages have no meaning here, and get no answer.
    skips_binary = True
    # A client may wait for events for hours.
    pings = True

    def __init__(
        self,
        sockets: Sockets,
        connection: HttpConnection,
        acceptance: Acceptance,
        login: Login,
        declared: tuple[str, ...] = (),
    ) -> None:
        super().__init__(connection, acceptance, MAX_MESSAGE_BYTES)
        self.sockets = sockets
        self._loop = asyncio.get_running_loop()
        self._connection = DittoConversation(
            sockets.service,
            sockets.edition,
            login,
            self,
            self,
            self._loop.time,
            max_unanswered=self.http_port.config.limits.max_unanswered_requests,
            declared=declared,
        )
        # Messages that came in before reading stopped.
        self._inbox: deque[str] = deque()
        self._reading = True
        self._is_delivering = False
        self._run_timer: asyncio.TimerHandle | None = None
        # For the log: who it is, messages, and why the server has closed it.
        self._user = login.caller.names[0]
        self._received = self._sent = 0
        self._reason = ""
        sockets.open.add(self)
        log.info("socket opened", user=self._user, address=self.address, listener=self.entrance.name)
        self._schedule()

    # -- transport.websocket ---------------------------------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        return True

    @property
    def takes_more(self) -> bool:
        return self._reading

    def received(self, messages: list[str]) -> None:
        self._received += len(messages)
        self._inbox.extend(messages)
        self._deliver()

    def congested_now(self) -> None:
        self._connection.set_writable(False)

    def relieved(self) -> None:
        self._connection.set_writable(True)

    def gone(self) -> None:
        self.sockets.open.discard(self)
        if self._run_timer is not None:
            self._run_timer.cancel()
        self._connection.lost()
        log.info(
            "socket closed",
            user=self._user,
            address=self.address,
            reason=self._reason or "the client has disconnected",
            received=self._received,
            sent=self._sent,
        )

    def close(self, code: int, reason: str) -> None:
        self._reason = self._reason or reason
        super().close(code, reason)

    def close_if_idle(self) -> None:
        self.close(SERVICE_RESTART, "The server is shutting down")

    def _deliver(self) -> None:
        """Pass messages on as long as they are accepted."""
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._inbox and self._reading and self.is_open:
                self._connection.received(self._inbox.popleft())
        finally:
            self._is_delivering = False
        self._schedule()

    # -- time ------------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        due = None if self.lost else self._connection.due()
        if due is None or (self._run_timer is not None and self._run_timer.when() <= due):
            return
        if self._run_timer is not None:
            self._run_timer.cancel()
        self._run_timer = self._loop.call_at(due, self._run)

    def _run(self) -> None:
        self._run_timer = None
        self._connection.run()
        self._schedule()

    # -- ports.Work ------------------------------------------------------------------------------------------------

    def later(self, call: Callable[[], None]) -> None:
        self.sockets.later(call)

    def run(self, work: Coroutine[Any, Any, T], done: Callable[[T | Exception], None]) -> None:
        def finish(result: T | Exception) -> None:
            done(result)
            self._schedule()

        self.sockets.run(work, finish)

    # -- ports.DittoChannel ----------------------------------------------------------------------------------------

    def send(self, messages: list[bytes]) -> None:
        if self.is_open:
            self._sent += len(messages)
            deflate = self._reader.deflate
            self.write_frames(b"".join([message_frame(message, deflate) for message in messages]))

    def set_reading(self, reading: bool) -> None:
        self._reading = reading
        if reading:
            self._deliver()
        self.listen()
