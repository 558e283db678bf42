"""Whom a listener believes when it says for whom it asks: the proxies that are configured, and nobody else.

What a proxy says at the beginning of a connection is read in `greeting`, the form of headers in `wire.forwarded`. Read
next: docs/listeners.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from penstock.config import ProxiesSection
from penstock.wire.forwarded import ForwardedError, node, nodes
from penstock.wire.http1 import HttpError


class NamedClient(NamedTuple):
    """For whom a proxy asks; the port is 0 where it does not say."""

    address: str
    port: int


class Proxies:
    """Those of one listener."""

    def __init__(self, settings: ProxiesSection) -> None:
        self.speak_first = settings.proxy_protocol
        # In lower case, as headers of requests are; empty where none means anything.
        self.header = settings.client_header.lower()
        self._header_name = settings.client_header
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(text) for text in settings.addresses]

    @property
    def are_there(self) -> bool:
        return bool(self._networks)

    def include(self, address: str) -> bool:
        """Whether one of them has this address."""
        if not self._networks:
            return False
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            # A listener at `::` sees addresses of IPv4 in this form.
            found = found.ipv4_mapped
        return any(found in network for network in self._networks)

    def client_of(self, headers: Mapping[str, str], peer: NamedClient) -> NamedClient:
        """For whom the peer of a connection asks in a request with these headers; raises HttpError.

        Each proxy adds whom it was asked by. What those wrote there who are not proxies is not looked at, because they
        may write anything. A proxy that does not tell is taken for the client itself.
        """
        value = headers.get(self.header)
        if value is None:
            return peer
        if not self.include(peer.address):
            raise HttpError(403, f"{self._header_name} is accepted here from the configured proxies only")
        client = peer
        try:
            for text in reversed(nodes(self.header, value)):
                found = node(text)
                if found.address is None:
                    break
                client = NamedClient(found.address, found.port)
                if not self.include(client.address):
                    break
        except ForwardedError as error:
            raise HttpError(400, f"{self._header_name}: {error}") from None
        return client
