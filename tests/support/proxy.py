"""Headers of the PROXY protocol as proxies write them; the server only reads them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
LOCAL = SIGNATURE + b"\x20\x00\x00\x00"


def version_1(source: str, source_port: int, destination: str = "", destination_port: int = 8080) -> bytes:
    address = ip_address(source)
    family, other = ("TCP4", "192.0.2.1") if isinstance(address, IPv4Address) else ("TCP6", "2001:db8::1")
    return f"PROXY {family} {source} {destination or other} {source_port} {destination_port}\r\n".encode()


def version_2(source: str, source_port: int, more: bytes = b"", transport: int = 1) -> bytes:
    """`more` is what follows the addresses: fields about TLS and the like."""
    address = ip_address(source)
    other: IPv4Address | IPv6Address = IPv4Address("192.0.2.1")
    if isinstance(address, IPv6Address):
        other = IPv6Address("2001:db8::1")
    family = 1 if isinstance(address, IPv4Address) else 2
    block = address.packed + other.packed + source_port.to_bytes(2, "big") + (8080).to_bytes(2, "big") + more
    return SIGNATURE + bytes([0x21, family << 4 | transport]) + len(block).to_bytes(2, "big") + block
