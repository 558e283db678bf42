from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import add, answer, batch, create, row
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags

TOTAL = 400


def whole_body(exchange: Exchange, name: str, body: str, version: str) -> bytes:
    """What one connection carries, to its end."""
    with exchange.http() as http:
        http.post(name, body, version=version)
        assert http.read_head() == 200
        return http.read_body()


@pytest.mark.parametrize(
    ("version", "length"),
    [
        row("create.LS_content_length", "1.1", 1500),
        row("create.LS_content_length.http-1.0", "1.0", 1500),
        row("bind.LS_content_length", "1.1", 2221),
        row("bind.LS_content_length.http-1.0", "1.0", 2221),
    ],
)
def test_a_stream_asks_to_rebind_before_its_length_is_passed_and_nothing_is_lost(
    server: BackgroundServer, exchange: Exchange, version: str, length: int
) -> None:
    with exchange.http() as http:
        http.post("create_session", f"{create(content_length=length)}&{add(mode='RAW')}", version=version)
        http.read_head()
        head = http.read_until("CONF")
        session = head[0].split(",")[1]
        for number in range(TOTAL):
            server.update("a", x=f"{number:03}" + "." * (number % 17))
        bodies = ["".join(f"{line}\r\n" for line in head).encode() + http.read_body()]
    for _ in range(2):
        bodies.append(whole_body(exchange, "bind_session", params(session=session, content_length=length), version))
    assert all(len(body) > length - 150 for body in bodies), "a stream goes on as long as it may"
    while b"\r\nU,1,1,399" not in bodies[-1]:
        poll = params(session=session, content_length=length, polling=True)
        bodies.append(whole_body(exchange, "bind_session", poll, version))
    assert all(len(body) <= length for body in bodies)
    assert all(body.endswith(b"\r\nLOOP,0\r\n") for body in bodies), "a body ends with a whole line"
    lines = b"".join(bodies).decode().split("\r\n")
    updates = [line for line in lines if line.startswith("U,")]
    assert updates == [f"U,1,1,{number:03}" + "." * (number % 17) for number in range(TOTAL)]


@pytest.mark.conformance("create.LS_content_length.too-low")
def test_a_length_that_is_too_low_is_raised_to_the_configured_one(server: BackgroundServer, exchange: Exchange) -> None:
    for asked in (0, 1, 999):
        with exchange.http() as http:
            http.post("create_session", f"{create(content_length=asked)}&{add(mode='RAW', group=f'i{asked}')}")
            http.read_head()
            head = http.read_until("CONF")
            for number in range(20):
                server.update(f"i{asked}", x=f"{number:050}")
            if asked == 0:
                # Nothing is asked for: the stream is as long as the server configures.
                assert tags(http.read_line() for _ in range(20)) == ["U"] * 20
            else:
                body = http.read_body()
                assert 850 < sum(len(line) + 2 for line in head) + len(body) <= 1000


@pytest.mark.conformance("create.LS_content_length.omitted")
@pytest.mark.config({"session.content_length": 5000, "session.noop_padding": 2048})
def test_without_a_length_the_configured_one_holds_padding_included(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.http() as http:
        http.post("create_session", f"{create()}&{add(mode='RAW')}")
        http.read_head()
        size = 0
        while not (line := http.read_line()).startswith("CONF"):
            size += len(line) + 2
        for number in range(100):
            server.update("a", x=f"{number:050}")
        body = http.read_body()
        assert body.endswith(b"\r\nLOOP,0\r\n")
        assert 4800 < size + len(line) + 2 + len(body) <= 5000


@pytest.mark.conformance("create.LS_content_length.probes")
def test_keep_alive_lines_do_not_pass_the_length_either(exchange: Exchange, clock: MovableClock) -> None:
    with exchange.http() as http:
        http.post("create_session", create(content_length=1000))
        http.read_head()
        head = http.read_until("CONS")
        for _ in range(200):
            clock.advance(5)
        body = http.read_body()
        assert set(tags(body.decode().split("\r\n")[:-1])) == {"PROBE", "SYNC", "LOOP"}
        assert body.endswith(b"\r\nLOOP,0\r\n")
        assert sum(len(line) + 2 for line in head) + len(body) <= 1000


@pytest.mark.conformance("create.LS_content_length.oversized-line")
def test_a_line_longer_than_a_whole_stream_goes_alone_on_a_fresh_one(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream(content_length=1000) as stream:
        batch(exchange, stream.session, add(mode="RAW"))
        stream.read_until("CONF")
        server.update("a", x="." * 3000)
        server.update("a", x="next")
        assert stream.read_line() == "LOOP,0"
        with exchange.http() as http:
            http.post("bind_session", params(session=stream.session, content_length=1000))
            assert answer(http)[2:] == ["U,1,1," + "." * 3000, "LOOP,0"]
            http.post("bind_session", params(session=stream.session, content_length=1000, polling=True))
            assert answer(http)[2:] == ["U,1,1,next", "LOOP,0"]
