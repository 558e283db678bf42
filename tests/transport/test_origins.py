"""Pages of another port of the same server: which are known, and that nobody else passes for one."""

from __future__ import annotations

import pytest

from penstock.config import CorsSection
from penstock.transport.origins import Origins

CLOSED = CorsSection(allow_origins=())


def origins(neighbour: int) -> Origins:
    made = Origins(CLOSED)
    made.neighbour_ports = [neighbour]
    return made


@pytest.mark.parametrize(
    ("origin", "host", "port"),
    [
        ("http://localhost:8081", "localhost:8080", 8081),
        ("https://localhost:8081", "localhost", 8081),
        ("http://[::1]:8081", "[::1]:8080", 8081),
        ("http://LOCALHOST:8081", "localhost:8080", 8081),
        ("http://localhost", "localhost:8080", 80),
        ("https://localhost", "localhost:8080", 443),
    ],
)
def test_a_page_of_the_other_port_is_known(origin: str, host: str, port: int) -> None:
    found = origins(port)
    assert found.allows(origin, host)
    assert ("Access-Control-Allow-Origin", origin) in found.headers(origin, host)
    assert found.preflight(origin, host) != []


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example:8081", "localhost:8080"),
        ("http://localhost:8082", "localhost:8080"),
        ("http://localhost", "localhost:8080"),
        ("http://localhost.evil.example:8081", "localhost:8080"),
        ("http://localhost:port", "localhost:8080"),
        ("http://[::1:8081", "localhost:8080"),
        ("null", "localhost:8080"),
        ("", ""),
        ("http://:8081", ":8080"),
        ("http://localhost:8081", None),
    ],
)
def test_nobody_else_is(origin: str, host: str | None) -> None:
    found = origins(8081)
    assert not found.allows(origin, host)
    assert found.headers(origin, host) == []
    assert found.preflight(origin, host) == []


def test_without_another_port_there_is_none() -> None:
    assert not origins(0).allows("http://localhost:8081", "localhost:8080")
    assert not origins(0).allows("http://localhost:0", "localhost:8080")
