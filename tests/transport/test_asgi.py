"""The bridge to an ASGI application, over real sockets: bodies as they come, pressure both ways, how answers end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from penstock.config import load
from penstock.kernel.ledger import Ledger
from penstock.transport import closing
from penstock.transport.asgi import MIN_BODY_RATE, AsgiPort
from tests.support.tls import CERTIFICATES, trusting_context

PATIENCE = 50.0
HOST = b"Host: h\r\n"
LARGE = 8_000_000

# Turns of the event loop after which all that can be sent has been sent: each writes and reads tens of kilobytes.
TURNS = 3_000


class Site:
    """A port whose application is a function of the test; `talk` is one connection to it."""

    def __init__(self, port: AsgiPort) -> None:
        self.port = port

    async def talk(self, **tls: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port.ports[0], **tls)

    async def ask(self, data: bytes) -> bytes:
        """Everything that is answered until the connection is closed."""
        reader, writer = await self.talk()
        writer.write(data)
        writer.write_eof()
        found = await reader.read()
        writer.close()
        return found


@asynccontextmanager
async def serving(application: Any, max_connections: int = 100, **settings: Any) -> Any:
    overrides = {"api.port": 0, **{key.replace("__", "."): value for key, value in settings.items()}}
    port = AsgiPort(load(None, overrides).config, application, max_connections, Ledger())
    await port.listen()
    try:
        yield Site(port)
    finally:
        await port.stop(1.0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test(), PATIENCE)

    uvloop.run(limited())


class MovableLoop(asyncio.SelectorEventLoop):
    """Its time goes on as the test says, too, so that deadlines may be long and still come."""

    moved = 0.0

    def time(self) -> float:
        return super().time() + self.moved

    async def pass_by(self, seconds: float) -> None:
        """Let time pass, and all happen that is due then."""
        self.moved += seconds
        await all_turns(10)


def run_at_will(test: Callable[[MovableLoop], Awaitable[None]]) -> None:
    async def begun() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovableLoop)
        await test(loop)

    with asyncio.Runner(loop_factory=MovableLoop) as runner:
        runner.run(begun())


async def all_turns(count: int = TURNS) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = b""
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-path", scope["raw_path"])]})
    await send({"type": "http.response.body", "body": body})


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def head_of(answer: bytes) -> list[str]:
    return answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")


async def tell_client(scope: Any, receive: Any, send: Any) -> None:
    """Who the application thinks it is talking to, and by which listener."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{scope['client']} {scope['state']}".encode()})


def test_the_application_is_told_the_client_that_a_proxy_names_for_each_request() -> None:
    async def test() -> None:
        async with serving(
            tell_client, api__proxies__addresses=["127.0.0.1"], api__proxies__client_header="X-Forwarded-For"
        ) as site:
            head = b"GET / HTTP/1.1\r\n" + HOST + b"X-Forwarded-For: "
            found = await site.ask(head + b"192.0.2.7:4711\r\n\r\n" + head + b"192.0.2.8\r\n\r\n")
            assert b"('192.0.2.7', 4711) {'listener': 'api', 'is_from_proxy': True}" in found
            assert b"('192.0.2.8', 0) {'listener': 'api', 'is_from_proxy': True}" in found
        async with serving(tell_client) as site:
            found = await site.ask(head + b"192.0.2.7\r\n\r\n")
            assert b"('127.0.0.1', " in found
            assert b"'is_from_proxy': False}" in found

    run(test)


def test_requests_behind_one_another_are_answered_in_order_on_one_connection() -> None:
    async def test() -> None:
        async with serving(echo) as site:
            first = b"POST /one HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc"
            second = b"POST /two HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
            second += b"2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
            third = b"GET http://h/three?x=y HTTP/1.0\r\n\r\n"
            found = await site.ask(first + second + third)
            assert found.count(b"HTTP/1.1 200 OK\r\n") == 3
            places = [
                found.index(part)
                for part in (b"x-path: /one", b"\r\n\r\nabc", b"x-path: /two", b"\r\n\r\ndef", b"x-path: /three\r\n")
            ]
            assert places == sorted(places)
            assert found.count(b"Connection: close\r\n") == 1

    run(test)


def test_a_request_waits_until_the_one_before_is_answered_whole() -> None:
    begun: list[str] = []
    go_on = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        begun.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/one":
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await go_on.wait()
        await send({"type": "http.response.body", "body": b"the end"})

    async def test() -> None:
        async with serving(application) as site:
            reader, writer = await site.talk()
            writer.write(b"GET /one HTTP/1.1\r\n" + HOST + b"\r\n")
            await reader.readuntil(b"first")
            writer.write(b"GET /two HTTP/1.1\r\n" + HOST + b"\r\n")
            await all_turns(50)
            assert begun == ["/one"]
            go_on.set()
            assert (await reader.readuntil(b"0\r\n\r\n")).endswith(b"the end\r\n0\r\n\r\n")
            await reader.readuntil(b"the end")
            assert begun == ["/one", "/two"]
            writer.close()

    run(test)


