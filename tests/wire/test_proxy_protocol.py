"""Headers of the PROXY protocol: read whole, in any pieces and with bytes behind them; broken ones are named."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.proxy_protocol import MOST, V2_MOST, ProxyError, ProxyHeaderReader
from tests.support.proxy import LOCAL, SIGNATURE, version_1, version_2

BEHIND = b"GET / HTTP/1.1\r\n\r\n"

addresses = st.ip_addresses().map(str)
ports = st.integers(0, 65_535)
headers = st.one_of(
    st.builds(version_1, addresses, ports), st.builds(version_2, addresses, ports, st.binary(max_size=300))
)


def read(pieces: list[bytes]) -> tuple[str | None, int, int]:
    """Client, port, and how many bytes belong to the header."""
    reader = ProxyHeaderReader()
    taken = 0
    for piece in pieces:
        if not reader.is_complete:
            taken += reader.feed(piece)
    assert reader.is_complete
    return reader.address, reader.port, taken


def plain(address: str) -> str:
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


@given(addresses, ports, st.binary(max_size=200), st.data())
def test_what_a_proxy_writes_is_read_back(address: str, port: int, more: bytes, data: st.DataObject) -> None:
    for header in (version_1(address, port), version_2(address, port, more)):
        stream = header + BEHIND
        cut = data.draw(st.integers(0, len(header) - 1))
        expected = plain(address), port, len(header)
        assert read([stream]) == expected
        assert read([bytes([byte]) for byte in stream]) == expected
        assert read([stream[:cut], stream[cut:]]) == expected


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN\r\n",
        b"PROXY UNKNOWN ffff::1 whatever this is 65535\r\n",
        b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n",
        LOCAL,
        SIGNATURE + b"\x20\x11\x00\x0c" + b"x" * 12,
        # No family, and a socket of Unix: not known here, and passed over.
        SIGNATURE + b"\x21\x00\x00\x03abc",
        SIGNATURE + b"\x21\x31\x00\xd8" + b"x" * 216,
    ],
)
def test_a_proxy_may_speak_for_itself(header: bytes) -> None:
    assert read([header + BEHIND]) == (None, 0, len(header))
    assert read([bytes([byte]) for byte in header + BEHIND]) == (None, 0, len(header))


def test_an_address_of_ipv4_in_the_form_of_ipv6_is_one_of_ipv4() -> None:
    assert read([version_1("::ffff:192.0.2.7", 1)])[0] == "192.0.2.7"
    assert read([version_2("::ffff:192.0.2.7", 1)])[0] == "192.0.2.7"


BROKEN = [
    (BEHIND, "does not begin with a PROXY header"),
    (b"\x16\x03\x01", "does not begin with a PROXY header"),
    (b"proxy TCP4 1.2.3.4 1.2.3.4 1 1\r\n", "does not begin"),
    (b"PROXYTCP4", "does not begin"),
    (SIGNATURE[:-1] + b"\r", "does not begin"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\n", "does not end in CR and LF"),
    (b"PROXY TCP4 1.2.3.4\r1.2.3.4 1 1\r\n", "does not end in CR and LF"),
    (b"PROXY UNKNOWN " + b"x" * 93, "longer than 107 bytes"),
    (b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n", "longer than 107 bytes"),
    ("PROXY TCP4 1.2.3.\u0664 1.2.3.4 1 1\r\n".encode(), "is not ASCII"),
    (b"PROXY \r\n", "does not have a protocol, two addresses and two ports"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", "does not have a protocol"),
    (b"PROXY TCP4  1.2.3.4 1.2.3.4 1 1\r\n", "does not have a protocol"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1 \r\n", "does not have a protocol"),
    (b"PROXY UDP4 1.2.3.4 1.2.3.4 1 1\r\n", "is about 'UDP4'; expected TCP4, TCP6 or UNKNOWN"),
    (b"PROXY TCP4 1.2.3 1.2.3.4 1 1\r\n", "has '1.2.3', which is not an address of TCP4"),
    (b"PROXY TCP4 01.2.3.4 1.2.3.4 1 1\r\n", "not an address of TCP4"),
    (b"PROXY TCP4 ::1 ::1 1 1\r\n", "not an address of TCP4"),
    (b"PROXY TCP4 1.2.3.4 nowhere 1 1\r\n", "has 'nowhere'"),
    (b"PROXY TCP6 1.2.3.4 ::1 1 1\r\n", "not an address of TCP6"),
    (b"PROXY TCP6 fe80::1%eth0 ::1 1 1\r\n", "not an address of TCP6"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 1\r\n", "has '65536'; expected a port from 0 to 65535"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 -1\r\n", "expected a port"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n", "expected a port"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1_0\r\n", "expected a port"),
    (SIGNATURE + b"\x11\x11\x00\x0c", "has version 1 and command 1; expected 2, and 0 or 1"),
    (SIGNATURE + b"\x22\x11\x00\x0c", "has version 2 and command 2"),
    (SIGNATURE + b"\x21\x41\x00\x0c", "has family 4 and transport 1; expected 0 to 3, and 0 to 2"),
    (SIGNATURE + b"\x21\x13\x00\x0c", "has family 1 and transport 3"),
    (SIGNATURE + b"\x21\x12\x00\x0c", "has transport 2; expected 1, because this is TCP"),
    (SIGNATURE + b"\x21\x11\x00\x0b", "says that 11 bytes follow; its addresses take 12"),
    (SIGNATURE + b"\x21\x21\x00\x23", "says that 35 bytes follow; its addresses take 36"),
    (SIGNATURE + b"\x20\x00\xff\xff", "says that 65535 bytes follow; at most 4096 are allowed"),
]


@pytest.mark.parametrize(("data", "reason"), BROKEN)
def test_what_is_wrong_with_a_header_is_said(data: bytes, reason: str) -> None:
    for pieces in ([data], [bytes([byte]) for byte in data]):
        with pytest.raises(ProxyError) as error:
            read(pieces)
        assert reason in str(error.value)


@given(headers, st.data())
def test_a_header_with_a_wrong_byte_is_refused_or_says_something_else_but_never_takes_more(
    header: bytes, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(header) - 1))
    changed = header[:place] + bytes([data.draw(st.integers(0, 255))]) + header[place + 1 :]
    reader = ProxyHeaderReader()
    try:
        taken = reader.feed(changed + b"\0" * MOST)
    except ProxyError:
        return
    # The length of version 2 is what may have changed.
    assert taken == len(header) or changed.startswith(SIGNATURE)
    assert taken <= MOST
    if reader.address is not None:
        ip_address(reader.address)
        assert 0 <= reader.port <= 65_535


@given(st.binary(max_size=120))
def test_nothing_but_a_proxy_error_comes_out(data: bytes) -> None:
    for begin in (b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21"):
        reader = ProxyHeaderReader()
        try:
            taken = reader.feed(begin + data)
        except ProxyError:
            continue
        assert taken == len(begin + data) or reader.is_complete


def test_no_header_is_longer_than_what_is_looked_at() -> None:
    header = version_2("192.0.2.7", 1, b"x" * (V2_MOST - 12))
    assert len(header) == MOST
    assert read([header]) == ("192.0.2.7", 1, MOST)
