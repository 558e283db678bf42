from __future__ import annotations

import pytest

from penstock.client.address import socket_address


@pytest.mark.parametrize(
    ("url", "link", "expected"),
    [
        ("http://localhost:8080", None, "ws://localhost:8080/lightstreamer"),
        ("https://push.example/", None, "wss://push.example/lightstreamer"),
        ("ws://h:1/lightstreamer", None, "ws://h:1/lightstreamer"),
        ("wss://h/prefix/", None, "wss://h/prefix/lightstreamer"),
        ("http://[::1]:8080", None, "ws://[::1]:8080/lightstreamer"),
        ("http://h:8080/p", "other", "ws://other:8080/p/lightstreamer"),
        ("http://h:8080", "other:9000", "ws://other:9000/lightstreamer"),
        ("https://h", "[::1]:9000", "wss://[::1]:9000/lightstreamer"),
    ],
)
def test_the_socket_of_a_server_is_found_from_any_address(url: str, link: str | None, expected: str) -> None:
    assert socket_address(url, link) == expected


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://h", "http://", "http:///path"])
def test_what_is_no_address_is_refused_with_what_would_be_one(url: str) -> None:
    with pytest.raises(ValueError, match="expected http, https, ws or wss"):
        socket_address(url)
