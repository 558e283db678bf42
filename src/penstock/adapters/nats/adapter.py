"""The adapter: subjects of NATS as items; with JetStream also what is kept of them.

The protocol is nats-py's. brokers/link.py connects again, not nats-py, because then a stream is read again
from where it stopped.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Required, Unpack

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from penstock.adapters.brokers.adapter import RecordParameters
from penstock.adapters.brokers.link import LinkedAdapter, LinkLost, secret, tls_context
from penstock.brokers.nats_client import leave, nats_words
from penstock.log import get
from penstock.wire.records.record import DeliveredRecord

log = get(__name__)

# Seconds for an answer.
TIMEOUT = 5.0

# Seconds that the start of the server waits for what a stream has kept.
CATCH_UP = 60.0

# How a key of a bucket is deleted, and what says so.
_OPERATION, _DELETIONS = "KV-Operation", ("DEL", "PURGE")

# Messages of a subscription that may wait for the event loop, and their bytes; NATS ends a slow connection by itself.
MAX_WAITING = 100_000
MAX_WAITING_BYTES = 256 * 1024 * 1024

STARTS = {
    "latest": DeliverPolicy.NEW,
    "earliest": DeliverPolicy.ALL,
    "last": DeliverPolicy.LAST_PER_SUBJECT,
}

_SUBJECT = re.compile(r"[^\s.*>]+|\*|>")


class NatsParameters(RecordParameters, total=False):
    """As they come from a TOML table."""

    servers: Required[str | Sequence[str]]
    # Subjects, with the wildcards * and >.
    topics: Required[str | Sequence[str]]
    # The name of a stream of JetStream; without it only what comes from now on.
    stream: str | None
    start: str
    # Those with the same name share the messages; empty: each server gets all.
    group: str
    user: str | None
    password: str | None
    password_file: Path | None
    token: str | None
    token_file: Path | None
    credentials_file: Path | None
    tls_ca_file: Path | None
    tls_certificate: Path | None
    tls_private_key: Path | None


class NatsAdapter(LinkedAdapter):
    """Subscribes to all its subjects at the start."""

    default_item = "{topic}"
    broker = "NATS"

    def __init__(self, **parameters: Unpack[NatsParameters]) -> None:
        given = parameters["servers"]
        servers = [one.strip() for one in (given.split(",") if isinstance(given, str) else given)]
        for one in servers or [""]:
            if not re.fullmatch(r"(nats|tls)://[^/\s@]+", one):
                raise ValueError(
                    'servers: expected "nats://host:port" or "tls://host:port", without a user or password'
                )
        super().__init__(",".join(servers), parameters)
        self._subjects = _subjects(parameters["topics"])
        self._group = parameters.get("group", "")
        self._stream = parameters.get("stream")
        start = parameters.get("start", "latest")
        if start not in STARTS:
            raise ValueError(f"start = {start!r}: expected {', '.join(STARTS)}")
        if start != "latest" and self._stream is None:
            raise ValueError(f"start = {start!r}: expected latest, because only a stream keeps messages; set stream")
        if self._group and self._stream is not None:
            raise ValueError(
                "group is set together with stream: expected one of them, because each server reads a stream"
            )
        self._policy = STARTS[start]
        self._options: dict[str, Any] = {
            "servers": servers,
            "user": parameters.get("user"),
            "password": secret(parameters, "password"),
            "token": secret(parameters, "token"),
            "allow_reconnect": False,
            "connect_timeout": TIMEOUT,
            "max_reconnect_attempts": 1,
        }
        if credentials := parameters.get("credentials_file"):
            self._options["user_credentials"] = str(credentials)
        names = ("tls_ca_file", "tls_certificate", "tls_private_key")
        if any(parameters.get(name) for name in names) or any(one.startswith("tls://") for one in servers):
            self._options["tls"] = tls_context(
                parameters.get("tls_ca_file"), parameters.get("tls_certificate"), parameters.get("tls_private_key")
            )
        # The last message of the stream that was taken, and what is still to come of those that were there.
        self._sequence = 0
        self._behind = 0
        self._caught_up = asyncio.Event()

    async def read(self) -> None:
        over = asyncio.Event()
        reasons: list[str] = []

        async def closed() -> None:
            over.set()

        async def went_wrong(error: Exception) -> None:
            reasons.append(nats_words(client, error))

        client = Client()
        try:
            try:
                await client.connect(**self._options, closed_cb=closed, disconnected_cb=closed, error_cb=went_wrong)
            except Exception as error:
                # nats-py raises what its sockets raise as well.
                raise LinkLost(nats_words(client, error)) from None
            if self._stream is None:
                await self._listen(client)
            else:
                await self._follow(client, self._stream)
            self.linked()
            await over.wait()
            raise LinkLost((reasons or ["the connection has ended"])[-1])
        finally:
            await leave(client)

    async def wait_until_ready(self) -> None:
        """What the stream has kept is part of the snapshots of the first clients."""
        if self._stream is None:
            return
        try:
            async with asyncio.timeout(CATCH_UP):
                await self._caught_up.wait()
        except TimeoutError:
            log.warning("not all messages have been read yet", seconds=CATCH_UP, messages=self.records)

    # -- without a stream -----------------------------------------------------------------------------------------

    async def _listen(self, client: Client) -> None:
        for subject in self._subjects:
            await client.subscribe(
                subject,
                queue=self._group,
                cb=self._heard,
                pending_msgs_limit=MAX_WAITING,
                pending_bytes_limit=MAX_WAITING_BYTES,
            )
        await client.flush(timeout=int(TIMEOUT))

    async def _heard(self, message: Msg) -> None:
        self.take([_record(message)])

    # -- with one -------------------------------------------------------------------------------------------------

    async def _follow(self, client: Client, stream: str) -> None:
        """From the start that was wanted, or behind the last message that was taken."""
        policy = DeliverPolicy.BY_START_SEQUENCE if self._sequence else self._policy
        config = ConsumerConfig(
            deliver_policy=policy,
            opt_start_seq=self._sequence + 1 if self._sequence else None,
            ack_policy=AckPolicy.NONE,
            filter_subjects=self._subjects,
            # It ends with the connection.
            inactive_threshold=30.0,
            mem_storage=True,
            deliver_subject=client.new_inbox(),
            num_replicas=1,
        )
        await client.subscribe(
            str(config.deliver_subject),
            cb=self._followed,
            pending_msgs_limit=MAX_WAITING,
            pending_bytes_limit=MAX_WAITING_BYTES,
        )
        try:
            found = await client.jetstream(timeout=TIMEOUT).add_consumer(stream, config)
        except NotFoundError:
            raise LinkLost(f"there is no stream {stream}") from None
        except Exception as error:
            raise LinkLost(f"stream {stream} cannot be read: {str(error) or type(error).__name__}") from None
        if not self._caught_up.is_set():
            self._behind = found.num_pending or 0
            if not self._behind:
                self._caught_up.set()

    async def _followed(self, message: Msg) -> None:
        metadata = message.metadata
        if metadata.sequence.stream <= self._sequence:
            return
        self._sequence = metadata.sequence.stream
        self.take([_record(message, metadata.sequence.stream, int(metadata.timestamp.timestamp() * 1000))])
        if metadata.num_pending == 0:
            self._caught_up.set()


def _record(message: Msg, sequence: int | None = None, millis: int | None = None) -> DeliveredRecord:
    headers = message.headers or {}
    deleted = headers.get(_OPERATION) in _DELETIONS
    return DeliveredRecord(
        message.subject,
        None if deleted else message.data,
        headers=[(name, value.encode()) for name, value in headers.items()],
        offset=sequence,
        millis=millis,
    )


def _subjects(given: str | Sequence[str]) -> list[str]:
    subjects = [given] if isinstance(given, str) else list(given)
    if not subjects:
        raise ValueError("topics = []: expected at least one")
    for one in subjects:
        parts = one.split(".")
        if not all(_SUBJECT.fullmatch(part) for part in parts) or ">" in parts[:-1]:
            raise ValueError(
                f"topics = {one[:60]!r}: expected subjects with . between tokens, * for one, > for the rest"
            )
    return subjects
