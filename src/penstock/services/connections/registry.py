"""All connections of a server: what is stored, what runs, and the commands that change either."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.brokers.bridge import BridgeLost
from penstock.connections.document import (
    HIDDEN,
    ConnectionDocument,
    check_id,
    read_document,
    shown,
    to_json,
    with_secrets_of,
)
from penstock.connections.errors import CONFLICT, CONNECTION_FAILED, UNAVAILABLE, invalid
from penstock.log import get
from penstock.services.connections.runner import ConnectionRunner, try_out
from penstock.store.connections import ConnectionStore
from penstock.store.opening import UNANSWERED, reason
from penstock.wire.ditto.errors import CONNECTION_NOT_FOUND, DittoError

log = get(__name__)

# Connections of one server.
MAX_CONNECTIONS = 100

# Bytes of a document.
MAX_DOCUMENT = 256 * 1024

COMMANDS = (
    "openConnection",
    "closeConnection",
    "resetConnectionMetrics",
    "enableConnectionLogs",
    "resetConnectionLogs",
)
PREFIX = "connectivity.commands:"


class ConnectionRegistry:
    """`make` makes a runner, and raises what is wrong with a document."""

    def __init__(self, store: ConnectionStore, make: Callable[[ConnectionDocument], ConnectionRunner]) -> None:
        self._store = store
        self._make = make
        self._runners: dict[str, ConnectionRunner] = {}
        # Changes come one after the other.
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """From the store; raises CannotOpen. A connection that cannot be used any more is logged, and stays stored."""
        for id, text in (await asyncio.to_thread(self._store.all)).items():
            try:
                runner = self._make(read_document(msgspec.json.decode(text)))
            except DittoError as error:
                log.error("connection cannot be used", connection=id, reason=error.message)
                continue
            self._runners[id] = runner
            self._begin(runner)

    async def close(self) -> None:
        await asyncio.gather(*[runner.close() for runner in self._runners.values()])

    @property
    def runners(self) -> list[ConnectionRunner]:
        return [self._runners[id] for id in sorted(self._runners)]

    def runner(self, id: str) -> ConnectionRunner:
        found = self._runners.get(id)
        if found is None:
            raise CONNECTION_NOT_FOUND.of(id)
        return found

    def document(self, id: str) -> dict[str, Any]:
        """Without secrets."""
        return shown(self.runner(id).document)

    # -- changes ----------------------------------------------------------------------------------------------------

    async def create(self, given: Any) -> dict[str, Any]:
        document = read_document(given)
        if not document.id:
            document = msgspec.structs.replace(document, id=str(uuid.uuid4()))
        async with self._lock:
            if document.id in self._runners:
                raise CONFLICT.of(document.id)
            await self._put(document)
        return shown(document)

    async def put(self, id: str, given: Any) -> tuple[dict[str, Any], bool]:
        """The document, and whether it is new."""
        check_id(id)
        document = read_document(given)
        if document.id not in ("", id):
            raise invalid(f"id = '{document.id}': expected '{id}', as in the path, or nothing")
        document = msgspec.structs.replace(document, id=id)
        async with self._lock:
            before = self._runners.get(id)
            if before is not None:
                document = with_secrets_of(document, before.document)
            await self._put(document)
        return shown(document), before is None

    async def _put(self, document: ConnectionDocument) -> None:
        text = msgspec.json.encode(to_json(document))
        if HIDDEN.encode() in text:
            raise invalid(f"a secret is '{HIDDEN}': expected the secret itself, because there is none to keep")
        if len(text) > MAX_DOCUMENT:
            raise invalid(f"the document has {len(text)} bytes: expected at most {MAX_DOCUMENT}")
        before = self._runners.get(document.id)
        if before is None and len(self._runners) >= MAX_CONNECTIONS:
            raise invalid(f"there are {MAX_CONNECTIONS} connections, the most that are allowed")
        runner = self._make(document)
        await self._stored(document.id, self._store.put, document.id, text)
        if before is not None:
            await before.close()
        self._runners[document.id] = runner
        self._begin(runner)
        log.info("connection stored", connection=document.id, kind=document.connection_type)

    async def _stored(self, id: str, change: Callable[..., None], *arguments: object) -> None:
        """Nothing runs that is not stored. Raises 503 with the reason."""
        try:
            await asyncio.to_thread(change, *arguments)
        except UNANSWERED as error:
            log.error("connection not stored", connection=id, reason=reason(error))
            raise UNAVAILABLE.of(id, reason(error)) from None

    def _begin(self, runner: ConnectionRunner) -> None:
        if runner.document.connection_status != "open":
            return
        try:
            runner.open()
        except DittoError as error:
            runner.reason = error.message
            runner.tally.note("failure", "connection", error.message)
            log.error("connection cannot be opened", connection=runner.document.id, reason=error.message)

    async def delete(self, id: str) -> None:
        async with self._lock:
            runner = self.runner(id)
            await self._stored(id, self._store.remove, id)
            del self._runners[id]
            await runner.close()
        log.info("connection deleted", connection=id)

    async def command(self, id: str, command: str) -> None:
        name = command.removeprefix(PREFIX)
        if name not in COMMANDS:
            raise invalid(f"'{command[:100]}' is not a command: expected {PREFIX} and one of {', '.join(COMMANDS)}")
        runner = self.runner(id)
        if name == "resetConnectionMetrics":
            runner.tally.reset()
        elif name == "resetConnectionLogs":
            runner.tally.reset_log()
        elif name in ("openConnection", "closeConnection"):
            status = "open" if name == "openConnection" else "closed"
            async with self._lock:
                runner = self.runner(id)
                document = msgspec.structs.replace(runner.document, connection_status=status)
                await self._stored(id, self._store.put, id, msgspec.json.encode(to_json(document)))
                runner.document = document
                if status == "open":
                    runner.open()
                else:
                    await runner.close()

    async def test(self, given: Any) -> None:
        """Connect and leave; nothing is stored. Raises 504 with the reason."""
        document = read_document(given)
        document = msgspec.structs.replace(document, id=document.id or f"test-{uuid.uuid4()}")
        before = self._runners.get(document.id)
        if before is not None:
            document = with_secrets_of(document, before.document)
        self._make(document)
        try:
            await try_out(document)
        except BridgeLost as lost:
            raise CONNECTION_FAILED.of(document.id, lost) from None
