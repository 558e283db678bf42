"""A client on a WebSocket that reconnects: it binds again, recovers, or opens a new session and subscribes again.

`async with connect("http://localhost:8080", adapter_set="WELCOME") as client:` then
`async for update in client.subscribe(["item1"], ["last_price"], data_adapter="STOCKS"):`. The protocol is in `tlcp`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Literal

import websockets.asyncio.client as socket_client
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from penstock.client import failed_socket
from penstock.client.address import socket_address
from penstock.client.errors import (
    ClientError,
    MessageRefused,
    OutcomeUnknown,
    ProtocolError,
    SessionLost,
    SubscriptionEnded,
    SubscriptionRefused,
    Unreachable,
)
from penstock.client.events import (
    ClientEvent,
    Ended,
    EndOfSnapshot,
    Looped,
    MessageDone,
    MessageFailed,
    Overflow,
    RequestDone,
    RequestFailed,
    SessionBound,
    SessionOpened,
    SessionRefused,
    Subscribed,
    Unsubscribed,
    Update,
)
from penstock.client.requests import OutgoingRequest, StreamWishes, subprotocol
from penstock.client.status import Status, StatusListener
from penstock.client.subscription import ItemUpdate, Subscription, SubscriptionWishes, names
from penstock.client.tlcp import MAX_LINE_BYTES, ClientState
from penstock.client.trust import trusting
from penstock.log import get
from penstock.wire.tlcp.errors import ControlCode, SessionCode
from penstock.wire.tlcp.version import NEWEST, Version

log = get(__name__)

# The wait before another attempt: at first, and at most; it doubles in between.
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0

# A connection that takes longer to open, to answer, or to say anything beyond its keep-alive time, is given up.
OPEN_SECONDS = 10.0
STALL_SECONDS = 3.0

# How long the server may take to answer the closing of the socket.
CLOSE_SECONDS = 2.0

# Codes of CONERR and END after which a new session is possible; all others are final.
RETRY_CODES = frozenset(
    (
        SessionCode.RECOVERY,
        SessionCode.OVERLOADED,
        SessionCode.AUTHORITY_UNAVAILABLE,
        SessionCode.MAX_LOAD,
        SessionCode.BLOCKED,
        SessionCode.UNKNOWN_SESSION,
        SessionCode.FOREIGN_SESSION,
        SessionCode.UNEXPECTED,
        SessionCode.REBOUND_ELSEWHERE,
        SessionCode.MAX_DURATION,
    )
)

# A message that is sent again after a cut and was known to the server already.
KNOWN_MESSAGE_CODES = (ControlCode.MESSAGE_TOO_LOW, ControlCode.MESSAGE_DUPLICATE)

# What client libraries report when the server has another number of items or fields than they expect.
WRONG_COUNT = 61

NOT_OPEN = "The client is not open; use it with `async with`"

MessageKey = tuple[str | None, int]


class _NewSession(Exception):
    """The session is gone, for the reason in the text; a new one is possible."""


class _Closed(Exception):
    """The session is gone as it was asked to."""


def connect(
    url: str,
    *,
    adapter_set: str | None = None,
    user: str | None = None,
    password: str | None = None,
    version: Version = NEWEST,
    tls: ssl.SSLContext | None = None,
    proxy: str | Literal[True] | None = True,
    on_status: StatusListener | None = None,
) -> Client:
    """A client for a server, to be used with `async with`; raises ValueError for an invalid address.

    `tls` is for addresses with https or wss; without it the system's authorities are trusted. `proxy=True` looks for
    one in the environment. `on_status` is called, on the event loop, when the connection is there, lost, and back.
    """
    return Client(url, adapter_set, user, password, version, tls, proxy, on_status)


class Client:
    """A session that is kept up. Made by `connect`."""

    def __init__(
        self,
        url: str,
        adapter_set: str | None,
        user: str | None,
        password: str | None,
        version: Version,
        tls: ssl.SSLContext | None,
        proxy: str | Literal[True] | None,
        on_status: StatusListener | None = None,
    ) -> None:
        secure = socket_address(url).startswith("wss:")  # Raises for an invalid address.
        if tls is not None and not secure:
            raise ValueError(f"{url!r}: tls is for addresses with https or wss")
        # Sessions opened so far; 1 as long as every cut could be recovered.
        self.sessions = 0
        self._url = url
        self._adapter_set = adapter_set
        self._user = user
        self._password = password
        self._tls = trusting() if secure and tls is None else tls
        self._on_status = on_status
        self._status = Status(False, 0.0)
        # When the server was last heard, on the loop's clock.
        self._heard = 0.0
        self._proxy = proxy
        self._state = ClientState(version)
        self._task: asyncio.Task[None] | None = None
        self._outbox: asyncio.Queue[OutgoingRequest] = asyncio.Queue()
        # Whether the session is bound to this socket: before that, requests wait.
        self._bound = False
        self._has_session = asyncio.Event()
        self._closing = False
        self._failure: ClientError | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS
        # All subscriptions that are wanted, and those the server knows, by number in this session.
        self._subscriptions: list[Subscription] = []
        self._numbers: dict[int, Subscription] = {}
        # One whose reader is behind what has come.
        self._crowded: Subscription | None = None
        # Requests without an answer, by identifier, to be sent again after a cut; and what some of them are about.
        self._unanswered: dict[str, OutgoingRequest] = {}
        self._adding: dict[str, int] = {}
        self._sending: dict[str, MessageKey] = {}
        self._outcomes: dict[MessageKey, asyncio.Future[str]] = {}
        self._progressives: dict[str | None, int] = {}

    async def __aenter__(self) -> Client:
        """Open the session; raises Unreachable if there is no connection, ProtocolError if there is another server than
        one for TLCP, SessionLost if it refuses.
        """
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run(opened))
        try:
            await opened
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Destroy the session and end all subscriptions."""
        self._closing = True
        task, self._task = self._task, None
        if task is not None:
            if self._bound and self._state.session_id is not None:
                self._send(self._state.destroy(close_socket=True))
                await asyncio.wait([task], timeout=CLOSE_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._end(self._failure)

    # -- what programs ask for ------------------------------------------------------------------------------------

    def subscribe(
        self,
        items: Sequence[str] | str,
        fields: Sequence[str] | str,
        *,
        mode: str = "MERGE",
        data_adapter: str | None = None,
        snapshot: bool | int = True,
        max_frequency: float | str | None = None,
    ) -> Subscription:
        """Subscribe to items; iterate over what is returned."""
        wishes = SubscriptionWishes(names(items), names(fields), mode, data_adapter, snapshot, max_frequency)
        subscription = Subscription(wishes, self._unsubscribe)
        if self._task is None or self._failure is not None:
            raise self._failure or ValueError(NOT_OPEN)
        self._subscriptions.append(subscription)
        if self._state.session_id is not None:
            self._subscribe(subscription)
        return subscription

    async def send_message(self, text: str, *, sequence: str | None = None, max_wait_millis: int | None = None) -> str:
        """Send a message and wait for its outcome: the adapter's response.

        Raises MessageRefused, or OutcomeUnknown when the session was lost in between. Messages of one sequence are
        processed in the order of the calls. While there is no session it waits for the next.
        """
        while self._state.session_id is None or self._task is None:
            if self._task is None or self._failure is not None:
                raise self._failure or ValueError(NOT_OPEN)
            self._has_session.clear()
            await self._has_session.wait()
        progressive = self._progressives[sequence] = self._progressives.get(sequence, 0) + 1
        key = (sequence, progressive)
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._outcomes[key] = outcome
        request = self._state.message(text, sequence=sequence, progressive=progressive, max_wait_millis=max_wait_millis)
        assert request.request_id is not None
        self._sending[request.request_id] = key
        self._send(request)
        try:
            return await outcome
        finally:
            self._outcomes.pop(key, None)

    # -- the connection -------------------------------------------------------------------------------------------

    async def _run(self, opened: asyncio.Future[None]) -> None:
        try:
            await self._keep_connected(opened)
        except Exception as error:
            # Whatever it is: somebody waits for the opening, or for updates, and would wait for ever.
            if not opened.done():
                opened.set_exception(error)
            self._end(error if isinstance(error, ClientError) else ClientError(str(error) or type(error).__name__))

    async def _keep_connected(self, opened: asyncio.Future[None]) -> None:
        while True:
            try:
                await self._connect(opened)
            except _Closed:
                return
            except _NewSession as end:
                reason = str(end)
            # An ImportError comes from a proxy of a kind that needs a package which is not there.
            except (OSError, WebSocketException, ProtocolError, ImportError) as error:
                failure = (
                    error
                    if isinstance(error, ClientError)
                    else Unreachable(failed_socket.reason(error, self._address(), self._proxy))
                )
                if not opened.done():
                    raise failure from error
                reason = str(failure)
            log.debug("connection lost", reason=reason)
            self._lose(reason)
            await asyncio.sleep(self._retry_seconds)
            self._retry_seconds = min(self._retry_seconds * 2, LAST_RETRY_SECONDS)

    # -- whether the server is heard ------------------------------------------------------------------------------

    def _lose(self, reason: str) -> None:
        since = self._status.since
        if self._status.connected:
            since = time.time() - (asyncio.get_running_loop().time() - self._heard)
        self._tell(Status(False, since, reason, self.sessions))

    def _tell(self, status: Status) -> None:
        if status != self._status:
            self._status = status
            if self._on_status is not None and not self._closing:
                self._on_status(status)

    async def _connect(self, opened: asyncio.Future[None]) -> None:
        """One connection, from its opening to its end."""
        async with socket_client.connect(
            self._address(),
            subprotocols=[Subprotocol(subprotocol(self._state.version))],
            ssl=self._tls,
            proxy=self._proxy,
            compression=None,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            # The server's PROBE does this, and reaches through proxies that answer pings themselves.
            ping_interval=None,
            max_size=MAX_LINE_BYTES,
        ) as socket:
            self._outbox = asyncio.Queue()
            writer = asyncio.get_running_loop().create_task(self._write(socket, self._outbox))
            try:
                await socket.send(self._stream_request().message())
                await self._read(socket, opened)
            finally:
                self._bound = False
                writer.cancel()

    def _address(self) -> str:
        return socket_address(self._url, self._state.control_link)

    def _stream_request(self) -> OutgoingRequest:
        if self._state.session_id is not None:
            return self._state.bind_session(StreamWishes(send_sync=False))
        self._forget_session()
        return self._state.create_session(
            StreamWishes(send_sync=False), adapter_set=self._adapter_set, user=self._user, password=self._password
        )

    async def _write(self, socket: socket_client.ClientConnection, outbox: asyncio.Queue[OutgoingRequest]) -> None:
        with contextlib.suppress(WebSocketException, OSError):  # The reader sees the same and deals with it.
            while True:
                request = await outbox.get()
                await socket.send(request.message())

    async def _read(self, socket: socket_client.ClientConnection, opened: asyncio.Future[None]) -> None:
        while True:
            patience = self._state.keepalive_millis / 1000 + STALL_SECONDS if opened.done() else OPEN_SECONDS
            try:
                async with asyncio.timeout(patience):
                    message = await socket.recv()
            except TimeoutError:
                raise Unreachable(f"nothing was received from the server for {patience:g} s") from None
            self._heard = asyncio.get_running_loop().time()
            if not isinstance(message, str):
                raise ProtocolError("A binary message")
            for line in message.split("\r\n"):
                event = self._state.receive_line(line)
                if isinstance(event, Looped):
                    await asyncio.sleep(event.delay_millis / 1000)
                    await socket.send(self._stream_request().message())
                elif event is not None:
                    self._handle(event)
                    if self._crowded is not None:
                        crowded, self._crowded = self._crowded, None
                        await crowded.catch_up()
                    if isinstance(event, SessionOpened) and not opened.done():
                        opened.set_result(None)

    # -- what the server says -------------------------------------------------------------------------------------

    def _handle(self, event: ClientEvent) -> None:
        if isinstance(event, Update):
            subscription = self._numbers.get(event.subscription)
            if subscription is not None:
                subscription.take(event)
                if subscription.is_crowded:
                    self._crowded = subscription
        elif isinstance(event, SessionOpened):
            self._session_bound(is_new=not isinstance(event, SessionBound))
        elif isinstance(event, SessionRefused | Ended):
            if self._closing:
                raise _Closed
            if not self.sessions or event.code not in RETRY_CODES:
                raise SessionLost(event.code, event.message)
            raise _NewSession(f"{event.message} (code {event.code})")
        elif isinstance(event, RequestDone):
            self._answered(event.request_id)
        elif isinstance(event, RequestFailed):
            self._refused(event)
        elif isinstance(event, Subscribed):
            self._subscribed(event)
        elif isinstance(event, Unsubscribed):
            # One that this client has ended itself is not known any more.
            self._drop(event.subscription, SubscriptionEnded("The server has ended the subscription"))
        elif isinstance(event, EndOfSnapshot):
            subscription = self._numbers.get(event.subscription)
            if subscription is not None:
                subscription.end_snapshot(event.item)
        elif isinstance(event, Overflow):
            subscription = self._numbers.get(event.subscription)
            if subscription is not None:
                subscription.lost += event.lost
        elif isinstance(event, MessageDone):
            outcome = self._outcomes.get((event.sequence, event.progressive))
            if outcome is not None and not outcome.done():
                outcome.set_result(event.response)
        elif isinstance(event, MessageFailed):
            self._message_failed((event.sequence, event.progressive), event.code, event.message)

    def _session_bound(self, is_new: bool) -> None:
        self._retry_seconds = FIRST_RETRY_SECONDS
        is_back = not self._bound
        if is_back:
            self._bound = True
            for request in self._unanswered.values():
                self._outbox.put_nowait(request)
        if is_new:
            self._has_session.set()
            self.sessions += 1
        if is_back:
            self._tell(Status(True, time.time(), sessions=self.sessions))
        if is_new:
            for subscription in self._subscriptions:
                if self.sessions > 1:
                    subscription.begin_again()
                self._subscribe(subscription)

    def _answered(self, request_id: str | None) -> None:
        if request_id is not None:
            self._unanswered.pop(request_id, None)
            self._adding.pop(request_id, None)
            self._sending.pop(request_id, None)

    def _refused(self, event: RequestFailed) -> None:
        request_id = event.request_id
        if request_id is None:
            raise ProtocolError(f"The server did not understand a request: {event.message} (code {event.code})")
        number = self._adding.get(request_id)
        key = self._sending.get(request_id)
        self._answered(request_id)
        if number is not None and number not in self._state.subscriptions:
            self._drop(number, SubscriptionRefused(event.code, event.message))
        elif key is not None and event.code not in KNOWN_MESSAGE_CODES:
            self._message_failed(key, event.code, event.message)

    def _message_failed(self, key: MessageKey, code: int, message: str) -> None:
        outcome = self._outcomes.get(key)
        if outcome is not None and not outcome.done():
            outcome.set_exception(MessageRefused(code, message))

    def _subscribed(self, event: Subscribed) -> None:
        subscription = self._numbers.get(event.subscription)
        if subscription is None:
            return
        wishes = subscription.wishes
        expected = len(wishes.items), len(wishes.fields)
        if (event.items, event.fields) != expected:
            text = f"Expected {expected[0]} items and {expected[1]} fields but got {event.items} and {event.fields}"
            self._drop(event.subscription, SubscriptionRefused(WRONG_COUNT, text))
            self._send(self._state.unsubscribe(event.subscription))

    # -- requests -------------------------------------------------------------------------------------------------

    def _send(self, request: OutgoingRequest) -> None:
        assert request.request_id is not None
        self._unanswered[request.request_id] = request
        if self._bound:
            self._outbox.put_nowait(request)

    def _subscribe(self, subscription: Subscription) -> None:
        wishes = subscription.wishes
        number, request = self._state.subscribe(
            " ".join(wishes.items),
            " ".join(wishes.fields),
            mode=wishes.mode,
            data_adapter=wishes.data_adapter,
            snapshot=wishes.snapshot,
            max_frequency=wishes.max_frequency,
        )
        assert request.request_id is not None
        self._numbers[number] = subscription
        self._adding[request.request_id] = number
        self._send(request)

    def _unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        for number, known in list(self._numbers.items()):
            if known is subscription:
                del self._numbers[number]
                if self._state.session_id is not None:
                    self._send(self._state.unsubscribe(number))

    def _drop(self, number: int, failure: ClientError) -> None:
        subscription = self._numbers.pop(number, None)
        if subscription is not None:
            self._subscriptions.remove(subscription)
            subscription.end(failure)

    # -- the end --------------------------------------------------------------------------------------------------

    def _forget_session(self) -> None:
        """Whatever was under way in the old session will have no answer."""
        self._numbers.clear()
        self._unanswered.clear()
        self._adding.clear()
        self._sending.clear()
        self._progressives.clear()
        for outcome in self._outcomes.values():
            if not outcome.done():
                outcome.set_exception(OutcomeUnknown("The session was lost before the outcome was known"))
        self._outcomes.clear()

    def _end(self, failure: ClientError | None) -> None:
        self._failure = failure
        self._has_session.set()
        self._forget_session()
        for subscription in self._subscriptions:
            subscription.end(failure)
        self._subscriptions.clear()


__all__ = ["Client", "ItemUpdate", "Subscription", "connect"]
