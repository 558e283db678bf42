"""A client of a TLEX hub: the connection of one session. It keeps itself alive, answers requests for timestamps and
gives up a hub that is silent.

`async with await connect(session) as stream: stream.send(...); async for payload in stream: ...`. Sessions are asked
for with `tlex_api`. Not here: coming again after Reconnect, which is the caller's. Specification: TLEX 1.1.1, 6.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import deque
from dataclasses import dataclass
from types import TracebackType

from penstock.client.tlex_api import TlexApi, TlexError, TlexRefused, TlexUnreachable
from penstock.client.trust import trusting
from penstock.obstacles import obstacle
from penstock.wire.tlex.datagrams import (
    KEEP_ALIVE_FRAME,
    MONITOR_TYPE,
    Bye,
    Datagram,
    IdentifiedPayload,
    Payload,
    Reconnect,
    TimestampsRequest,
    TimestampsResponse,
    Token,
    decode,
)
from penstock.wire.tlex.errors import BadDatagram, BadTlexStream
from penstock.wire.tlex.frames import PREAMBLE, TlexFrameReader
from penstock.wire.tlex.monitor import MonitorPayload, decode_monitor_payload
from penstock.wire.tlex.rest import SessionAnswer
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode

__all__ = ["Received", "TlexApi", "TlexError", "TlexRefused", "TlexStream", "TlexUnreachable", "connect"]

# A keep-alive is sent this many times as often as the hub must hear something.
KEEP_ALIVES_A_TIMEOUT = 3

# Payloads that wait to be taken; then nothing more is read, and the hub decides what to drop.
MAX_WAITING = 10_000

READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Received:
    """A payload. `identifier` is None in a singleplex session; `monitor` is there in one of a monitor."""

    identifier: str | None
    type: int
    origin: int
    data: bytes
    monitor: MonitorPayload | None = None


async def connect(session: SessionAnswer, context: ssl.SSLContext | None = None) -> TlexStream:
    """Connect to a session that has just been created; raises TlexError.

    With TLS the hub's certificate is checked by `context`, by default against the system's authorities.
    """
    listener = session.details.listener
    patience = session.details.keep_alive_timeout.total_seconds()
    if session.details.security_mode is not SecurityMode.TLS:
        context = None
    elif context is None:
        context = trusting()
    place = f"{listener.host}:{listener.port}"
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(listener.host, listener.port, ssl=context)
            try:
                await _introduce(session, reader, writer)
            except BaseException:
                writer.transport.abort()
                raise
    except TimeoutError as error:
        raise TlexUnreachable(f"{place}: {_silence(patience)}") from error
    except asyncio.IncompleteReadError as error:
        raise TlexUnreachable(f"{place}: it has closed the connection") from error
    except OSError as error:
        raise TlexUnreachable(f"{place}: {obstacle(error)}") from error
    return TlexStream(session, reader, writer)


async def _introduce(session: SessionAnswer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(PREAMBLE)
    # Not before: with another version there is nothing more to say.
    if await reader.readexactly(len(PREAMBLE)) != PREAMBLE:
        raise TlexError("the hub speaks another version of the protocol")
    writer.write(Token(session.token).encode())
    await writer.drain()


class TlexStream:
    """Iterate over it for payloads. It ends with the connection, and when the hub asks for a new session."""

    def __init__(self, session: SessionAnswer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.session = session
        # What Bye said; None without one.
        self.reason: str | None = None
        # Whether the hub wants a new session instead of this one.
        self.is_to_reconnect = False
        self.closed = False
        # Seconds of silence after which the hub is taken for gone.
        self._patience = session.details.keep_alive_timeout.total_seconds()
        self._reader = reader
        self._writer = writer
        self._frames = TlexFrameReader()
        self._waiting: deque[Received] = deque()
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        # Requests for timestamps that are not answered yet.
        self._asked: dict[int, asyncio.Future[None]] = {}
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._keep_alive())]

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, data: bytes, type: int = 0, identifier: str | None = None, origin: int | None = None) -> None:
        """Send a payload; raises ValueError for what the protocol cannot carry, TlexError if the connection is gone."""
        if self.closed:
            raise TlexError(f"the connection is closed: {self.reason or 'without a reason'}")
        sent = _utc() if origin is None else origin
        if self.session.protocol is Protocol.SINGLEPLEX:
            self.send_datagram(Payload(type, sent, data))
        elif identifier is None:
            raise ValueError("identifier: missing; a multiplex session needs one for each payload")
        else:
            self.send_datagram(IdentifiedPayload(identifier, type, sent, data))

    def send_datagram(self, datagram: Datagram) -> None:
        self._writer.write(datagram.encode())

    async def drain(self) -> None:
        """Until the connection takes more: for those who send a lot."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def synchronize(self) -> None:
        """Until the hub has read all that was sent before; raises TlexError if the connection is gone."""
        await self.drain()
        if self.closed:
            raise TlexError(f"the connection is closed: {self.reason or 'without a reason'}")
        asked = _utc()
        while asked in self._asked:
            asked += 1
        answered = self._asked[asked] = asyncio.get_running_loop().create_future()
        self.send_datagram(TimestampsRequest(asked))
        await answered

    # -- receiving ------------------------------------------------------------------------------------------------

    def __aiter__(self) -> TlexStream:
        return self

    async def __anext__(self) -> Received:
        while not self._waiting:
            if self.closed or self.is_to_reconnect:
                raise StopAsyncIteration
            self._something.clear()
            await self._something.wait()
        self._room.set()
        return self._waiting.popleft()

    async def wait_closed(self) -> None:
        await asyncio.wait(self._tasks[:1])

    async def _read(self) -> None:
        self._frames.feed(PREAMBLE)
        try:
            while self.reason is None and (data := await self._bytes()):
                for frame in self._frames.feed(data):
                    self._take(decode(frame))
                if self._frames.error is not None:
                    raise self._frames.error
                while len(self._waiting) >= MAX_WAITING:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            # Nobody takes what is still to be written.
            self.reason = _silence(self._patience)
            self._writer.transport.abort()
        except (OSError, BadDatagram, BadTlexStream) as error:
            self.reason = str(error)
        finally:
            self.closed = True
            self._something.set()
            for answered in self._asked.values():
                if not answered.done():
                    answered.set_exception(TlexError("the connection is closed"))
            self._writer.close()

    async def _bytes(self) -> bytes:
        """Nothing at the end of the connection; raises TimeoutError if the hub is silent for longer than it may be."""
        async with asyncio.timeout(self._patience):
            return await self._reader.read(READ_BYTES)

    def _take(self, datagram: Datagram) -> None:
        if isinstance(datagram, Payload):
            self._put(Received(None, datagram.type, datagram.origin, datagram.data))
        elif isinstance(datagram, IdentifiedPayload):
            monitor = decode_monitor_payload(datagram.data) if datagram.type == MONITOR_TYPE else None
            self._put(Received(datagram.identifier, datagram.type, datagram.origin, datagram.data, monitor))
        elif isinstance(datagram, TimestampsRequest):
            now = _utc()
            self.send_datagram(TimestampsResponse(datagram.sent, now, now))
        elif isinstance(datagram, TimestampsResponse):
            answered = self._asked.pop(datagram.request_sent, None)
            if answered is not None and not answered.done():
                answered.set_result(None)
        elif isinstance(datagram, Reconnect):
            self.is_to_reconnect = True
            self._something.set()
        elif isinstance(datagram, Bye):
            self.reason = datagram.reason

    def _put(self, received: Received) -> None:
        self._waiting.append(received)
        self._something.set()

    async def _keep_alive(self) -> None:
        pause = self._patience / KEEP_ALIVES_A_TIMEOUT
        while not self.closed:
            await asyncio.sleep(pause)
            self._writer.write(KEEP_ALIVE_FRAME)

    # -- the end --------------------------------------------------------------------------------------------------

    async def close(self, reason: str = "") -> None:
        """Say Bye and close."""
        if not self.closed:
            with contextlib.suppress(OSError):
                self.send_datagram(Bye(reason))
                await self._writer.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self.closed = True
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def __aenter__(self) -> TlexStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _silence(seconds: float) -> str:
    return f"nothing received for {seconds:g} s"


def _utc() -> int:
    return time.time_ns() // 1_000_000
