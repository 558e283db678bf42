"""Whom a listener believes when it says for whom it asks: the proxies that are configured, and nobody else.

What a proxy says at the beginning of a connection is read in `greeting`. Read next: docs/listeners.md.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from penstock.config import ProxiesSection


class ClientAddress(NamedTuple):
    """For whom a proxy asks; the port is 0 where it does not say."""

    address: str
    port: int


class Proxies:
    """Those of one listener."""

    def __init__(self, settings: ProxiesSection) -> None:
        self.speak_first = settings.proxy_protocol
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
