"""The PROXY protocol, versions 1 and 2, receiving side, without I/O: for whom a proxy has opened a connection.

Strict, because who can make two readers understand a header differently can pretend to be somebody else. Whose headers
are believed is decided in `penstock.transport`. Specification: "The PROXY protocol", sections 2.1 and 2.2.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from penstock.wire.ip import ipv4_text, ipv6_text, plain_text

V1_BEGINS = b"PROXY "
V2_BEGINS = b"\r\n\r\n\x00\r\nQUIT\n"

# Bytes of a header of version 1 with its line end, by the specification.
V1_MOST = 107

# Bytes of version 2 before the addresses, and the most that may follow: addresses take at most 216, the rest is about
# TLS and the like, and is passed over.
V2_HEAD = 16
V2_MOST = 4_096

MOST = V2_HEAD + V2_MOST

# Families and transports of version 2.
_UNSPECIFIED, _INET, _INET6, _UNIX = 0, 1, 2, 3
_STREAM = 1


class ProxyError(Exception):
    """These bytes are not a header; the text says why."""


class ProxyHeaderReader:
    """`feed` it what a connection begins with until `is_complete`.

    `address` is None then if the proxy does not say for whom it asks: it checks the server's health, or does not know.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self.address: str | None = None
        self.port = 0
        self._read = b""

    def feed(self, data: bytes) -> int:
        """How many of these bytes belong to the header; all of them unless it is complete. Raises ProxyError."""
        before = len(self._read)
        self._read += data
        read = self._read
        if V2_BEGINS.startswith(read[: len(V2_BEGINS)]):
            end = self._version_2(read)
        elif V1_BEGINS.startswith(read[: len(V1_BEGINS)]):
            end = self._version_1(read)
        else:
            raise ProxyError("the connection does not begin with a PROXY header")
        self.is_complete = end > 0
        return end - before if end else len(data)

    # -- version 1 ------------------------------------------------------------------------------------------------

    def _version_1(self, read: bytes) -> int:
        """Where the header ends; 0 if that has not come yet."""
        end = read.find(b"\n", 0, V1_MOST)
        if end < 0:
            if len(read) >= V1_MOST:
                raise ProxyError(f"the PROXY line is longer than {V1_MOST} bytes")
            return 0
        line = read[: end + 1]
        if not line.endswith(b"\r\n") or b"\r" in line[:-2]:
            raise ProxyError("the PROXY line does not end in CR and LF")
        try:
            text = line[len(V1_BEGINS) : -2].decode("ascii")
        except UnicodeDecodeError:
            raise ProxyError("the PROXY line is not ASCII") from None
        parts = text.split(" ")
        # What follows it is to be ignored.
        if parts[0] != "UNKNOWN":
            self._take_parts(parts)
        return end + 1

    def _take_parts(self, parts: list[str]) -> None:
        if len(parts) != 5:
            raise ProxyError("the PROXY line does not have a protocol, two addresses and two ports")
        family, source, destination, source_port, destination_port = parts
        if family not in ("TCP4", "TCP6"):
            raise ProxyError(f"the PROXY line is about {family[:8]!r}; expected TCP4, TCP6 or UNKNOWN")
        address = _address_text(family, source)
        _address_text(family, destination)
        port = _port(source_port)
        _port(destination_port)
        self.address, self.port = address, port

    # -- version 2 ------------------------------------------------------------------------------------------------

    def _version_2(self, read: bytes) -> int:
        """Where the header ends; 0 if that has not come yet."""
        if len(read) < V2_HEAD:
            return 0
        version, command = read[12] >> 4, read[12] & 15
        family, transport = read[13] >> 4, read[13] & 15
        size = read[14] << 8 | read[15]
        if version != 2 or command > 1:
            raise ProxyError(f"the PROXY header has version {version} and command {command}; expected 2, and 0 or 1")
        if family > _UNIX or transport > 2:
            raise ProxyError(
                f"the PROXY header has family {family} and transport {transport}; expected 0 to {_UNIX}, and 0 to 2"
            )
        if size > V2_MOST:
            raise ProxyError(f"the PROXY header says that {size} bytes follow; at most {V2_MOST} are allowed")
        is_known = command == 1 and family in (_INET, _INET6)
        if is_known and transport != _STREAM:
            raise ProxyError(f"the PROXY header has transport {transport}; expected {_STREAM}, because this is TCP")
        least = 12 if family == _INET else 36
        if is_known and size < least:
            raise ProxyError(f"the PROXY header says that {size} bytes follow; its addresses take {least}")
        end = V2_HEAD + size
        if len(read) < end:
            return 0
        if is_known:
            self._take_block(family, read)
        return end

    def _take_block(self, family: int, read: bytes) -> None:
        if family == _INET:
            self.address = str(IPv4Address(read[16:20]))
            self.port = read[24] << 8 | read[25]
        else:
            self.address = plain_text(IPv6Address(read[16:32]))
            self.port = read[48] << 8 | read[49]


def _address_text(family: str, text: str) -> str:
    try:
        return ipv4_text(text) if family == "TCP4" else ipv6_text(text)
    except ValueError:
        raise ProxyError(f"the PROXY line has {text[:50]!r}, which is not an address of {family}") from None


def _port(text: str) -> int:
    # The line is ASCII, so these are the ten digits.
    if not text.isdigit() or len(text) > 5 or int(text) > 65_535 or (len(text) > 1 and text[0] == "0"):
        raise ProxyError(f"the PROXY line has {text[:10]!r}; expected a port from 0 to 65535")
    return int(text)
