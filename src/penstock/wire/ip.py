"""Addresses of IPv4 and IPv6 as peers write them, in one form for each client.

Read next: `proxy_protocol` and `forwarded`, by which proxies say for whom they ask.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address


def ipv4_text(text: str) -> str:
    """An address of IPv4 as it is usually written; raises ValueError."""
    return str(IPv4Address(text))


def ipv6_text(text: str) -> str:
    """The same for one of IPv6; raises ValueError, also for one that means something on one machine only."""
    if "%" in text:
        raise ValueError(text)
    return plain_text(IPv6Address(text))


def plain_text(address: IPv6Address) -> str:
    """As text; one that stands for an address of IPv4 as that, so that a client has one address and not two."""
    mapped = address.ipv4_mapped
    return str(address) if mapped is None else str(mapped)
