from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.alike import forget_alike
from penstock.kernel.headers import KeptHeaders
from penstock.wire.http1 import RequestParser

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=20)
# What a value may have: RFC 9110, section 5.5.
VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]) | st.just("\t"), max_size=30)


@given(st.dictionaries(NAMES, VALUES))
def test_kept_headers_are_the_headers(headers: dict[str, str]) -> None:
    kept = KeptHeaders.of(headers)
    assert kept == headers
    assert list(kept.items()) == list(headers.items())
    assert len(kept) == len(headers)
    assert repr(kept) == repr(headers)
    for name, value in headers.items():
        assert name in kept
        assert kept[name] == kept.get(name) == value
    assert "no such header" not in kept
    assert kept.get("no such header", "nothing") == "nothing"


def test_headers_that_are_kept_already_are_not_kept_twice() -> None:
    kept = KeptHeaders.of({"host": "localhost"})
    assert KeptHeaders.of(kept) is kept
    assert KeptHeaders.of({"host": "localhost"}) == kept


def test_clients_that_send_the_same_headers_have_one_object_until_that_is_forgotten() -> None:
    kept = KeptHeaders.of({"host": "localhost", "sec-websocket-key": "a"})
    assert KeptHeaders.of({"host": "localhost", "sec-websocket-key": "b"}) is kept
    assert KeptHeaders.of({"host": "127.0.0.1"}) is not kept
    forget_alike()
    assert KeptHeaders.of({"host": "localhost"}) is not kept


def test_the_key_of_a_handshake_is_not_kept() -> None:
    assert KeptHeaders.of({"host": "localhost", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}) == {
        "host": "localhost"
    }


def test_no_header_that_is_read_has_a_line_break() -> None:
    for line in (b"a: 1\n2", b"a: 1\n 2", b"a: 1\r\n 2", b"a\nb: 1", b"a: 1\r2", b"a: 1\x002"):
        parser = RequestParser(8_192, 8_192)
        for request in parser.feed(b"GET / HTTP/1.1\r\nhost: a\r\n" + line + b"\r\n\r\n"):
            assert not any("\n" in name + value for name, value in request.headers.items())
            assert KeptHeaders.of(request.headers) == request.headers
