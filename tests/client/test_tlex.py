from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.client.tlex import TlexApi, TlexError, TlexRefused, TlexStream, connect
from penstock.doors.tlex.listener import instant
from penstock.exchange.authorization import Role
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.rest import ListenerBody, SessionAnswer, SessionDetails
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType
from tests.doors.tlex.site import Site
from tests.doors.tlex.tls import certified, trusting

TLC, BROKER, MONITOR = SessionType.TLC, SessionType.BROKER, SessionType.MONITOR
ROLES = {TLC: Role.TLC_ADMIN, BROKER: Role.BROKER_ADMIN, MONITOR: Role.MONITOR_ADMIN}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[Site]:
    short = {"tlex.broker.keep_alive_millis": 600, "tlex.timestamps_millis": 200}
    with Site(tmp_path_factory.mktemp("tlex"), certified(certificates) | short) as running:
        yield running


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(timed())


def api(site: Site, type: SessionType) -> TlexApi:
    return TlexApi(site.api, site.token(ROLES[type]))


async def join(site: Site, type: SessionType, *identifiers: str, singleplex: bool = False) -> TlexStream:
    stream = await connect(await api(site, type).create("test", type, identifiers, singleplex=singleplex))
    await stream.synchronize()
    return stream


def test_payloads_come_and_go_in_all_forms(site: Site) -> None:
    (a,) = site.tlcs(1)

    async def test() -> None:
        controller = await join(site, TLC, a, singleplex=True)
        broker = await join(site, BROKER, a)
        monitor = await join(site, MONITOR, a)
        async with controller, broker, monitor:
            controller.send(b"up", 7, origin=123)
            received = await anext(broker)
            assert (received.identifier, received.type, received.origin, received.data) == (a, 7, 123, b"up")
            broker.send(b"down", 8, a)
            received = await anext(controller)
            assert (received.identifier, received.type, received.data) == (None, 8, b"down")
            seen = [await anext(monitor), await anext(monitor)]
            assert [each.monitor.data for each in seen if each.monitor is not None] == [b"up", b"down"]

    run(test)


def test_a_client_stays_alive_by_itself(site: Site) -> None:
    (a,) = site.tlcs(1)

    async def test() -> None:
        async with await join(site, BROKER, a) as stream:
            # Three times as long as the hub would wait nothing comes, not even the end.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 1.8)
            await stream.synchronize()
            clock = site.door.hub.sessions[stream.session.token].conversation
            assert clock is not None
            assert clock.clock.latency is not None

    run(test)


def test_a_client_over_tls_checks_the_certificate(site: Site, certificates: Path) -> None:
    a, b = site.tlcs(2)

    async def test() -> None:
        session = await api(site, BROKER).create("test", BROKER, [a], security=SecurityMode.TLS)
        async with await connect(session, trusting(certificates)) as stream:
            await stream.synchronize()
        other = await api(site, BROKER).create("test", BROKER, [b], security=SecurityMode.TLS)
        with pytest.raises(TlexError, match="its certificate is not accepted: self-signed certificate"):
            await connect(other)

    run(test)


def test_the_end_of_a_stream_has_the_reason_of_bye(site: Site) -> None:
    (a,) = site.tlcs(1)

    async def test() -> None:
        stream = await join(site, BROKER, a)
        await api(site, BROKER).delete(stream.session.token)
        assert [received async for received in stream] == []
        assert stream.reason == "session deleted"
        with pytest.raises(TlexError, match="the connection is closed: session deleted"):
            stream.send(b"too late", 1, a)
        await stream.close()

    run(test)


def test_a_stream_ends_when_the_hub_asks_for_a_new_session(site: Site) -> None:
    (a,) = site.tlcs(1)

    async def test() -> None:
        async with await join(site, BROKER, a) as stream:
            session = site.door.hub.sessions[stream.session.token]
            site.background._loop.call_soon_threadsafe(lambda: site.door.hub.reconnect(session, instant()))
            assert [received async for received in stream] == []
            assert (stream.is_to_reconnect, stream.closed) == (True, False)
            async with await join(site, BROKER, a):
                pass

    run(test)


def test_requests_that_are_refused_say_why(site: Site) -> None:
    async def test() -> None:
        with pytest.raises(TlexRefused, match=r"HTTP 400 Bad Request: details.tlcIdentifiers\[0\]") as caught:
            await api(site, BROKER).create("test", BROKER, ["NOTTHERE"])
        assert caught.value.status == 400
        with pytest.raises(TlexRefused, match="HTTP 401 Unauthorized"):
            await TlexApi(site.api, "nobody's").tlcs()
        with pytest.raises(TlexError, match="the API port does not answer"):
            await TlexApi("http://127.0.0.1:1", "x").tlcs()
        with pytest.raises(ValueError, match="is not a server address; expected http or https"):
            TlexApi("127.0.0.1:8081", "x")

    run(test)


