"""The streaming door: its listeners, its open connections, and what they share.

One listener speaks plain HTTP and WebSocket, a second one the same over TLS when a certificate is configured.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import ssl
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock import __version__
from penstock.certificates import NO_PASSWORD, Certificate, CertificateFiles
from penstock.config import Config
from penstock.config.schema import Tls
from penstock.doors.stream.census import Census
from penstock.doors.stream.http import HttpConnection
from penstock.doors.stream.origins import Origins
from penstock.doors.stream.pages import Pages
from penstock.doors.stream.turns import Turns
from penstock.log import get
from penstock.wire.text6.requests import REQUESTS

if TYPE_CHECKING:
    from penstock.doors.stream.response import HttpResponse
    from penstock.doors.stream.websocket import WebSocketConnection
    from penstock.doors.text6.door import Text6Door
    from penstock.doors.tlcp.door import TlcpDoor

log = get(__name__)

# How long connections may take to write their last lines when the server stops.
STOP_PATIENCE = 5.0


class ListenError(Exception):
    """A listener cannot be opened; the text names its address and the reason."""


class StreamDoor:
    """Opened by `listen`, closed by `stop`."""

    def __init__(
        self,
        config: Config,
        turns: Turns,
        tlcp: TlcpDoor,
        text6: Text6Door,
        health: Callable[[], tuple[int, Mapping[str, object]]],
    ) -> None:
        """`health` says what GET /health answers: status and body."""
        self.config = config
        self.turns = turns
        self.tlcp = tlcp
        self._text6 = text6
        self.origins = Origins(config.cors)
        self.pages = Pages()
        self.connections: set[HttpConnection | WebSocketConnection] = set()
        self.connection_census = Census(config.limits.connections_per_address)
        self.stopping = False
        self._all_closed = asyncio.Event()
        self._health = health
        self._servers: list[asyncio.Server] = []
        # Of the TLS listener, if it is open.
        self.certificate: Certificate | None = None
        name = config.server.name.encode("ascii", "replace").decode()
        self._server_header = name if config.server.server_tokens == "minimal" else f"{name}/{__version__}"
        self._date = ""
        self._date_second = 0

    async def listen(self) -> None:
        """Open the listeners; raises ListenError when an address cannot be had."""
        stream = self.config.stream
        self._servers.append(await self._listen(stream.port, None))
        if stream.tls.enabled:
            self.certificate = Certificate(certificate_files(stream.tls), functools.partial(tls_context, stream.tls))
            self._servers.append(await self._listen(stream.tls.port, self.certificate.context))

    async def _listen(self, port: int, context: ssl.SSLContext | None) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        timeout = self.config.limits.handshake_timeout_millis / 1000
        try:
            return await loop.create_server(
                self._secure_connection if context else self._plain_connection,
                self.config.stream.host,
                port,
                backlog=self.config.stream.backlog,
                ssl=context,
                ssl_handshake_timeout=timeout if context else None,
            )
        except OSError as error:
            raise ListenError(f"cannot listen on {self.config.stream.host}:{port}: {error}") from error

    def _plain_connection(self) -> HttpConnection:
        return HttpConnection(self, secure=False)

    def _secure_connection(self) -> HttpConnection:
        return HttpConnection(self, secure=True)

    async def answer(self, name: str, response: HttpResponse) -> None:
        """Have the door of the request's protocol answer it: all of TLCP has LS_protocol in the query string."""
        if name in REQUESTS and not _names_protocol(response.request.query):
            await self._text6.answer_http(name, response)
        else:
            await self.tlcp.answer_http(name, response)

    @property
    def ports(self) -> list[int]:
        """The ports really taken: plain first, then TLS."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    def forget(self, connection: HttpConnection | WebSocketConnection) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        if self.stopping and not self.connections:
            self._all_closed.set()

    def identity_headers(self) -> list[tuple[str, str]]:
        """Server and Date; the date is formatted once a second."""
        now = int(time.time())
        if now != self._date_second:
            self._date_second = now
            self._date = formatdate(now, usegmt=True)
        return [("Server", self._server_header), ("Date", self._date)]

    def health(self) -> tuple[int, bytes]:
        """Status and body that GET /health answers here; the API port has the same."""
        status, body = self._health()
        return status, json.dumps(body).encode()

    async def stop(self, say_goodbye: Callable[[], None]) -> None:
        """Stop listening, let `say_goodbye` end the streams, and wait until their last lines are written."""
        self.stopping = True
        for server in self._servers:
            server.close()
        say_goodbye()
        for connection in list(self.connections):
            connection.close_if_idle()
        self.turns.run()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), STOP_PATIENCE)
        for connection in list(self.connections):
            connection.transport.abort()


def _names_protocol(query: str) -> bool:
    return any(unquote(pair.partition("=")[0]) == "LS_protocol" for pair in query.split("&"))


def certificate_files(settings: Tls) -> CertificateFiles:
    return CertificateFiles(settings.certificate, settings.private_key, settings.client_ca or None)


def tls_context(settings: Tls, files: CertificateFiles) -> ssl.SSLContext:
    """TLS 1.2 and 1.3, server side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(files.certificate, files.private_key, NO_PASSWORD)
    if settings.ciphers:
        context.set_ciphers(settings.ciphers)
    if files.authorities is not None:
        context.load_verify_locations(files.authorities)
        is_required = settings.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context
