"""The streaming door: its listeners, its open connections, and what they share.

One listener speaks plain HTTP and WebSocket, a second one the same over TLS when a certificate is configured.
"""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.certificates import Certificate, CertificateFiles
from penstock.config import Config, TlsSection
from penstock.doors.stream.http import StreamConnection
from penstock.doors.stream.pages import Pages
from penstock.doors.stream.turns import Turns
from penstock.monitor.health import Answer, live
from penstock.transport.origins import Origins
from penstock.transport.port import HttpPort
from penstock.transport.tls import server_context
from penstock.wire.text6.requests import REQUESTS

if TYPE_CHECKING:
    from penstock.doors.stream.response import HttpResponse
    from penstock.doors.text6.door import Text6Door
    from penstock.doors.tlcp.door import TlcpDoor

# Seconds that connections have to write their last lines when the server stops.
STOP_PATIENCE = 5.0

PROBES = frozenset({"/health", "/ready"})


class StreamDoor(HttpPort):
    """Opened by `listen`, closed by `stop`."""

    def __init__(
        self,
        config: Config,
        turns: Turns,
        tlcp: TlcpDoor,
        text6: Text6Door,
        ready: Callable[[], Answer],
        max_connections: int,
    ) -> None:
        """`ready` returns what GET /ready answers: status and body."""
        super().__init__("stream", config, Origins(config.cors), max_connections, turns.ledger)
        self.turns = turns
        self.tlcp = tlcp
        self._text6 = text6
        self.pages = Pages()
        self._ready = ready
        # The certificate of the TLS listener, if that is open.
        self.certificate: Certificate | None = None

    async def listen(self) -> None:
        """Open the listeners, plain first, then TLS; raises ListenError when an address is not available."""
        stream = self.config.stream
        await self.open(stream.host, stream.port, stream.backlog)
        if stream.tls.enabled:
            self.certificate = Certificate(certificate_files(stream.tls), functools.partial(tls_context, stream.tls))
            await self.open(stream.host, stream.tls.port, stream.backlog, self.certificate.context)

    def connection(self, secure: bool) -> asyncio.Protocol:
        return StreamConnection(self, secure)

    async def answer(self, name: str, response: HttpResponse) -> None:
        """Have the door of the request's protocol answer it: all of TLCP has LS_protocol in the query string."""
        if name in REQUESTS and not _names_protocol(response.request.query):
            await self._text6.answer_http(name, response)
        else:
            await self.tlcp.answer_http(name, response)

    def probe(self, path: str) -> tuple[int, bytes] | None:
        """Status and body of a probe, if there is one at this path; the API port has the same."""
        if path not in PROBES:
            return None
        status, body = live() if path == "/health" else self._ready()
        return status, json.dumps(body).encode()

    async def stop(self, say_goodbye: Callable[[], None]) -> None:
        """Stop listening, let `say_goodbye` end the streams, and wait until their last lines are written."""
        self.close()
        say_goodbye()
        self.close_idle()
        self.turns.run()
        await self.wait(STOP_PATIENCE)
        self.abort()


def _names_protocol(query: str) -> bool:
    return any(unquote(pair.partition("=")[0]) == "LS_protocol" for pair in query.split("&"))


def certificate_files(settings: TlsSection) -> CertificateFiles:
    return CertificateFiles(settings.certificate, settings.private_key, settings.client_ca or None)


def tls_context(settings: TlsSection, files: CertificateFiles) -> ssl.SSLContext:
    """TLS 1.2 and 1.3, server side."""
    context = server_context(files)
    if settings.ciphers:
        context.set_ciphers(settings.ciphers)
    if files.authorities is not None:
        context.load_verify_locations(files.authorities)
        is_required = settings.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context
