from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import RSAAlgorithm

from penstock.adapters.access import keys
from penstock.adapters.access.keys import LEAST_GAP, KeyStore, SigningKey, choose, parse, secret_key, source
from penstock.adapters.access.settings import AccessError
from penstock.testing import Clock
from tests.adapters.access.world import ec_key, key_set, public, rsa_key

ALL = ("RS256", "ES256", "HS256")


def found(*entries: object, algorithms: tuple[str, ...] = ALL) -> list[tuple[str, str | None]]:
    return [(key.algorithm, key.identifier) for key in parse(key_set(*entries), "keys", algorithms)]


def oct_entry(length: int = 32, **more: object) -> dict[str, object]:
    # 32 bytes are 43 characters of base64.
    return {"kty": "oct", "k": "A" * (length * 4 // 3 + 1), **more}


def test_a_key_has_the_one_algorithm_of_its_kind() -> None:
    entries = [public(rsa_key(), kid="r"), public(ec_key(), kid="e"), oct_entry(kid="o")]
    assert found(*entries) == [("RS256", "r"), ("ES256", "e"), ("HS256", "o")]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("text", "not an object"),
        ({}, "an unsupported type of key"),
        ({"kty": "OKP", "crv": "Ed25519", "x": "AA"}, "an unsupported type of key"),
        ({"kty": ["RSA"]}, "an unsupported type of key"),
        ({"kty": "RSA", "n": "AQAB"}, "its numbers are not a valid key"),
        ({"kty": "RSA", "n": 5, "e": "AQAB"}, "its numbers are not a valid key"),
        ({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, "its numbers are not a valid key"),
        ({"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}, "an unsupported type of key"),
        (oct_entry(16), "shorter than 32 bytes"),
        (oct_entry(use="enc"), "not meant for signatures with HS256"),
        (oct_entry(alg="HS512"), "not meant for signatures with HS256"),
        (oct_entry(kid=7), "kid is not text"),
    ],
)
def test_an_unusable_key_is_left_out_and_the_others_stay(
    entry: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert found(entry, public(ec_key(), kid="good")) == [("ES256", "good")]
    assert [record.__dict__["fields"] for record in caplog.records] == [{"place": "keys", "key": 1, "reason": reason}]


def test_a_short_rsa_key_is_left_out() -> None:
    short = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)
    assert found(public(short), public(ec_key(), kid="good")) == [("ES256", "good")]


def test_a_key_of_an_algorithm_that_is_not_used_is_left_out() -> None:
    entries = [public(rsa_key(), kid="r"), oct_entry(kid="o")]
    assert found(*entries, algorithms=("RS256",)) == [("RS256", "r")]


def test_of_a_private_key_only_the_public_half_is_kept() -> None:
    (key,) = parse(key_set(json.loads(RSAAlgorithm.to_jwk(rsa_key()))), "keys", ALL)
    assert isinstance(key.material, rsa.RSAPublicKey)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected a JSON Web Key Set, but it is not JSON"),
        (b"\xff", "expected a JSON Web Key Set, but it is not JSON"),
        (b"[" * 100_000, "expected a JSON Web Key Set, but it is not JSON"),
        (b"[]", 'expected a JSON Web Key Set: an object with a list "keys"'),
        (b'{"keys": {}}', 'expected a JSON Web Key Set: an object with a list "keys"'),
        (b'{"keys": []}', "expected a JSON Web Key Set with a key for one of RS256, ES256, HS256"),
        (key_set(*[{}] * 101), "expected a JSON Web Key Set of at most 100 keys, not 101"),
    ],
)
def test_a_set_without_a_usable_key_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(AccessError) as raised:
        parse(content, "keys", ALL)
    assert str(raised.value) == f"keys: {problem}"


def test_keys_do_not_show_what_they_are_made_of() -> None:
    assert repr(SigningKey("HS256", "a", b"secret")) == "Key(HS256, 'a')"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (("RS256", "one"), 1),
        (("RS256", "two"), 2),
        (("RS256", "three"), None),
        (("RS256", None), None),
        (("ES256", "one"), None),
        (("ES256", "e"), 3),
        (("ES256", None), 3),
        (("HS256", None), 4),
        (("HS256", "any"), 4),
    ],
)
def test_a_key_is_chosen_by_algorithm_and_identifier(wanted: tuple[str, str | None], expected: int | None) -> None:
    known = [
        SigningKey("RS256", "one", 1),
        SigningKey("RS256", "two", 2),
        SigningKey("ES256", "e", 3),
        SigningKey("HS256", None, 4),
    ]
    chosen = choose(known, *wanted)
    assert (None if chosen is None else chosen.material) == expected


