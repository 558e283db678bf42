"""A connection to NATS that comes back: servers, TLS, credentials, subjects, a bounded queue of what is to be sent.

It knows subjects and bytes, and no hub or edge: see `nats`. It never waits and never raises towards who sends: what
cannot be sent is dropped. No secret is in what it logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Protocol

from penstock.config.nats import CREDENTIALS_FILE, NKEY_FILE, is_credentials_file, is_nkey_file
from penstock.config.schema.cluster import ClusterSection
from penstock.extras import lack_in
from penstock.log import get
from penstock.monitor.figures import Family, counter, gauge
from penstock.obstacles import obstacle

if TYPE_CHECKING:
    from penstock.cluster.nats_client import OrderedClient

log = get(__name__)

# Bytes that may wait for a connection that is too slow. Above it all of them are dropped: who misses them asks again.
MAX_UNSENT = 64 * 1024 * 1024

# Bytes that nats-py collects for a write.
PENDING_BYTES = 2 * 1024 * 1024

# Bytes that a server must take in a message; what is larger is split.
LEAST_PAYLOAD = 1024

# Seconds that a server has to answer when it is connected to.
CONNECT_SECONDS = 3.0

# Seconds in which something must have come from a server that was asked whether it is there. Not necessarily the
# answer, because that comes after all that waits. They are looked at in so many parts, and all must have been silent:
# if this process has slept, what has come meanwhile is found after the first.
ALIVE_SECONDS = 3.0
ALIVE_PARTS = 3

# Seconds for that answer: as good as for ever.
ANSWER_SECONDS = 3600

# Seconds between two such questions, and between two attempts to connect; the latter grows up to the last of these.
QUESTION_PAUSE = 1.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0

# Seconds for a connection to end in good order.
CLOSE_SECONDS = 1.0


class LinkListener(Protocol):
    """Called on the event loop; must not raise."""

    def linked(self) -> None:
        """There is a connection, and all subscriptions are known to the server."""

    def unlinked(self) -> None: ...

    def arrived(self, subject: str, reply: str, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class _Outgoing:
    subject: str
    data: bytes
    reply: str


class NatsLink:
    """Opened once, closed once."""

    def __init__(self, section: ClusterSection, name: str, listener: LinkListener) -> None:
        """`name` is what the servers' own monitoring shows."""
        self._section = section
        self._name = name
        self._listener = listener
        # Subjects that are to be subscribed to, with nats-py's subscriptions while there is a connection.
        self._subjects: dict[str, Any] = {}
        # What is to be sent, subscribed to (True) or not any more (False), in order.
        self._queue: deque[_Outgoing | tuple[str, bool]] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._linked = False
        self._task: asyncio.Task[None] | None = None
        self._client: OrderedClient | None = None
        # Set when nats-py knows that its connection is over.
        self._over = asyncio.Event()
        # Figures: payloads that were dropped, connections that were made.
        self.dropped = 0
        self.connections = 0
        self.max_payload = 0

    @property
    def unsent_bytes(self) -> int:
        return self._queued_bytes

    def figures(self) -> Iterable[Family]:
        return (
            gauge("penstock_fabric_up", "1 if there is a connection to NATS, else 0.", self._linked),
            gauge("penstock_fabric_unsent_bytes", "Bytes waiting to be sent between hub and edges.", self.unsent_bytes),
            counter("penstock_fabric_connections", "Connections to NATS that were established.", self.connections),
            counter(
                "penstock_fabric_dropped", "Payloads dropped because NATS was unreachable or too slow.", self.dropped
            ),
        )

    def open(self) -> None:
        """Returns at once. Raises OSError if the extra is missing or a file of credentials is not one."""
        check_access(self._section)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """What is queued is sent before, if that is possible at once."""
        if self._task is None:
            return
        if self._client is not None and self._linked:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._send_queued(self._client)
                    await self._client.flush()
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None

    def send(self, subject: str, data: bytes, reply: str = "") -> None:
        if not self._linked:
            self.dropped += 1
            return
        if self._queued_bytes + len(data) > MAX_UNSENT:
            kept = [each for each in self._queue if not isinstance(each, _Outgoing)]
            self.dropped += len(self._queue) - len(kept) + 1
            log.warning("NATS is too slow, waiting payloads are dropped", bytes=self._queued_bytes)
            self._queue = deque(kept)
            self._queued_bytes = 0
            return
        self._queue.append(_Outgoing(subject, data, reply))
        self._queued_bytes += len(data)
        self._wake.set()

    def subscribe(self, subject: str) -> None:
        if subject not in self._subjects:
            self._subjects[subject] = None
            self._enqueue(subject, True)

    def unsubscribe(self, subject: str) -> None:
        if subject in self._subjects:
            self._enqueue(subject, False)
            if not self._linked:
                del self._subjects[subject]

    def _enqueue(self, subject: str, wanted: bool) -> None:
        if self._linked:
            self._queue.append((subject, wanted))
            self._wake.set()

    # -- the task --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        # What was said of each server that cannot be connected to; others of the list are tried in between.
        told: dict[str, str] = {}
        for server in cycle(self._section.nats):
            try:
                client = await self._connect(server)
            except Exception as error:
                # Whatever a library raises for what a server says: there is no connection, and the next one is tried.
                reason = explain(error)
                if told.get(server) != reason:
                    told[server] = reason
                    log.warning("no connection to NATS", server=server, reason=reason)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            told.clear()
            self.connections += 1
            self._client = client
            log.info("connected to NATS", server=server)
            try:
                await self._stay(client)
            finally:
                self._client = None
                self._forget_queue()
                await _drop(client)
            log.warning("the connection to NATS is lost", server=server, reason=explain(client.last_error))

    async def _connect(self, server: str) -> OrderedClient:
        section = self._section
        needs_tls = section.tls.enabled or server.startswith("tls:")
        context = await asyncio.to_thread(tls_context, section) if needs_tls else None
        client = load_client()(self._listener.arrived, needs_tls=needs_tls)
        self._over = over = asyncio.Event()

        async def closed() -> None:
            over.set()

        options: dict[str, Any] = {
            "user": section.user or None,
            "password": section.password or None,
            "token": section.token or None,
            "nkeys_seed": section.nkey_file or None,
            "user_credentials": section.credentials_file or None,
            "tls": context,
            "tls_hostname": section.tls.server_name or None,
        }
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.connect(
                    [server],
                    name=self._name,
                    error_cb=client.note,
                    closed_cb=closed,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    # A question of our own has an end also if the server does not read: see `_stay`.
                    ping_interval=3600,
                    pending_size=PENDING_BYTES,
                    no_echo=True,
                    **options,
                )
                for subject in self._subjects:
                    self._subjects[subject] = await client.subscribe(subject)
                await client.flush(int(CONNECT_SECONDS))
        except BaseException as error:
            refused = client.why
            await _drop(client)
            if refused is not None and refused is not error and isinstance(error, Exception):
                raise refused from None
            raise
        if client.max_payload < LEAST_PAYLOAD:
            await _drop(client)
            raise OSError(f"its max_payload is {client.max_payload}; expected at least {LEAST_PAYLOAD}")
        self.max_payload = client.max_payload
        return client

    async def _stay(self, client: OrderedClient) -> None:
        """Until the connection is lost, or the server does not answer any more."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._pump(client)), loop.create_task(_watch(client, self._over))]
        self._linked = True
        self._listener.linked()
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._linked = False
            self._listener.unlinked()
            for task in tasks:
                task.cancel()
            # All that they raise means the same: that it is over.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, client: OrderedClient) -> None:
        while True:
            await self._wake.wait()
            await self._send_queued(client)

    async def _send_queued(self, client: OrderedClient) -> None:
        self._wake.clear()
        queue = self._queue
        while queue:
            each = queue.popleft()
            if isinstance(each, _Outgoing):
                self._queued_bytes -= len(each.data)
                await client.publish(each.subject, each.data, each.reply)
                continue
            subject, wanted = each
            if wanted:
                self._subjects[subject] = await client.subscribe(subject)
            elif (found := self._subjects.pop(subject, None)) is not None:
                await found.unsubscribe()

    def _forget_queue(self) -> None:
        for each in self._queue:
            if isinstance(each, _Outgoing):
                self.dropped += 1
            elif not each[1]:
                self._subjects.pop(each[0], None)
        self._queue.clear()
        self._queued_bytes = 0


async def _watch(client: OrderedClient, over: asyncio.Event) -> None:
    """Ends when the server is gone or silent. Asked in turns, because nats-py tells of an end only after it has closed
    in good order, which may never be.
    """
    while client.is_reading and not client.is_closed and not over.is_set():
        await _answer_or_silence(client)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUESTION_PAUSE):
                await over.wait()


async def _answer_or_silence(client: OrderedClient) -> None:
    """Ask the server whether it is there; raises TimeoutError if nothing at all comes from it."""
    asked = asyncio.get_running_loop().create_task(client.flush(ANSWER_SECONDS))
    try:
        silent = 0
        while not asked.done():
            before = client.arrivals
            await asyncio.wait([asked], timeout=ALIVE_SECONDS / ALIVE_PARTS)
            silent = silent + 1 if client.arrivals == before else 0
            if silent == ALIVE_PARTS and not asked.done():
                raise TimeoutError
        asked.result()
    finally:
        asked.cancel()


async def _drop(client: OrderedClient) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()
    except Exception as error:
        log.debug("a connection to NATS was not closed properly", reason=explain(error))
    finally:
        client.abort()


def load_client() -> type[OrderedClient]:
    """Raises OSError, in a sentence that names the extra."""
    try:
        from penstock.cluster.nats_client import OrderedClient  # not everybody has a cluster
    except ModuleNotFoundError as error:
        raise OSError(lack_in(error) or str(error)) from None
    return OrderedClient


def check_access(section: ClusterSection) -> None:
    """Raises OSError if the extra is missing, or a file is not any more what it was when the configuration was read."""
    load_client()
    file = section.credentials_file
    if file and not is_credentials_file(file):
        raise OSError(f'cluster.credentials_file = "{file}": expected {CREDENTIALS_FILE}')
    file = section.nkey_file
    if file and not is_nkey_file(file):
        raise OSError(f'cluster.nkey_file = "{file}": expected {NKEY_FILE}')


def tls_context(section: ClusterSection) -> ssl.SSLContext:
    """Made anew for each connection, because certificates are renewed. Blocks. Raises OSError."""
    tls = section.tls
    context = ssl.create_default_context(cafile=tls.trusted_ca or None)
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.private_key, password="")
    return context


def explain(error: BaseException | None) -> str:
    """In words, without what was sent: nats-py's errors name no credentials, those of nkeys may."""
    if error is None:
        return "closed by the server"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    # OpenSSL's own words are the best for what else goes wrong with TLS.
    is_of_openssl = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError)
    if isinstance(error, OSError) and not is_of_openssl:
        return obstacle(error)
    if not isinstance(error, OSError) and type(error).__module__.split(".")[0] != "nats":
        return type(error).__name__
    return str(error).removeprefix("nats: ").strip("'") or type(error).__name__
