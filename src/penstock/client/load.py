"""A load on a server: many sessions that subscribe, count what comes, and time how long answers take under it.

Not here: the command (`benching`). The protocol is in `tlcp`; sessions that are lost are not opened again, but counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass, field

import websockets.asyncio.client as socket_client
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from penstock.client import failed_socket
from penstock.client.address import socket_address
from penstock.client.errors import ClientError, ProtocolError, SessionLost, SubscriptionRefused, Unreachable
from penstock.client.events import (
    Ended,
    Overflow,
    RequestDone,
    RequestFailed,
    SessionOpened,
    SessionRefused,
    Subscribed,
    Update,
)
from penstock.client.requests import StreamWishes, subprotocol
from penstock.client.tlcp import MAX_LINE_BYTES, ClientState

OPEN_SECONDS = 30.0
"""A session that takes longer to open is given up; a server under load may well take seconds."""

OPENING_AT_ONCE = 20
"""Sessions that are opened side by side: what a crowd of browsers does, and not an attack."""

PROBE_SECONDS = 0.5
"""Between two timed requests of a session."""


@dataclass(frozen=True, slots=True)
class LoadWishes:
    """What each session does."""

    url: str
    adapter_set: str
    items: tuple[str, ...]
    fields: tuple[str, ...]
    mode: str
    data_adapter: str | None
    max_frequency: float | None
    user: str | None
    password: str | None
    time_field: str | None
    tls: ssl.SSLContext | None


@dataclass(slots=True)
class LoadFigures:
    """What has been counted, by all sessions together; times in milliseconds."""

    updates: int = 0
    bytes: int = 0
    lost: int = 0
    ended: int = 0
    opening: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Forget what has come while the sessions were opened; how long that took is kept."""
        self.updates = self.bytes = self.lost = 0
        self.answers.clear()
        self.ages.clear()


class LoadSession:
    """`open` it, then `run` it until it is cancelled, then `close` it."""

    def __init__(self, wishes: LoadWishes, figures: LoadFigures) -> None:
        self._wishes = wishes
        self._figures = figures
        self._state = ClientState()
        self._asked: dict[str, float] = {}
        self._socket: socket_client.ClientConnection | None = None
        self._is_subscribed = False
        self._time_index = -1 if wishes.time_field is None else wishes.fields.index(wishes.time_field)

    async def open(self) -> None:
        """Until the subscription is confirmed; raises ClientError."""
        began = time.monotonic()
        address = socket_address(self._wishes.url)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                self._socket = await socket_client.connect(
                    address,
                    subprotocols=[Subprotocol(subprotocol(self._state.version))],
                    ssl=self._wishes.tls,
                    compression=None,
                    open_timeout=OPEN_SECONDS,
                    ping_interval=None,
                    max_size=MAX_LINE_BYTES,
                )
                request = self._state.create_session(
                    StreamWishes(send_sync=False),
                    adapter_set=self._wishes.adapter_set,
                    user=self._wishes.user,
                    password=self._wishes.password,
                )
                await self._socket.send(request.message())
                while not self._is_subscribed:
                    await self._take(await self._socket.recv())
        except TimeoutError:
            raise Unreachable(f"a session was not open after {OPEN_SECONDS:g} s") from None
        except (OSError, WebSocketException) as error:
            raise Unreachable(failed_socket.reason(error, address, True)) from None
        self._figures.opening.append((time.monotonic() - began) * 1_000)

    async def run(self) -> None:
        """Take what comes, and time requests now and then."""
        assert self._socket is not None
        prober = asyncio.create_task(self._probe(self._socket))
        try:
            while True:
                await self._take(await self._socket.recv())
        except (OSError, WebSocketException, ClientError):
            self._figures.ended += 1
        finally:
            prober.cancel()

    async def close(self) -> None:
        if self._socket is None:
            return
        with contextlib.suppress(OSError, WebSocketException):
            if self._state.session_id is not None:
                await self._socket.send(self._state.destroy(close_socket=True).message())
            await self._socket.close()

    async def _probe(self, socket: socket_client.ClientConnection) -> None:
        """The answer comes on the stream, behind the updates that were sent before it."""
        with contextlib.suppress(OSError, WebSocketException):
            while True:
                await asyncio.sleep(PROBE_SECONDS)
                request = self._state.constrain("unlimited")
                assert request.request_id is not None
                self._asked[request.request_id] = time.monotonic()
                await socket.send(request.message())

    async def _take(self, message: str | bytes) -> None:
        if not isinstance(message, str):
            raise ProtocolError("A binary message")
        self._figures.bytes += len(message.encode())
        for line in message.split("\r\n"):
            event = self._state.receive_line(line)
            if isinstance(event, Update):
                self._figures.updates += 1
                if self._time_index >= 0 and not event.is_snapshot:
                    self._age(event.values[self._time_index])
            elif isinstance(event, SessionOpened):
                await self._subscribe()
            elif isinstance(event, SessionRefused | Ended):
                raise SessionLost(event.code, event.message)
            elif isinstance(event, Subscribed):
                self._is_subscribed = True
            elif isinstance(event, Overflow):
                self._figures.lost += event.lost
            elif isinstance(event, RequestDone | RequestFailed):
                self._answered(event)

    async def _subscribe(self) -> None:
        assert self._socket is not None
        wishes = self._wishes
        _, request = self._state.subscribe(
            " ".join(wishes.items),
            " ".join(wishes.fields),
            mode=wishes.mode,
            data_adapter=wishes.data_adapter,
            snapshot=wishes.mode != "RAW",
            max_frequency=wishes.max_frequency,
        )
        await self._socket.send(request.message())

    def _answered(self, event: RequestDone | RequestFailed) -> None:
        asked = self._asked.pop(event.request_id or "", None)
        if asked is not None:
            # Refused is answered, too: not every user may change the bandwidth.
            self._figures.answers.append((time.monotonic() - asked) * 1_000)
        elif isinstance(event, RequestFailed):
            raise SubscriptionRefused(event.code, event.message)

    def _age(self, value: str | None) -> None:
        """A value that is not a time says nothing."""
        with contextlib.suppress(TypeError, ValueError):
            self._figures.ages.append(time.time() * 1_000 - float(value or ""))


async def open_all(wishes: LoadWishes, figures: LoadFigures, count: int) -> list[LoadSession]:
    """So many sessions, all open; raises the error of the first that cannot be."""
    sessions = [LoadSession(wishes, figures) for _ in range(count)]
    room = asyncio.Semaphore(OPENING_AT_ONCE)

    async def opened(session: LoadSession) -> None:
        async with room:
            await session.open()

    try:
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(opened(session))
    except* ClientError as errors:
        await close_all(sessions)
        raise errors.exceptions[0] from None
    return sessions


async def measure(sessions: list[LoadSession], figures: LoadFigures, seconds: float) -> tuple[float, float]:
    """Let them run for so many seconds, or until Ctrl-C; how long it was, and what part of a core this process took."""
    running = [asyncio.create_task(session.run()) for session in sessions]
    figures.begin()
    began, cpu = time.monotonic(), time.process_time()
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        # What was measured until then is told, because whoever wants nothing closes the terminal.
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    took = time.monotonic() - began
    return took, (time.process_time() - cpu) / took


async def close_all(sessions: list[LoadSession]) -> None:
    await asyncio.gather(*[session.close() for session in sessions], return_exceptions=True)
