"""HTTP/2 requests to providers: one connection for each origin, shared by all requests to it, made again when it ends.

Not here: frames and streams (`http2`), what is asked, and what an answer means (each provider). Redirects are not
followed, because no provider has any.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from urllib.parse import urlsplit

from penstock.certificates import NO_PASSWORD
from penstock.providers.errors import ProviderError
from penstock.providers.http2 import Http2Connection, HttpFailure, HttpReply

# After a connection that could not be made, requests fail at once for this many seconds: thousands of devices may
# want to send, and each would try by itself.
PAUSE_AFTER_FAILURE = 1.0

ResolveHost: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Origin:
    host: str
    port: int

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"

    @staticmethod
    def parse(address: str) -> tuple[Origin, str]:
        """An https address as origin and path with query. Raises ValueError, whose text has nothing of the address."""
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("it is not a valid address") from None
        if parts.scheme != "https":
            raise ValueError("it does not begin with https://")
        if not host or "@" in parts.netloc:
            raise ValueError("it has no host, or a user name")
        if not address.isascii() or any(character <= " " or character == "\x7f" for character in address):
            raise ValueError("it has characters that an address cannot have")
        path = parts.path or "/"
        return Origin(host, 443 if port is None else port), f"{path}?{parts.query}" if parts.query else path

    @staticmethod
    def configured(address: str) -> Origin:
        """That of an address out of the configuration; raises ProviderError."""
        try:
            return Origin.parse(address)[0]
        except ValueError as error:
            raise ProviderError(f"the address of the provider is wrong: {error}") from None


class HttpClient:
    """`resolve` says which addresses a host has; it raises HttpFailure for a host that must not be asked."""

    def __init__(self, context: ssl.SSLContext, timeout: float, resolve: ResolveHost | None = None) -> None:
        # What the connections were made with, and what new ones are to be made with.
        self._context = context
        self._next_context = context
        self._timeout = timeout
        self._resolve = resolve
        self._connections: dict[Origin, Http2Connection] = {}
        self._attempts: dict[Origin, asyncio.Task[Http2Connection]] = {}
        self._failures: dict[Origin, tuple[float, str]] = {}
        # Those that are not asked anything more, but still have answers to come.
        self._retired: set[Http2Connection] = set()

    def replace_context(self, context: ssl.SSLContext) -> None:
        """Other certificates, from the next request on; those under way still get their answers. From any thread."""
        self._next_context = context

    async def post(self, origin: Origin, path: str, headers: bytes, body: bytes) -> HttpReply:
        """Raise HttpFailure if there is no whole answer within the time-out. `headers` are `http2_headers.packed`."""
        exchange = None
        connection = self._usable(origin)
        deadline = asyncio.timeout(self._timeout)
        try:
            async with deadline:
                if connection is None:
                    connection = await self._connect(origin)
                exchange = connection.post(path, headers, body)
                return await exchange.reply
        except TimeoutError:
            raise HttpFailure(f"{origin.authority} has not answered within {self._timeout:g} s") from None
        finally:
            if connection is not None and exchange is not None and not exchange.over:
                connection.abandon(exchange, is_silent=deadline.expired())

    async def close(self) -> None:
        for attempt in self._attempts.values():
            attempt.cancel()
        await asyncio.gather(*self._attempts.values(), return_exceptions=True)
        connections = [*self._connections.values(), *self._retired]
        for connection in connections:
            connection.close()
        for connection in connections:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(connection.closed), 1.0)
        self._connections.clear()

    def _usable(self, origin: Origin) -> Http2Connection | None:
        # Not while a connection is being made: it would count as one of the new certificates.
        if self._next_context is not self._context and not self._attempts:
            self._context = self._next_context
            self._failures.clear()
            for old in self._connections.values():
                self._retire(old)
            self._connections.clear()
        connection = self._connections.get(origin)
        if connection is not None and not connection.is_usable:
            del self._connections[origin]
            self._retire(connection)
            return None
        return connection

    def _retire(self, connection: Http2Connection) -> None:
        if not connection.closed.done():
            self._retired.add(connection)
            connection.closed.add_done_callback(lambda _: self._retired.discard(connection))
            connection.retire()

    async def _connect(self, origin: Origin) -> Http2Connection:
        """One attempt at a time, for all who wait."""
        loop = asyncio.get_running_loop()
        if failure := self._failures.get(origin):
            until, text = failure
            if loop.time() < until:
                raise HttpFailure(text)
            del self._failures[origin]
        attempt = self._attempts.get(origin)
        if attempt is None:
            attempt = self._attempts[origin] = loop.create_task(self._open(origin))
            attempt.add_done_callback(lambda task: self._opened(origin, task))
        # Who gives up does not end the attempt of the others.
        return await asyncio.shield(attempt)

    def _opened(self, origin: Origin, task: asyncio.Task[Http2Connection]) -> None:
        del self._attempts[origin]
        if task.cancelled():
            return
        if (error := task.exception()) is None:
            self._connections[origin] = task.result()
        else:
            self._failures[origin] = (asyncio.get_running_loop().time() + PAUSE_AFTER_FAILURE, str(error))

    async def _open(self, origin: Origin) -> Http2Connection:
        context, where = self._context, origin.authority
        loop = asyncio.get_running_loop()
        connection: Http2Connection | None = None
        try:
            async with asyncio.timeout(self._timeout):
                addresses = [origin.host] if self._resolve is None else await self._resolve(origin.host, origin.port)
                # Connected to an address that was looked at, not to the name, which may have another one by now.
                for number, address in enumerate(addresses, 1):
                    try:
                        _, connection = await loop.create_connection(
                            partial(Http2Connection, where),
                            address,
                            origin.port,
                            ssl=context,
                            server_hostname=origin.host,
                        )
                        break
                    except OSError:
                        if number == len(addresses):
                            raise
                if connection is None:
                    raise HttpFailure(f"{where} has no address")
                await connection.ready
                return connection
        except TimeoutError:
            raise HttpFailure(f"no connection to {where} within {self._timeout:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise HttpFailure(f"the certificate of {where} is not trusted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise HttpFailure(f"no TLS connection to {where}: {error.reason or 'handshake failed'}") from None
        except OSError as error:
            raise HttpFailure(f"no connection to {where}: {error.strerror or type(error).__name__}") from None
        finally:
            if connection is not None and not connection.is_usable:
                connection.close()


async def public_addresses(host: str, port: int) -> Sequence[str]:
    """Raise HttpFailure unless all addresses of a host are public: a client chose it, and it is asked from inside."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise HttpFailure(f"{host} has no address") from None
    addresses = [str(entry[4][0]) for entry in found]
    if not all(is_public(address) for address in addresses):
        raise HttpFailure(f"{host} has an address that is not public")
    return addresses


def is_public(address: str) -> bool:
    """Whether it is one of the Internet, also where it is an IPv4 address inside one of IPv6."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        inside = parsed.ipv4_mapped or parsed.sixtofour
        if inside is None and parsed in _NAT64:
            inside = ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)
        if inside is not None:
            return is_public(str(inside))
    return parsed.is_global and not parsed.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def client_context(trusted_ca: str, certificate: str = "", private_key: str = "") -> ssl.SSLContext:
    """For HTTP/2, as RFC 9113 wants TLS; `private_key` may be in the file of the certificate. Raises ProviderError."""
    try:
        context = ssl.create_default_context(cafile=trusted_ca or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        if certificate:
            context.load_cert_chain(certificate, private_key or None, password=NO_PASSWORD)
    except OSError as error:
        names = ", ".join([name for name in (certificate, private_key, trusted_ca) if name])
        text = "wrong contents" if isinstance(error, ssl.SSLError) else error.strerror
        raise ProviderError(f"cannot read {names}: {text}") from None
    return context
