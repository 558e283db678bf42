"""A connection on the event loop that is made again when it is lost; what brokers with asyncio clients have in common.

Not here: Kafka, whose library has threads and comes back by itself.
"""

from __future__ import annotations

import asyncio
import ssl
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from penstock.adapters.brokers.adapter import BrokerAdapter, RecordParameters
from penstock.log import get
from penstock.loop import is_stopping

log = get(__name__)

# Seconds between two attempts; it doubles up to the second.
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0

# Seconds in which the first connection must be made.
FIRST_CONNECTION = 10.0


class LinkLost(Exception):
    """The connection could not be made, or has ended; the text says why, without secrets."""


class LinkedAdapter(BrokerAdapter):
    """Extended by an adapter that reads on the event loop."""

    quick = True
    # For messages: what people call the broker.
    broker = ""

    def __init__(self, address: str, parameters: RecordParameters) -> None:
        super().__init__(parameters)
        self.address = address
        self._task: asyncio.Task[None] | None = None
        self._linked = asyncio.Event()
        self._trouble: str | None = None

    @abstractmethod
    async def read(self) -> None:
        """Connect, call `linked` when records can come, and read until the connection ends, with LinkLost."""

    def linked(self) -> None:
        """Raises CancelledError if it is to stop."""
        if is_stopping():
            raise asyncio.CancelledError
        if self._trouble is not None:
            log.info("broker can be read again", broker=self.broker, address=self.address)
        self._trouble = None
        self._linked.set()

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep_reading())
        try:
            async with asyncio.timeout(FIRST_CONNECTION):
                await self._linked.wait()
        except TimeoutError:
            await self.stop()
            reason = self._trouble or f"it has not answered within {FIRST_CONNECTION:.0f} seconds"
            raise ValueError(f"{self.broker} at {self.address} cannot be read: {reason}") from None

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    @property
    def trouble(self) -> str | None:
        return self._trouble

    async def _keep_reading(self) -> None:
        pause = FIRST_PAUSE
        while not is_stopping():
            self._linked.clear()
            try:
                await self.read()
                reason = "the connection has ended"
            except LinkLost as lost:
                reason = str(lost)
            except Exception as error:
                log.exception("broker cannot be read", broker=self.broker, address=self.address)
                reason = type(error).__name__
            if self._linked.is_set():
                pause = FIRST_PAUSE
            if self._trouble is None:
                log.warning("broker cannot be read", broker=self.broker, address=self.address, reason=reason)
            self._trouble = reason
            if not is_stopping():
                await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def secret(parameters: Mapping[str, object], name: str) -> str | None:
    """Itself, or the text of the file that is named instead. Raises ValueError, without the secret."""
    given, file = parameters.get(name), parameters.get(f"{name}_file")
    if file is None:
        return None if given is None else str(given)
    if given is not None:
        raise ValueError(f"{name} is set together with {name}_file: expected one of them")
    try:
        text = Path(str(file)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{name}_file = {str(file)!r}: {getattr(error, 'strerror', '') or 'it is not UTF-8'}"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def tls_context(ca_file: Path | None, certificate: Path | None, private_key: Path | None) -> ssl.SSLContext:
    """Raises ValueError with the parameter whose file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"tls_ca_file = {str(ca_file)!r}: {error.strerror or error}") from None
    if certificate is None and private_key is None:
        return context
    if certificate is None:
        raise ValueError("tls_private_key is set without tls_certificate: expected both, or none")
    try:
        context.load_cert_chain(certificate, private_key)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"tls_certificate = {str(certificate)!r}: {error.strerror or error}") from None
    return context
