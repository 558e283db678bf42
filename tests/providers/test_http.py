from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from penstock.providers import http
from penstock.providers.errors import ProviderError
from penstock.providers.http import HttpClient, Origin, client_context, is_public, public_addresses
from penstock.providers.http2 import MAX_REPLY, HttpFailure, HttpReply
from penstock.testing.http2_peer import Fault, Http2Peer, PeerAnswer, PeerRequest
from penstock.wire.http2_headers import packed
from tests.providers.peers import IMPATIENCE, PATIENCE, TRUSTED, Book, peer
from tests.support.tls import CERTIFICATES

Story = Callable[[Http2Peer, HttpClient], Awaitable[None]]


@pytest.fixture(params=["uvloop", "asyncio"], autouse=True)
def loop_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both differ in what a transport is and when it says that it has ended."""
    monkeypatch.setattr(sys.modules[__name__], "run", uvloop.run if request.param == "uvloop" else asyncio.run)


def run(story: Coroutine[Any, Any, None]) -> None:
    raise AssertionError("which loop is said by a fixture")


def play(story: Story, judge: Any, timeout: float = PATIENCE, **options: Any) -> None:
    async def whole() -> None:
        async with peer(judge, **options) as server:
            client = HttpClient(client_context(TRUSTED), timeout)
            try:
                await story(server, client)
            finally:
                await client.close()

    run(whole())


async def post(server: Http2Peer, client: HttpClient, path: str = "/", body: bytes = b"body") -> HttpReply:
    return await client.post(Origin("localhost", server.port), path, packed([("x-name", "value")]), body)


def test_a_request_arrives_as_it_was_made_and_its_answer_comes_back() -> None:
    book = Book(PeerAnswer(418, b"short and stout", {"x-kind": "teapot"}))

    async def story(server: Http2Peer, client: HttpClient) -> None:
        reply = await post(server, client, "/pot?size=1", b"tea")
        assert (reply.status, reply.body, reply.headers["x-kind"]) == (418, b"short and stout", "teapot")
        (asked,) = book.asked
        assert (asked.method, asked.path, asked.body) == ("POST", "/pot?size=1", b"tea")
        assert asked.headers["x-name"] == "value"
        assert asked.headers[":authority"] == f"localhost:{server.port}"
        assert asked.headers["content-length"] == "3"

    play(story, book)


def test_many_requests_at_once_share_one_connection_and_each_gets_its_own_answer() -> None:
    async def story(server: Http2Peer, client: HttpClient) -> None:
        replies = await asyncio.gather(*[post(server, client, f"/{number}") for number in range(500)])
        assert [reply.body for reply in replies] == [f"/{number}".encode() for number in range(500)]
        assert server.connections == 1
        assert server.most_streams <= 50

    play(story, lambda request: PeerAnswer(body=request.path.encode()), max_streams=50)


@pytest.mark.parametrize("window", [1, 100, 65_535])
def test_a_body_waits_for_the_windows_of_the_provider(window: int) -> None:
    body = bytes(range(256)) * 16

    async def story(server: Http2Peer, client: HttpClient) -> None:
        bodies = [body[: 4096 if window > 1 else 40] + bytes([number]) for number in range(30 if window > 1 else 2)]
        replies = await asyncio.gather(*[post(server, client, "/", each) for each in bodies])
        assert [reply.body for reply in replies] == bodies

    play(story, lambda request: PeerAnswer(body=request.body), window=window)


def test_a_request_without_body_ends_with_its_head() -> None:
    async def story(server: Http2Peer, client: HttpClient) -> None:
        assert (await post(server, client, body=b"")).status == 200

    play(story, Book())


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault.NONSENSE, "HTTP/2 protocol error"),
        (Fault.WRONG_FRAME, "HTTP/2 protocol error"),
        (Fault.CLOSE_IN_THE_MIDDLE, "closed the connection"),
        (Fault.RESET, "reset the request"),
        (Fault.GO_AWAY, "closed the connection"),
        (PeerAnswer(body=bytes(MAX_REPLY + 1)), f"more than {MAX_REPLY} bytes"),
    ],
)
def test_a_provider_that_misbehaves_is_a_failure_and_the_next_request_succeeds(fault: Any, text: str) -> None:
    book = Book(fault)

    async def story(server: Http2Peer, client: HttpClient) -> None:
        with pytest.raises(HttpFailure, match=text):
            await post(server, client)
        book.answer = PeerAnswer(body=b"well again")
        assert (await post(server, client)).body == b"well again"

    play(story, book)


def test_a_provider_that_says_goodbye_still_answers_what_it_has_looked_at() -> None:
    def judge(request: PeerRequest) -> Any:
        return PeerAnswer(is_last=True) if request.path == "/last" else Fault.HANG

    async def story(server: Http2Peer, client: HttpClient) -> None:
        requests = [post(server, client, path) for path in ("/last", "/too-late", "/never-sent")]
        last, *others = await asyncio.gather(*requests, return_exceptions=True)
        assert isinstance(last, HttpReply)
        assert [str(other).partition(": ")[2] for other in others] == ["it has ended the connection"] * 2
        server.judge = Book()
        assert (await post(server, client)).status == 200
        assert server.connections == 2

    play(story, judge, max_streams=2)


def test_a_request_that_hangs_ends_at_the_time_out_while_others_on_the_connection_are_answered() -> None:
    def judge(request: PeerRequest) -> Any:
        return Fault.HANG if request.path == "/hang" else PeerAnswer()

    async def story(server: Http2Peer, client: HttpClient) -> None:
        await post(server, client)
        hanging = asyncio.ensure_future(post(server, client, "/hang"))
        while not hanging.done():
            assert (await post(server, client)).status == 200
        with pytest.raises(HttpFailure, match="has not answered within"):
            hanging.result()
        assert server.connections == 1

    play(story, judge, timeout=1.0)


def test_a_connection_on_which_nothing_is_heard_any_more_is_replaced() -> None:
    book = Book()

    async def story(server: Http2Peer, client: HttpClient) -> None:
        await post(server, client)
        book.answer = Fault.HANG
        with pytest.raises(HttpFailure, match="has not answered within"):
            await post(server, client)
        book.answer = PeerAnswer()
        assert (await post(server, client)).status == 200
        assert server.connections == 2

    play(story, book, timeout=IMPATIENCE)


def test_who_gives_up_frees_the_stream() -> None:
    book = Book(Fault.HANG)

    async def story(server: Http2Peer, client: HttpClient) -> None:
        task = asyncio.ensure_future(post(server, client))
        await book.was_asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        book.answer = PeerAnswer()
        assert (await post(server, client)).status == 200
        assert server.connections == 1

    play(story, book, max_streams=1)


def test_a_provider_that_is_away_is_not_asked_by_everyone_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(server: Http2Peer, client: HttpClient) -> None:
        await post(server, client)
        await server.__aexit__(None, None, None)
        with pytest.raises(HttpFailure):
            await post(server, client)
        failures = await asyncio.gather(*[post(server, client) for _ in range(100)], return_exceptions=True)
        assert all(isinstance(failure, HttpFailure) for failure in failures)
        async with server:
            # One attempt failed a moment ago, so that there is none now.
            with pytest.raises(HttpFailure, match="no connection to localhost"):
                await post(server, client)
            assert server.connections == 1
            monkeypatch.setattr(http, "PAUSE_AFTER_FAILURE", 0.0)
            client._failures.clear()
            assert (await post(server, client)).status == 200

    async def whole() -> None:
        server = peer(Book())
        await server.__aenter__()
        client = HttpClient(client_context(TRUSTED), PATIENCE)
        try:
            await story(server, client)
        finally:
            await client.close()

    run(whole())


def test_new_certificates_are_used_by_new_connections_while_old_requests_are_answered() -> None:
    book = Book()

    async def story(server: Http2Peer, client: HttpClient) -> None:
        await post(server, client)
        pending = asyncio.ensure_future(post(server, client))
        await asyncio.sleep(0)
        client.replace_context(client_context(TRUSTED))
        assert (await post(server, client)).status == 200
        assert (await pending).status == 200
        assert server.connections == 2

    play(story, book)


def test_a_provider_whose_certificate_nobody_trusts_gets_no_request() -> None:
    book = Book()

    async def story(server: Http2Peer, client: HttpClient) -> None:
        client.replace_context(client_context(""))
        with pytest.raises(HttpFailure, match=r"certificate of localhost:[0-9]+ is not trusted"):
            await post(server, client)
        assert not book.asked

    play(story, book)


def test_a_provider_without_http_2_is_a_failure() -> None:
    async def whole() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATES / "certificate.pem", CERTIFICATES / "private_key.pem")
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=context)
        client = HttpClient(client_context(TRUSTED), PATIENCE)
        with pytest.raises(HttpFailure, match="does not speak HTTP/2"):
            await client.post(Origin("localhost", server.sockets[0].getsockname()[1]), "/", b"", b"")
        await client.close()
        server.close()

    run(whole())


def test_a_server_that_accepts_and_says_nothing_is_a_failure() -> None:
    async def whole() -> None:
        # It accepts by itself, and nobody reads.
        server = socket.create_server(("127.0.0.1", 0))
        client = HttpClient(client_context(TRUSTED), IMPATIENCE)
        with pytest.raises(HttpFailure, match=r"within 0\.3 s"):
            await client.post(Origin("localhost", server.getsockname()[1]), "/", b"", b"")
        await client.close()
        server.close()

    run(whole())


@pytest.mark.parametrize(
    ("address", "is_good"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("ff0e::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_which_addresses_are_public(address: str, is_good: bool) -> None:
    assert is_public(address) is is_good


def test_a_host_with_a_private_address_is_not_connected_to() -> None:
    book = Book()

    async def whole() -> None:
        async with peer(book) as server:
            client = HttpClient(client_context(TRUSTED), PATIENCE, public_addresses)
            with pytest.raises(HttpFailure, match="localhost has an address that is not public"):
                await post(server, client)
            await client.close()
            assert server.connections == 0

    run(whole())


def test_the_connection_goes_to_the_address_that_was_looked_at() -> None:
    """A name server may give another address the next time."""
    book = Book()

    async def only_here(host: str, port: int) -> list[str]:
        assert host == "localhost"
        return ["127.0.0.1"]

    async def whole() -> None:
        async with peer(book) as server:
            client = HttpClient(client_context(TRUSTED), PATIENCE, only_here)
            assert (await post(server, client)).status == 200
            await client.close()

    run(whole())


@pytest.mark.parametrize(
    "address",
    [
        "http://example.com",
        "ftp://example.com",
        "https://",
        "https://user@example.com/",
        "https://example.com:99999/",
        "https://[::1",
        "https://example.com/a b",
        "https://example.com/a\r\nx: y",
        "https://example.com/ä",
        "example.com",
        "",
    ],
)
def test_addresses_that_are_refused_are_not_repeated(address: str) -> None:
    with pytest.raises(ValueError, match=r"^it ") as error:
        Origin.parse(address)
    assert not address or address not in str(error.value)


def test_an_address_has_an_origin_and_a_path() -> None:
    assert Origin.parse("https://Example.com") == (Origin("example.com", 443), "/")
    assert Origin.parse("https://[::1]:8443/a/b?c=d#e") == (Origin("::1", 8443), "/a/b?c=d")
    assert Origin("::1", 8443).authority == "[::1]:8443"
    assert Origin("example.com", 443).authority == "example.com"


def test_files_that_cannot_be_read_are_named() -> None:
    with pytest.raises(ProviderError, match=r"cannot read /nowhere/ca\.pem: No such file"):
        client_context("/nowhere/ca.pem")
    with pytest.raises(ProviderError, match="wrong contents"):
        client_context("", TRUSTED, str(CERTIFICATES / "other_key.pem"))
    with pytest.raises(ProviderError, match="wrong contents"):
        client_context("", TRUSTED, str(CERTIFICATES / "encrypted_key.pem"))
