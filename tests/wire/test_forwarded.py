"""Headers in which proxies name clients: in every form that they are written in; others are refused."""

from __future__ import annotations

import time
from ipaddress import IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.targets import fuzz_forwarded
from penstock.wire.forwarded import FORWARDED, ForwardedError, node, nodes

X_FORWARDED_FOR = "x-forwarded-for"

addresses = st.ip_addresses().map(str)
clients = st.tuples(addresses, st.none() | st.integers(1, 65_535))


def plain(address: str) -> str:
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def read(name: str, value: str) -> list[tuple[str | None, int]]:
    return [(found.address, found.port) for found in map(node, nodes(name, value))]


def written(address: str, port: int | None) -> str:
    if port is None:
        return f"[{address}]" if ":" in address else address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@given(st.lists(clients, min_size=1, max_size=5), st.sampled_from([", ", ",", " ,\t"]))
def test_what_proxies_write_is_read_back(asked: list[tuple[str, int | None]], comma: str) -> None:
    expected = [(plain(address), port or 0) for address, port in asked]
    plain_list = comma.join(written(address, port) for address, port in asked)
    assert read(X_FORWARDED_FOR, plain_list) == expected
    quoted = [f'proto=https;For="{written(address, port)}";by=_x' for address, port in asked]
    assert read(FORWARDED, comma.join(quoted)) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (X_FORWARDED_FOR, "2001:db8::7", [("2001:db8::7", 0)]),
        (X_FORWARDED_FOR, "::ffff:192.0.2.7", [("192.0.2.7", 0)]),
        (X_FORWARDED_FOR, "", []),
        (X_FORWARDED_FOR, " , 192.0.2.7 ,", [("192.0.2.7", 0)]),
        (X_FORWARDED_FOR, "unknown, 192.0.2.7", [(None, 0), ("192.0.2.7", 0)]),
        ("x-real-ip", "192.0.2.7", [("192.0.2.7", 0)]),
        (FORWARDED, "for=192.0.2.7", [("192.0.2.7", 0)]),
        (FORWARDED, "for=_hidden, for=unknown, for=Unknown", [(None, 0)] * 3),
        (FORWARDED, 'for="192.0.2.7:_port"', [("192.0.2.7", 0)]),
        (FORWARDED, "by=192.0.2.1;proto=https", [(None, 0)]),
        (FORWARDED, 'for="\\1\\9\\2.0.2.7"', [("192.0.2.7", 0)]),
        (FORWARDED, 'host="a,for=192.0.2.8;";for=192.0.2.7', [("192.0.2.7", 0)]),
        (FORWARDED, "", []),
        (FORWARDED, ", ;, for=192.0.2.7", [("192.0.2.7", 0)]),
    ],
)
def test_forms_of_headers(name: str, value: str, expected: list[tuple[str | None, int]]) -> None:
    assert read(name, value) == expected


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (X_FORWARDED_FOR, "localhost", "'localhost' is not an address"),
        (X_FORWARDED_FOR, "192.0.2", "'192.0.2' is not an address"),
        (X_FORWARDED_FOR, "192.0.2.7:x", "is not an address"),
        (X_FORWARDED_FOR, "192.0.2.7:65536", "is not an address"),
        (X_FORWARDED_FOR, "[2001:db8::7", "is not an address"),
        (X_FORWARDED_FOR, "[2001:db8::7]4711", "is not an address"),
        (X_FORWARDED_FOR, "fe80::1%eth0", "is not an address"),
        (X_FORWARDED_FOR, "<script>", "'<script>' is not an address"),
        (FORWARDED, "192.0.2.7", "it is not a list of pairs such as for=192.0.2.7"),
        (FORWARDED, "for=[2001:db8::7]", "it is not a list of pairs"),
        (FORWARDED, "for=2001:db8::7", "it is not a list of pairs"),
        (FORWARDED, 'for="192.0.2.8', "it is not a list of pairs"),
        (FORWARDED, 'for=", for=192.0.2.7', "it is not a list of pairs"),
        (FORWARDED, 'for=", for="[2001:db8::7]"', "it is not a list of pairs"),
        (FORWARDED, "for=192.0.2.7;for=192.0.2.8", "it has two pairs with for= where one is expected"),
        (FORWARDED, 'for=""', "'' is not an address"),
    ],
)
def test_what_cannot_be_understood_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(ForwardedError) as error:
        read(name, value)
    assert reason in str(error.value)


@given(st.binary(max_size=80))
def test_nothing_else_comes_out(data: bytes) -> None:
    fuzz_forwarded(data)


@pytest.mark.parametrize("part", [" ", "a", "for=", "for=a;", '"', '\\"', 'for="a', ",", "for=1;,"])
def test_no_header_takes_long(part: str) -> None:
    begin = time.process_time()
    for name in (X_FORWARDED_FOR, FORWARDED):
        for value in (part * 16_000, f'for="{part * 16_000}', f"{part * 16_000}?"):
            try:
                read(name, value[:16_000])
            except ForwardedError:
                continue
    assert time.process_time() - begin < 1.0
