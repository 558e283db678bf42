"""A bridge: what a connection needs of a broker, whatever broker it is. Those of each kind are beside this file.

A bridge is made, opened once, and ends once. It never comes back by itself: who uses it makes another one.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.connections.document import ConnectionDocument
from penstock.connections.message import InboundMessage, OutboundMessage
from penstock.connections.offsets import OffsetLedger

# Takes messages of one source in their order, on the event loop.
TakeInbound = Callable[[list[InboundMessage]], None]

# What is known of a partition, from the journal: blocks.
Ledgers = Callable[[str, int], OffsetLedger]


class BridgeLost(Exception):
    """A broker cannot be reached, or is lost; the text says why, without secrets.

    `is_final` is whether trying again cannot help, as with wrong credentials.
    """

    def __init__(self, reason: str, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Bridge(ABC):
    """`ended` has the reason once it has ended. All calls are on the event loop."""

    def __init__(self, document: ConnectionDocument) -> None:
        self.document = document
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @abstractmethod
    async def open(self) -> None:
        """Connect, and let messages come. Raises BridgeLost."""

    @abstractmethod
    async def publish(self, message: OutboundMessage) -> int:
        """Until the broker has it. The status of the acknowledgement, 2xx; raises BridgeLost or PublishRefused."""

    @abstractmethod
    def hold(self, held: bool) -> None:
        """Whether messages should not come for a while. Those under way still come."""

    @abstractmethod
    async def close(self) -> None:
        """Release everything; also if it was never open, or has ended."""

    def end(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)


class PublishRefused(Exception):
    """The broker does not take this message; others may be taken. `status` is what an acknowledgement would say."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


def tls_of(document: ConnectionDocument) -> ssl.SSLContext | None:
    """For an encrypted URI; raises BridgeLost for a certificate that cannot be used."""
    if not document.is_encrypted:
        return None
    try:
        context = ssl.create_default_context(cadata=document.ca or None)
    except (ssl.SSLError, ValueError):
        raise BridgeLost("ca is not a certificate in the form PEM", is_final=True) from None
    if not document.validate_certificates:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    credentials = document.credentials
    if credentials is not None and credentials.type == "client-cert":
        # OpenSSL reads keys from files only.
        with tempfile.TemporaryDirectory(prefix="penstock-") as name:
            path = Path(name) / "client.pem"
            path.touch(0o600)
            path.write_text(f"{credentials.cert}\n{credentials.key}\n")
            try:
                context.load_cert_chain(path)
            except (ssl.SSLError, OSError):
                raise BridgeLost("credentials: cert and key do not fit, or are not PEM", is_final=True) from None
    return context


def addresses(document: ConnectionDocument) -> Sequence[tuple[int, str]]:
    """Of all sources, each with the number of its source."""
    return [(number, each) for number, source in enumerate(document.sources) for each in source.addresses]
