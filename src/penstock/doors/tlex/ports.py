"""The two TCP ports of TLEX as they are configured, plain and with TLS, and where clients are told that they are.

A server by itself has them, a worker, and a node of a cluster. Connections are in `listener`.
"""

from __future__ import annotations

from penstock.certificates import Certificate, CertificateFiles
from penstock.config import TlexSection
from penstock.config.checks import EVERY_INTERFACE
from penstock.doors.tlex.interpreter import TlexReception
from penstock.doors.tlex.listener import Listeners, tls_context
from penstock.exchange.places import TlexPlace
from penstock.log import get

log = get(__name__)


class TlexPorts:
    """Opened by `listen`. The ports and the certificate are there after that."""

    def __init__(self, reception: TlexReception, tlex: TlexSection, max_strangers: int | None) -> None:
        """`max_strangers` overrides the configuration."""
        self._tlex = tlex
        strangers = tlex.max_strangers if max_strangers is None else max_strangers
        self.listeners = Listeners(reception, strangers, tlex.handshake_millis / 1000)
        self.port = 0
        # Both are None without a certificate.
        self.certificate: Certificate | None = None
        self.tls_port: int | None = None

    async def listen(self, shared: bool = False) -> TlexPlace:
        """Raises ListenError. Returns what clients are told. `shared`: with the other workers of this server."""
        tlex = self._tlex
        self.port = await self.listeners.listen(tlex.host, tlex.port, None, shared)
        if tlex.certificate:
            self.certificate = Certificate(certificate_files(tlex), tls_context)
            self.tls_port = await self.listeners.listen(tlex.host, tlex.tls_port, self.certificate.context, shared)
        log.info("TLEX listens", host=tlex.host, port=self.port, tls_port=self.tls_port)
        tls_port = None if self.tls_port is None else tlex.announced_tls_port or self.tls_port
        return TlexPlace(announced_host(tlex), tlex.announced_port or self.port, tls_port)


def announced_host(tlex: TlexSection) -> str:
    """Empty: whichever a client has asked at."""
    return tlex.announced_host or ("" if tlex.host in EVERY_INTERFACE else tlex.host)


def certificate_files(tlex: TlexSection) -> CertificateFiles:
    return CertificateFiles(tlex.certificate, tlex.private_key)