def test_everything_that_rest_has_can_be_asked_for(site: Site) -> None:
    async def test() -> None:
        hub = api(site, TLC)
        made = await hub.register("CLIENT01")
        assert made in await hub.tlcs()
        assert await hub.tlc(made.uuid) == made
        session = await hub.create("test", TLC, ["CLIENT01"])
        assert await hub.session(session.token) == session
        assert session in await hub.sessions(type="TLC")
        assert await hub.update(session, ["CLIENT01"]) == session
        await hub.delete(session.token)
        assert (await hub.session_logs())[-1]["endReason"] == "ADMIN_TERMINATION"
        await hub.unregister(made.uuid)
        assert made not in await hub.tlcs()

    run(test)


def test_what_the_protocol_cannot_carry_is_an_error_of_the_caller(site: Site) -> None:
    (a,) = site.tlcs(1)

    async def test() -> None:
        async with await join(site, BROKER, a) as stream:
            with pytest.raises(ValueError, match="identifier: missing"):
                stream.send(b"for whom?")
            with pytest.raises(ValueError, match="payload type"):
                stream.send(b"", 256, a)
            with pytest.raises(ValueError, match="a frame holds"):
                stream.send(b"x" * 65_536, 1, a)

    run(test)


# -- hubs that are none -------------------------------------------------------------------------------------------


@asynccontextmanager
async def answering(first: bytes) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A port that says this much to everybody, and never anything else; set when the peer is gone."""
    gone = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        try:
            while await reader.read(1_000):
                pass
        except ConnectionResetError:
            pass
        gone.set()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], gone


def session_at(port: int, keep_alive: timedelta) -> SessionAnswer:
    second = timedelta(seconds=1)
    return SessionAnswer(
        token="x" * 43,
        domain="test",
        type=BROKER,
        protocol=Protocol.MULTIPLEX,
        details=SessionDetails(
            security_mode=SecurityMode.NONE,
            tlc_identifiers=("NLZH0023",),
            listener=ListenerBody(host="127.0.0.1", port=port, expiration=datetime.now(UTC)),
            keep_alive_timeout=keep_alive,
            clock_diff_limit=second,
            clock_diff_limit_duration=second,
            payload_rate_limit=1,
            payload_rate_limit_duration=second,
            payload_throughput_limit=1,
            payload_throughput_limit_duration=second,
        ),
    )


def test_a_hub_that_is_silent_for_longer_than_the_keep_alive_timeout_is_left() -> None:
    async def test() -> None:
        async with answering(PREAMBLE) as (port, gone):
            began = time.monotonic()
            stream = await connect(session_at(port, timedelta(milliseconds=300)))
            assert [received async for received in stream] == []
            assert stream.reason == "nothing received for 0.3 s"
            assert 0.3 <= time.monotonic() - began < 5
            await gone.wait()
            await stream.close()

    run(test)


def test_a_hub_that_does_not_tell_its_version_is_left() -> None:
    async def test() -> None:
        async with answering(b"") as (port, gone):
            with pytest.raises(TlexError, match=rf"^127\.0\.0\.1:{port}: nothing received for 0.2 s$"):
                await connect(session_at(port, timedelta(milliseconds=200)))
            await gone.wait()

    run(test)


def test_a_hub_of_another_version_is_left() -> None:
    async def test() -> None:
        async with answering(b"\x02") as (port, gone):
            with pytest.raises(TlexError, match="the hub speaks another version"):
                await connect(session_at(port, timedelta(seconds=10)))
            await gone.wait()

    run(test)


def test_a_connection_that_is_gone_cannot_be_waited_for(site: Site) -> None:
    (a,) = site.tlcs(1)

    async def test() -> None:
        stream = await join(site, BROKER, a)
        await api(site, BROKER).delete(stream.session.token)
        await stream.wait_closed()
        with pytest.raises(TlexError, match="the connection is closed: session deleted"):
            await stream.synchronize()
        await stream.close()

    run(test)


def test_a_server_that_is_no_hub_is_told_without_the_token_in_the_path() -> None:
    async def test() -> None:
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]"
        async with answering(answer) as (port, _):
            with pytest.raises(TlexError, match=r"^GET /sessions: not the answer of a TLEX hub: Expected `object`"):
                await TlexApi(f"http://127.0.0.1:{port}", "x").session("secret")

    run(test)