def test_a_body_is_handed_on_as_it_comes_and_its_sender_waits_while_nobody_takes_it() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    taken = 0

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        nonlocal taken
        taken += len((await receive())["body"])
        begun.set()
        await go_on.wait()
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            assert len(message["body"]) < LARGE // 4
            taken += len(message["body"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def test() -> None:
        async with serving(slow) as site:
            reader, writer = await site.talk()
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
            writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % LARGE)
            writer.write(bytes(LARGE))
            await begun.wait()
            draining = asyncio.create_task(writer.drain())
            await all_turns()
            assert not draining.done()
            assert taken < LARGE
            go_on.set()
            await draining
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204 No Content\r\n")
            assert taken == LARGE
            writer.close()

    run(test)


# Bytes that no buffers on the way to a peer that does not read can hold.
TOO_MUCH = 60_000_000


def test_an_answer_waits_while_the_peer_does_not_read_and_ends_with_it() -> None:
    sent = 0
    ended = asyncio.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})

        async def pour() -> None:
            nonlocal sent
            while sent < TOO_MUCH:
                await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
                sent += 100_000
                await asyncio.sleep(0)

        pouring = asyncio.create_task(pour())
        while (await receive())["type"] != "http.disconnect":
            pass
        pouring.cancel()
        ended.set()

    async def test() -> None:
        async with serving(endless) as site:
            reader, writer = await site.talk()
            writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert b"Transfer-Encoding: chunked" in await reader.readuntil(b"\r\n\r\n")
            # Far more than it takes to send too much, if nothing holds it back.
            await all_turns(4 * TOO_MUCH // 100_000)
            assert 0 < sent < TOO_MUCH
            writer.transport.abort()
            await ended.wait()

    run(test)


def test_a_go_ahead_is_given_when_the_body_is_asked_for_and_not_before() -> None:
    async def deaf(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/echo":
            await echo(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    async def test() -> None:
        async with serving(deaf) as site:
            for path, expected in ((b"/echo", b"HTTP/1.1 100 Continue\r\n\r\n"), (b"/other", b"HTTP/1.1 413 ")):
                reader, writer = await site.talk()
                writer.write(
                    b"POST %s HTTP/1.1\r\n" % path + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
                )
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(expected)
                if path == b"/echo":
                    writer.write(b"ok")
                    assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")
                else:
                    # The body that may or may not come stands between it and another request.
                    assert b"Connection: close\r\n" in head
                    assert await reader.read() == b"no"
                writer.close()

    run(test)


async def stream(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"one", b"", b"two"):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body"})


def test_an_answer_of_unknown_length_is_chunked_and_ends_with_the_connection_in_the_old_version() -> None:
    async def test() -> None:
        async with serving(stream) as site:
            new = await site.ask(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
            assert body_of(new) == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
            old = await site.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert body_of(old) == b"onetwo"
            assert "Connection: close" in head_of(old)

    run(test)


def test_head_has_the_head_and_no_body() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"12345"})

    async def test() -> None:
        async with serving(application) as site:
            found = await site.ask(b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert "content-length: 5" in head_of(found)
            assert body_of(found) == b""

    run(test)


def test_what_an_application_puts_into_headers_cannot_end_them() -> None:
    evil = b"a\r\nx-evil: 1\r\n\r\n<p>\0\x7f"

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-given", evil)]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def test() -> None:
        async with serving(application) as site:
            found = await site.ask(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert "x-given: ax-evil: 1<p>" in head_of(found)
            assert body_of(found) == b"ok"

    run(test)


@pytest.mark.parametrize("kind", ["raises", "forgets", "bad name"])
def test_an_application_that_fails_is_500_and_the_connection_is_closed(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if kind == "raises":
            raise RuntimeError("on purpose")
        if kind == "bad name":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x y", b"z")]})
            await send({"type": "http.response.body"})

    async def test() -> None:
        async with serving(application) as site:
            found = await site.ask(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert found.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")

    with caplog.at_level(logging.ERROR):
        run(test)
    assert [record.getMessage() for record in caplog.records] == ([] if kind == "forgets" else ["request failed"])


def test_a_body_that_is_cut_by_nonsense_is_400_and_its_application_hears_that_nobody_is_there() -> None:
    heard: list[str] = []
    begun = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            heard.append(message["type"])
            begun.set()
            if message["type"] == "http.disconnect":
                return

    async def test() -> None:
        async with serving(application) as site:
            reader, writer = await site.talk()
            writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            await begun.wait()
            writer.write(b"nonsense\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert heard == ["http.request", "http.disconnect"]
            writer.close()

    run(test)


def test_a_body_that_trickles_is_408_and_one_that_comes_is_waited_for() -> None:
    taken: asyncio.Queue[int] = asyncio.Queue()
    # Longer than any machine stands still.
    seconds = 100
    enough = MIN_BODY_RATE * seconds

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            more = message["more_body"]
            taken.put_nowait(len(message["body"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    async def bring(writer: asyncio.StreamWriter, size: int) -> None:
        """So much of a body, until the application has it."""
        writer.write(bytes(size))
        while size > 0:
            size -= await taken.get()

    async def test(loop: MovableLoop) -> None:
        async with serving(counting, limits__read_timeout_millis=seconds * 1000) as site:
            for last, status in ((enough, b"200 OK"), (enough - 1, b"408 Request Timeout")):
                reader, writer = await site.talk()
                writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % (5 * enough))
                for size in (enough, enough, enough, last):
                    await bring(writer, size)
                    await loop.pass_by(seconds)
                if last == enough:
                    await bring(writer, enough)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
                assert head.startswith(b"HTTP/1.1 " + status)
                writer.close()

    run_at_will(test)


# -- how many ----------------------------------------------------------------------------------------------------------


def test_one_connection_too_many_takes_the_place_of_the_one_that_is_idle_the_longest() -> None:
    async def test() -> None:
        async with serving(echo, max_connections=3) as site:
            silent = [await site.talk() for _ in range(3)]
            # That the third is there is known when it is answered.
            silent[2][1].write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            await silent[2][0].readuntil(b"\r\n\r\n")
            assert (await site.ask(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert await silent[0][0].read() == b""
            for _, writer in silent:
                writer.close()

    run(test)


def test_where_all_are_busy_one_more_is_refused() -> None:
    busy = asyncio.Semaphore(0)

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        busy.release()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def test() -> None:
        async with serving(waiting, max_connections=2) as site:
            writers = [(await site.talk())[1] for _ in range(2)]
            for writer in writers:
                writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                await busy.acquire()
            reader, writer = await site.talk()
            assert (await reader.read()).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            for each in (*writers, writer):
                each.transport.abort()

    run(test)


def turned_away(port: int) -> ssl.SSLSocket:
    """A client that does not close what the server has closed."""
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
    client = trusting_context().wrap_socket(connection, server_hostname="localhost")
    assert client.recv(100).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    return client


def test_a_connection_that_is_refused_keeps_no_descriptor_with_tls_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "LINGER", 1_000.0)
    busy = asyncio.Semaphore(0)

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        busy.release()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def test() -> None:
        tls = {"certificate": CERTIFICATES / "certificate.pem", "private_key": CERTIFICATES / "private_key.pem"}
        settings = {f"api__tls__{name}": str(path) for name, path in tls.items()}
        async with serving(waiting, max_connections=1, **settings) as site:
            writer = (await site.talk(ssl=trusting_context(), server_hostname="localhost"))[1]
            writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            await busy.acquire()
            before = len(os.listdir("/proc/self/fd"))
            refused = await asyncio.to_thread(turned_away, site.port.ports[0])
            while len(os.listdir("/proc/self/fd")) > before + 1:  # noqa: ASYNC110 - nothing tells that it is closed
                await asyncio.sleep(0.01)
            refused.close()
            writer.transport.abort()

    run(test)


# -- pages from elsewhere ----------------------------------------------------------------------------------------------

PREFLIGHT = (
    b"OPTIONS / HTTP/1.1\r\n" + HOST + b"Origin: https://page.example\r\nAccess-Control-Request-Method: PUT\r\n"
    b"Access-Control-Request-Headers: authorization\r\n\r\n"
)
PLAIN = b"GET / HTTP/1.1\r\n" + HOST + b"Origin: https://page.example\r\n\r\n"


def test_no_page_from_elsewhere_may_read_anything_unless_it_is_named() -> None:
    async def test() -> None:
        async with serving(echo) as site:
            for request in (PREFLIGHT, PLAIN):
                assert b"access-control" not in (await site.ask(request)).lower()

    run(test)


def test_a_page_that_is_named_may_and_every_header_says_so_once() -> None:
    async def test() -> None:
        async with serving(
            echo, api__cors__allow_origins=["https://page.example"], api__cors__accept_credentials=True
        ) as site:
            for request in (PREFLIGHT, PLAIN):
                names = [line.partition(":")[0].lower() for line in head_of(await site.ask(request))]
                assert len(set(names)) == len(names)
                assert {"access-control-allow-origin", "access-control-allow-credentials", "vary"} <= set(names)
            found = head_of(await site.ask(PREFLIGHT))
            assert found[0] == "HTTP/1.1 204 No Content"
            assert any(line.startswith("Access-Control-Allow-Methods:") and "PUT" in line for line in found)
            assert b"access-control" not in (await site.ask(PLAIN.replace(b"page", b"evil"))).lower()

    run(test)
