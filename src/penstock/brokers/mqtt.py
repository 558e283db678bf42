"""One connection to an MQTT broker: the socket and the clock around `penstock.wire.mqtt`.

`open`, `subscribe`, then messages come in lists, as many as were read at once; each is to be settled if its quality of
service is above 0. The connection ends with `ended`, a future with the reason. It is not made again here.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from penstock.wire.mqtt.errors import MqttError, MqttRefused
from penstock.wire.mqtt.packets import (
    CONNACK,
    DISCONNECT,
    PING,
    PINGRESP,
    SUBACK,
    UNSUBACK,
    MqttAnswer,
    MqttMessage,
    MqttReader,
    connect,
    disconnect,
    subscribe,
)
from penstock.wire.mqtt.properties import RECEIVE_MAXIMUM, SERVER_KEEP_ALIVE
from penstock.wire.mqtt.session import MqttSession

# Seconds that a broker has for an answer.
TIMEOUT = 10.0

# Seconds for the other side to say goodbye.
LEAVING_SECONDS = 1.0

# Messages sent and not acknowledged, where the broker names no limit of its own.
MAX_UNACKNOWLEDGED = 1_000

# Messages that came and are not settled; beyond it nothing more is read.
MAX_UNSETTLED = 5_000

# How long the broker keeps the session of a client that has gone, in seconds; version 5 wants a number.
SESSION_SECONDS = 7 * 24 * 3600

# Answers from here on are refusals.
REFUSED = 0x80

TakeMqtt = Callable[[list[MqttMessage]], None]


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """Where the broker is, and as whom to log in. With a `client_id` and not `clean` the broker keeps messages."""

    host: str
    port: int
    is_new: bool = True
    client_id: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    keep_alive: int = 30
    clean: bool = True
    tls: ssl.SSLContext | None = None


class MqttLink(asyncio.Protocol):
    """One connection. All of it belongs to the event loop."""

    def __init__(self, settings: MqttSettings, messages: TakeMqtt) -> None:
        loop = asyncio.get_running_loop()
        self._settings = settings
        self._messages = messages
        self._loop = loop
        self._reader = MqttReader(settings.is_new)
        self._session = MqttSession(settings.is_new)
        self._transport: asyncio.Transport | None = None
        self._welcome: asyncio.Future[MqttAnswer] = loop.create_future()
        self._waiting: dict[int, asyncio.Future[MqttAnswer]] = {}
        self._sent: dict[int, asyncio.Future[None]] = {}
        self._beat: asyncio.TimerHandle | None = None
        self._keep_alive = float(settings.keep_alive)
        self._heard = loop.time()
        self._room = asyncio.Semaphore(MAX_UNACKNOWLEDGED)
        self._writable = asyncio.Event()
        self._writable.set()
        self._held = False
        self._is_reading = True
        self._write_planned = False
        self._gone = asyncio.Event()
        self.session_present = False
        self.ended: asyncio.Future[str] = loop.create_future()

    # -- its life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Raises MqttError with the reason if the broker cannot be reached, or refuses."""
        given = self._settings
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._loop.create_connection(lambda: self, given.host, given.port, ssl=given.tls)
                assert self._transport is not None
                self._transport.write(
                    connect(
                        given.client_id,
                        given.is_new,
                        given.keep_alive,
                        given.clean,
                        given.user,
                        given.password,
                        0 if given.clean else SESSION_SECONDS,
                    )
                )
                answer = await self._welcome
        except TimeoutError:
            self.abort("it has not answered in time")
            raise MqttError(f"no answer within {TIMEOUT:g} seconds") from None
        except OSError as error:
            raise MqttError(words(error)) from None
        if answer.code:
            self.abort("it has refused the connection")
            raise MqttRefused("the broker refuses the connection", answer.code)
        self.session_present = answer.session_present
        self._keep_alive = float(answer.properties.numbers.get(SERVER_KEEP_ALIVE, given.keep_alive))
        self._room = asyncio.Semaphore(
            min(MAX_UNACKNOWLEDGED, answer.properties.numbers.get(RECEIVE_MAXIMUM, MAX_UNACKNOWLEDGED))
        )
        self._beat_later()

    async def subscribe(self, filters: Sequence[tuple[str, int]]) -> None:
        """Raises MqttRefused with the first topic that the broker does not give."""
        number = self._session.next_id()
        answered: asyncio.Future[MqttAnswer] = self._loop.create_future()
        self._waiting[number] = answered
        assert self._transport is not None
        self._transport.write(subscribe(number, self._settings.is_new, filters))
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await answered
        except TimeoutError:
            raise MqttError(f"no answer to a subscription within {TIMEOUT:g} seconds") from None
        finally:
            self._waiting.pop(number, None)
        if len(answer.codes) != len(filters):
            raise MqttError(f"{len(answer.codes)} answers to {len(filters)} subscriptions")
        for (topic, _), code in zip(filters, answer.codes, strict=True):
            if code >= REFUSED:
                raise MqttRefused(f"the broker refuses the subscription to {topic}", code)

    async def close(self) -> None:
        """Say goodbye; what is not settled comes again, if the session is kept."""
        if self._transport is not None and not self._transport.is_closing():
            self._write_now()
            self._transport.write(disconnect(self._settings.is_new))
            self._transport.close()
        self._end("it was closed")
        if self._transport is not None:
            # With TLS the other side has to say goodbye as well.
            try:
                async with asyncio.timeout(LEAVING_SECONDS):
                    await self._gone.wait()
            except TimeoutError:
                self._transport.abort()

    def abort(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    # -- messages ---------------------------------------------------------------------------------------------------

    def settle(self, message: MqttMessage) -> None:
        """It has been dealt with. Those of a connection that is gone come again."""
        self._session.settle(message)
        self._write_later()
        self._read_or_not()

    def hold(self, held: bool) -> None:
        """Whether to stop reading for a while."""
        self._held = held
        self._read_or_not()

    async def publish(self, message: MqttMessage) -> None:
        """Until the broker has it, if the quality of service is above 0. Raises MqttError."""
        if self.ended.done():
            raise MqttError(self.ended.result())
        await self._writable.wait()
        if message.qos == 0:
            self._session.give(message)
            self._write_later()
            return
        async with self._room:
            if self.ended.done():
                raise MqttError(self.ended.result())
            self._session.give(message)
            done: asyncio.Future[None] = self._loop.create_future()
            self._sent[message.packet_id] = done
            self._write_later()
            await done

    # -- asyncio.Protocol -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports are of no common class.
        self._transport = cast(asyncio.Transport, transport)
        if self.ended.done():
            # It was given up while TLS was being agreed on.
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            packets = self._reader.feed(data)
            messages: list[MqttMessage] = []
            received = self._session.received
            for packet in packets:
                if isinstance(packet, MqttMessage):
                    if received(packet):
                        messages.append(packet)
                else:
                    self._answered(packet)
        except MqttError as error:
            self.abort(f"MQTT protocol error: {error}")
            return
        if messages:
            self._messages(messages)
        self._write_now()
        self._read_or_not()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._gone.set()
        if isinstance(error, OSError):
            self._end(words_of_refusal(error) if self._settings.tls and not self._welcome.done() else words(error))
        else:
            self._end(str(error) if error else "the broker has closed the connection")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- the rest ---------------------------------------------------------------------------------------------------

    def _answered(self, answer: MqttAnswer) -> None:
        if answer.kind == CONNACK:
            if not self._welcome.done():
                self._welcome.set_result(answer)
        elif answer.kind in (SUBACK, UNSUBACK):
            waiting = self._waiting.get(answer.packet_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        elif answer.kind == DISCONNECT:
            self.abort(str(MqttRefused("the broker ends the connection", answer.code)))
        elif answer.kind != PINGRESP:
            finished = self._session.answered(answer)
            if finished is not None:
                number, code = finished
                done = self._sent.pop(number, None)
                if done is not None and not done.done():
                    if code >= REFUSED:
                        done.set_exception(MqttRefused("the broker refuses a message", code))
                    else:
                        done.set_result(None)

    def _read_or_not(self) -> None:
        reading = not self._held and self._session.unsettled < MAX_UNSETTLED
        if reading is not self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = reading
            if reading:
                self._heard = self._loop.time()
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _write_later(self) -> None:
        """Once for all that this turn of the loop brings."""
        if not self._write_planned:
            self._write_planned = True
            self._loop.call_soon(self._write_now)

    def _write_now(self) -> None:
        self._write_planned = False
        out = self._session.out
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(bytes(out))
            out.clear()

    def _beat_later(self) -> None:
        if self._keep_alive:
            self._beat = self._loop.call_later(self._keep_alive / 2, self._ping)

    def _ping(self) -> None:
        """A broker that is silent for one and a half times of what was agreed is gone."""
        if self._is_reading and self._loop.time() - self._heard > 1.5 * self._keep_alive:
            self.abort(f"the broker has been silent for {1.5 * self._keep_alive:g} seconds")
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(PING)
        self._beat_later()

    def _end(self, reason: str) -> None:
        if self._beat is not None:
            self._beat.cancel()
        self._session.lost()
        if not self.ended.done():
            self.ended.set_result(reason)
        error = MqttError(self.ended.result())
        pending: list[asyncio.Future[Any]] = [self._welcome, *self._waiting.values(), *self._sent.values()]
        for future in pending:
            if not future.done():
                future.set_exception(error)
                # Nobody may be waiting for it.
                future.exception()
        self._sent.clear()
        self._writable.set()


def words(error: OSError) -> str:
    """What went wrong. The numbers of errors of TLS are not those of the system."""
    number = error.errno or 0
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        # Such as TLSV13_ALERT_CERTIFICATE_REQUIRED.
        return f"TLS failed: {error.reason.replace('_', ' ').lower()}" if error.reason else str(error)
    return os.strerror(number) if number > 0 else str(error)


def words_of_refusal(error: OSError) -> str:
    """Of a connection with TLS that ended before the first answer."""
    # The reason is lost if the other side has closed before the client has read it.
    perhaps = ": perhaps it requires a client certificate" if isinstance(error, ConnectionError) else ""
    return words(error) + perhaps
