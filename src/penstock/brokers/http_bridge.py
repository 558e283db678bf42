"""A connection to an HTTP endpoint: each message of a target is a request. There are no sources.

The address of a target is `METHOD:/path`. A connection is kept open between requests; `specificConfig.parallelism` says
how many there are, 1 by default, so that the order of events is kept.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from penstock.brokers.bridge import Bridge, BridgeLost, PublishRefused, tls_of
from penstock.brokers.mqtt import words
from penstock.connections.document import ConnectionDocument
from penstock.connections.message import OutboundMessage

# Seconds for a request and its answer.
TIMEOUT = 30.0

MAX_PARALLEL = 16

# Bytes of an answer that are read; nobody looks at them.
MAX_BODY = 64 * 1024

METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")

# Answers that say that the endpoint could take it at another time.
BUSY = (408, 425, 429, 502, 503, 504)


class HttpBridge(Bridge):
    def __init__(self, document: ConnectionDocument) -> None:
        super().__init__(document)
        given = document.specific_config.get("parallelism", "1")
        if not given.isdigit() or not 1 <= int(given) <= MAX_PARALLEL:
            raise BridgeLost(f"specificConfig.parallelism = '{given}': expected 1 to {MAX_PARALLEL}", is_final=True)
        self._threads = ThreadPoolExecutor(int(given), "http-push")
        self._idle: list[http.client.HTTPConnection] = []
        self._open: set[http.client.HTTPConnection] = set()
        self._tls = tls_of(document)
        self._path = urlsplit(document.uri).path.rstrip("/")
        self._authorization: str | None = None
        if document.credentials is not None and document.credentials.type == "bearer":
            self._authorization = f"Bearer {document.credentials.token}"
        elif document.user is not None:
            pair = f"{document.user}:{document.password or ''}".encode()
            self._authorization = f"Basic {base64.b64encode(pair).decode()}"

    async def open(self) -> None:
        """Whether it can be reached at all."""
        try:
            connection = await asyncio.get_running_loop().run_in_executor(self._threads, self._connected)
        except OSError as error:
            raise BridgeLost(words(error)) from None
        self._idle.append(connection)

    async def publish(self, message: OutboundMessage) -> int:
        method, colon, path = message.address.partition(":")
        if not colon or method not in METHODS:
            raise PublishRefused(f"'{message.address[:60]}': expected METHOD:/path, with {', '.join(METHODS)}")
        if not path.startswith("/"):
            path = f"/{path}"
        try:
            work = asyncio.get_running_loop().run_in_executor(self._threads, self._request, method, path, message)
            status = await work
        except (OSError, http.client.HTTPException) as error:
            reason = words(error) if isinstance(error, OSError) else type(error).__name__
            raise BridgeLost(f"the endpoint does not answer: {reason}") from None
        except ValueError as error:
            raise PublishRefused(str(error)) from None
        if status in BUSY:
            raise BridgeLost(f"the endpoint answers with status {status}")
        if status >= 300:
            # Redirects are not followed: the document says where messages go.
            raise PublishRefused(f"the endpoint answers with status {status}", max(status, 400))
        return status

    def hold(self, held: bool) -> None:
        """Nothing comes."""

    async def close(self) -> None:
        self.end("it was closed")
        self._threads.shutdown(wait=False, cancel_futures=True)
        for connection in list(self._open):
            if connection.sock is not None:
                # Also ends a request that waits for its answer.
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    # -- on a thread ------------------------------------------------------------------------------------------------

    def _connected(self) -> http.client.HTTPConnection:
        document = self.document
        port = document.port
        connection: http.client.HTTPConnection
        if self._tls is not None:
            connection = http.client.HTTPSConnection(document.host, port, timeout=TIMEOUT, context=self._tls)
        else:
            connection = http.client.HTTPConnection(document.host, port, timeout=TIMEOUT)
        connection.connect()
        self._open.add(connection)
        return connection

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self._open.discard(connection)
        connection.close()

    def _request(self, method: str, path: str, message: OutboundMessage) -> int:
        headers = {name: value for name, value in message.headers.items() if not name.startswith("mqtt.")}
        if self._authorization is not None:
            headers.setdefault("authorization", self._authorization)
        kept = self._idle.pop() if self._idle else None
        try:
            if kept is not None:
                try:
                    return self._asked(kept, method, path, message.payload, headers)
                except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                    # The endpoint has closed what was idle for too long.
                    self._drop(kept)
            kept = self._connected()
            return self._asked(kept, method, path, message.payload, headers)
        except BaseException:
            if kept is not None:
                self._drop(kept)
            raise

    def _asked(
        self, connection: http.client.HTTPConnection, method: str, path: str, payload: bytes, headers: dict[str, str]
    ) -> int:
        connection.request(method, f"{self._path}{path}", payload, headers)
        response = connection.getresponse()
        response.read(MAX_BODY)
        if response.will_close or not response.isclosed():
            self._drop(connection)
        else:
            self._idle.append(connection)
        return response.status