def test_a_secret_is_the_content_of_a_file_without_the_end_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"0123456789abcdef0123456789abcdef\r\n")
    assert secret_key(tmp_path / "secret").material == b"0123456789abcdef0123456789abcdef"
    (tmp_path / "short").write_bytes(b"0123456789abcdef0123456789abcde\n")
    with pytest.raises(AccessError, match="short: expected a secret of at least 32 bytes, not 31"):
        secret_key(tmp_path / "short")
    with pytest.raises(AccessError, match="nowhere: expected a readable file of keys"):
        secret_key(tmp_path / "nowhere")


# -- kept and read again ----------------------------------------------------------------------------------------------


class Shelf:
    """A source of keys that the test fills, and that counts its readings."""

    def __init__(self, *entries: object) -> None:
        self.content = key_set(*entries)
        self.readings = 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> bytes:
        self.readings += 1
        assert self.gate.wait(20)
        if not self.content:
            raise AccessError("the shelf is empty")
        return self.content


def entry(kid: str) -> dict[str, Any]:
    return public(ec_key(), kid=kid)


def store(shelf: Shelf, clock: Clock, refresh_seconds: float = 300) -> KeyStore:
    return KeyStore(shelf, "shelf", ("ES256",), refresh_seconds, clock)


def test_an_unknown_key_is_looked_for_at_once_but_not_again_and_again() -> None:
    async def play() -> None:
        shelf, clock = Shelf(entry("one")), Clock()
        known = store(shelf, clock)
        await known.load()
        assert await known.find("ES256", "one") is not None
        assert shelf.readings == 1
        shelf.content = key_set(entry("one"), entry("two"))
        assert await known.find("ES256", "two") is not None
        assert shelf.readings == 2
        for number in range(50):
            assert await known.find("ES256", f"unknown {number}") is None
        assert shelf.readings == 2
        clock.advance(LEAST_GAP)
        assert await known.find("ES256", "unknown") is None
        assert shelf.readings == 3

    asyncio.run(play())


