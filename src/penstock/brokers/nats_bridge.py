"""A connection to NATS. With `specificConfig.stream` sources read that stream by a durable consumer, and a message is
acknowledged when it has been dealt with; without it, only what comes from now on is read. Needs the extra `nats`.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from penstock.brokers.bridge import Bridge, BridgeLost, PublishRefused, TakeInbound, addresses, tls_of
from penstock.brokers.nats_client import leave, nats_words
from penstock.connections.document import ConnectionDocument
from penstock.connections.message import InboundMessage, OutboundMessage, Settlement
from penstock.log import get
from penstock.loop import is_stopping

log = get(__name__)

# Seconds for an answer.
TIMEOUT = 5

# Messages that may wait to be acknowledged; the server sends no more.
MAX_UNSETTLED = 1_000

# Seconds after which a message that was not acknowledged comes again.
ACK_WAIT = 30.0


class NatsBridge(Bridge):
    def __init__(self, document: ConnectionDocument, take: TakeInbound) -> None:
        super().__init__(document)
        self._take = take
        self._client = Client()
        self._stream = document.specific_config.get("stream")
        scheme = "tls" if document.is_encrypted else "nats"
        self._options: dict[str, Any] = {
            "servers": [f"{scheme}://{document.host}:{document.port or 4222}"],
            "user": document.user,
            "password": document.password,
            "allow_reconnect": False,
            "connect_timeout": TIMEOUT,
            "max_reconnect_attempts": 1,
            "error_cb": self._went_wrong,
            "closed_cb": self._closed,
        }
        if document.credentials is not None and document.credentials.type == "bearer":
            self._options["token"] = document.credentials.token
        context = tls_of(document)
        if context is not None:
            self._options["tls"] = context
        self._reason = "the server has closed the connection"
        self._room = asyncio.Event()
        self._room.set()

    async def open(self) -> None:
        try:
            async with asyncio.timeout(2 * TIMEOUT):
                await self._client.connect(**self._options)
                for number, address in addresses(self.document):
                    await self._subscribe(number, address)
        except (NatsError, OSError, TimeoutError) as error:
            reason = nats_words(self._client, error)
            raise BridgeLost(reason, "Authorization" in reason) from None
        if is_stopping():
            raise asyncio.CancelledError

    async def _subscribe(self, number: int, address: str) -> None:
        handle = partial(self._arrived, number, address)
        if self._stream is None:
            await self._client.subscribe(address, cb=handle)
            return
        durable = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self.document.id}-{number}-{address}")
        settings = ConsumerConfig(
            deliver_policy=DeliverPolicy.ALL,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT,
            max_ack_pending=MAX_UNSETTLED,
            # Redelivered until it is settled.
            max_deliver=-1,
        )
        await self._client.jetstream(timeout=TIMEOUT).subscribe(
            address, durable=durable, stream=self._stream, cb=handle, manual_ack=True, config=settings
        )

    async def _arrived(self, number: int, address: str, message: Msg) -> None:
        headers = {name.lower(): value for name, value in (message.headers or {}).items()}
        headers["nats.subject"] = message.subject
        if message.reply and self._stream is None:
            headers.setdefault("reply-to", message.reply)
        settle = partial(self._settled, message)
        found = InboundMessage(number, address, message.subject, message.data, headers, settle)
        # Those behind it wait as well: the client has limits of its own for them, and a stream sends no more.
        await self._room.wait()
        self._take([found])

    def _settled(self, message: Msg, settlement: Settlement) -> None:
        if self._stream is None or self.ended.done():
            return
        answer = message.nak(5.0) if settlement is Settlement.AGAIN else message.ack()
        task = asyncio.get_running_loop().create_task(answer)
        task.add_done_callback(_forget)

    async def publish(self, message: OutboundMessage) -> int:
        if not self._client.is_connected:
            raise BridgeLost(self._reason)
        if not re.fullmatch(r"[^\s*>]+", message.address):
            raise PublishRefused(f"'{message.address[:60]}' is not a subject: expected no spaces and no wildcards")
        headers = dict(message.headers) or None
        try:
            if self._stream is not None and message.qos:
                await self._client.jetstream(timeout=TIMEOUT).publish(message.address, message.payload, headers=headers)
            else:
                await self._client.publish(message.address, message.payload, headers=headers)
                if message.qos:
                    await self._client.flush(TIMEOUT)
        except TimeoutError:
            raise BridgeLost("the server does not answer in time") from None
        except (NatsError, OSError) as error:
            reason = str(error) or type(error).__name__
            if self._client.is_connected:
                raise PublishRefused(reason) from None
            raise BridgeLost(reason) from None
        except asyncio.CancelledError:
            # The client cancels what waits for answers when it is closed.
            if is_stopping():
                raise
            raise BridgeLost(self._reason) from None
        if not self._client.is_connected:
            raise BridgeLost(self._reason)
        return 200

    def hold(self, held: bool) -> None:
        (self._room.clear if held else self._room.set)()

    async def close(self) -> None:
        self.end("it was closed")
        await leave(self._client)

    async def _went_wrong(self, error: Exception) -> None:
        self._reason = nats_words(self._client, error)

    async def _closed(self) -> None:
        self.end(self._reason)


def _forget(task: asyncio.Task[Any]) -> None:
    """An acknowledgement that could not be sent: the message comes again."""
    if not task.cancelled() and task.exception() is not None:
        log.debug("message not acknowledged", reason=str(task.exception()))