def test_all_who_wait_for_an_unknown_key_share_one_reading_even_if_one_gives_up() -> None:
    async def play() -> None:
        shelf, clock = Shelf(entry("one")), Clock()
        known = store(shelf, clock)
        await known.load()
        shelf.content = key_set(entry("two"))
        shelf.gate.clear()
        waiting = [asyncio.create_task(known.find("ES256", "two")) for _ in range(20)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        # Who has a key that is known does not wait with them.
        assert await known.find("ES256", "one") is not None
        shelf.gate.set()
        assert all(key is not None for key in await asyncio.gather(*waiting[1:]))
        assert shelf.readings == 2

    asyncio.run(play())


def test_old_keys_are_read_again_while_nobody_waits() -> None:
    async def play() -> None:
        shelf, clock = Shelf(entry("one")), Clock()
        known = store(shelf, clock, 300)
        await known.load()
        shelf.content = key_set(entry("two"))
        clock.advance(299)
        assert await known.find("ES256", "one") is not None
        assert shelf.readings == 1
        clock.advance(1)
        shelf.gate.clear()
        assert await known.find("ES256", "one") is not None
        shelf.gate.set()
        # Whoever asks for the new key waits for the reading that is under way, and the old one is no longer good.
        assert await known.find("ES256", "two") is not None
        assert await known.find("ES256", "one") is None
        assert shelf.readings == 2

    asyncio.run(play())


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"keys": []}'])
def test_a_reading_that_fails_leaves_the_keys_as_they_are(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        shelf, clock = Shelf(entry("one")), Clock()
        known = store(shelf, clock)
        await known.load()
        shelf.content = content
        assert await known.find("ES256", "two") is None
        assert await known.find("ES256", "one") is not None
        assert [record.getMessage() for record in caplog.records] == ["token keys not read again, the old ones stay"]

    asyncio.run(play())


def test_without_keys_at_the_start_there_is_no_start() -> None:
    async def play() -> None:
        shelf = Shelf()
        with pytest.raises(AccessError, match="shelf: expected a JSON Web Key Set with a key for one of ES256"):
            await store(shelf, Clock()).load()

    asyncio.run(play())


# -- files and URLs ---------------------------------------------------------------------------------------------------


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    read = source("keys.json", tmp_path)
    with pytest.raises(AccessError, match=r"keys.json: expected a readable file of keys \(No such file or directory\)"):
        read()
    (tmp_path / "keys.json").write_bytes(b"one")
    assert read() == b"one"
    (tmp_path / "keys.json").write_bytes(b"x" * (keys.MAX_SET_BYTES + 1))
    with pytest.raises(AccessError, match=r"keys.json: expected at most 1048576 bytes of keys"):
        read()


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example/keys",
        "http://10.0.0.1/keys",
        "http://localhost.example/keys",
        "http://127.0.0.1.example/keys",
        "http://127.0.0.1@login.example/keys",
        "https://user:password@login.example/keys",
        "ftp://127.0.0.1/keys",
        "file:///etc/passwd",
        "https:///keys",
        "https://login.example:port/keys",
        "http://[::1/keys",
    ],
)
def test_a_url_that_others_could_listen_in_on_is_refused(url: str) -> None:
    with pytest.raises(AccessError, match="expected a path, or a URL with https or of this machine"):
        source(url, Path())


@pytest.mark.parametrize(
    "url", ["https://login.example/keys", "http://127.0.0.1:1/k", "http://[::1]:1/k", "http://localhost:1/k"]
)
def test_urls_of_https_and_of_this_machine_are_taken(url: str) -> None:
    source(url, Path())


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A web server on loopback; the URL of its keys."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/keys"
        finally:
            server.shutdown()
            thread.join()


def respond(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def test_keys_are_fetched_from_a_url() -> None:
    content = key_set(entry("one"))
    with serving(lambda handler: respond(handler, 200, content)) as url:
        assert source(url, Path())() == content


def test_a_proxy_of_the_environment_does_not_stand_between_the_machine_and_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving(lambda handler: respond(handler, 200, b"direct")) as url:
        assert source(url, Path())() == b"direct"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda handler: respond(handler, 404, b""), "expected status 200, not 404"),
        (
            lambda handler: respond(handler, 302, b"", Location="http://login.example/keys"),
            "expected status 200, not 302",
        ),
        (lambda handler: respond(handler, 200, b"x" * 1_048_577), "expected at most 1048576 bytes of keys"),
        (lambda handler: handler.wfile.write(b"nonsense\r\n\r\n"), r"cannot be fetched \("),
        (lambda handler: None, r"cannot be fetched \("),
    ],
)
def test_an_answer_that_is_no_key_set_is_told_with_the_url(answer: Answer, problem: str) -> None:
    with serving(answer) as url, pytest.raises(AccessError, match=f"{url}: {problem}"):
        source(url, Path())()


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "FETCH_SECONDS", 0.2)
    done = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not done.wait(0.01):
                handler.wfile.write(b" ")
        except ConnectionError:
            pass

    with serving(drip) as url:
        try:
            with pytest.raises(AccessError, match=r"expected keys within 0.2 s"):
                source(url, Path())()
        finally:
            done.set()


def test_a_key_of_another_curve_is_not_taken_for_one_of_ours() -> None:
    other = ec.generate_private_key(ec.SECP384R1())
    assert found(public(other, kid="other"), public(ec_key(), kid="good")) == [("ES256", "good")]
