"""Who may connect as a remote adapter, and when a connection is given up."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from penstock.adapters.remote import RemoteDataAdapter, RemoteMetadataAdapter, connection, link
from penstock.services.errors import StartError
from penstock.testing import Harness, ari_peer
from penstock.wire.ari.packets import Credentials
from penstock.wire.ari.replies import ExceptionKind, Failed, Initialised
from penstock.wire.ari.requests import InitData, InitMetadata, SubscribeItem
from penstock.wire.ari.version import NEWEST, Version
from tests.adapters.remote.support import RemotePeer, RemoteServer, ready
from tests.interop.published import CERTIFICATE, PRIVATE_KEY
from tests.support.waiting import wait_until


def serve(**parameters: object) -> tuple[RemoteDataAdapter, RemoteServer]:
    adapter = RemoteDataAdapter(**{"port": 0, **parameters})  # type: ignore[arg-type]
    return adapter, RemoteServer(adapter)


def logged(caplog: pytest.LogCaptureFixture) -> str:
    return str([record.__dict__ for record in caplog.records])


def connected(adapter: RemoteDataAdapter) -> None:
    wait_until(lambda: adapter.connected, "the adapter is not ready")


# -- who may -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "password"), [("me", "wrong"), ("you", "se cret"), ("me", None), (None, None), ("me", "se cret ")]
)
def test_wrong_credentials_are_refused_with_a_reason_and_the_right_ones_let_in(
    user: str | None, password: str | None
) -> None:
    adapter, server = serve(user="me", password="se cret")
    with server:
        with RemotePeer(adapter.ports[0]) as stranger:
            stranger.introduce(user, password)
            assert stranger.expect_close() == "wrong credentials"
        assert not adapter.connected
        with RemotePeer(adapter.ports[0]) as remote:
            remote.introduce("me", "se cret")
            remote.initialise()
            connected(adapter)


def test_an_adapter_that_cannot_know_close_is_refused_without_a_word() -> None:
    adapter, server = serve(password="secret")
    with server, RemotePeer(adapter.ports[0]) as stranger:
        stranger.introduce(None, "guess", closes=False)
        stranger.expect_end()


def test_nothing_is_said_to_a_peer_before_its_credentials_and_its_place_is_free_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "GRACE_SECONDS", 0.05)
    adapter, server = serve(password="secret", timeout_millis=300)
    with server, RemotePeer(adapter.ports[0]) as silent, RemotePeer(adapter.ports[0]) as remote:
        remote.introduce(None, "secret")
        remote.initialise()
        connected(adapter)
        silent.expect_end()
        assert adapter.connected


@pytest.mark.parametrize("line", [b"1|SUB|V\r\n", b"GET / HTTP/1.1\r\n", b"1|FAL|E|x\r\n", b"\xff\n", b"y" * 2_000])
def test_a_peer_that_begins_with_something_else_than_credentials_is_refused(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "GRACE_SECONDS", 0.05)
    adapter, server = serve(password="secret", max_line_bytes=1_000)
    with server, RemotePeer(adapter.ports[0]) as stranger:
        stranger.send(line)
        stranger.expect_end()


def test_a_foreign_address_is_not_talked_to() -> None:
    adapter, server = serve(allowed_addresses=["10.0.0.0/8", "::1"])
    with server, RemotePeer(adapter.ports[0]) as stranger:
        stranger.expect_end()


def test_an_address_of_an_allowed_network_may_connect() -> None:
    adapter, server = serve(allowed_addresses=["10.0.0.0/8", "127.0.0.0/8"])
    with server, ready(adapter.ports[0]):
        connected(adapter)


def test_over_tls_everything_goes_as_in_the_clear() -> None:
    adapter, server = serve(tls_certificate=str(CERTIFICATE), tls_private_key=str(PRIVATE_KEY))
    trust = ssl.create_default_context(cafile=str(CERTIFICATE))
    with server, ready(adapter.ports[0], tls=trust) as remote, server.client() as client:
        client.subscribe(1, "a", "x")
        identifier = remote.subscribe("a")
        remote.update("a", identifier, True, x="sealed")
        assert client.values() == ["sealed"]


def test_a_certificate_is_wanted_where_client_authorities_are_given() -> None:
    adapter, server = serve(
        tls_certificate=str(CERTIFICATE),
        tls_private_key=str(PRIVATE_KEY),
        tls_client_authorities=str(CERTIFICATE),
    )
    trust = ssl.create_default_context(cafile=str(CERTIFICATE))
    with server:
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            ready(adapter.ports[0], tls=trust)
        trust.load_cert_chain(CERTIFICATE, PRIVATE_KEY)
        with ready(adapter.ports[0], tls=trust):
            connected(adapter)


def test_a_second_adapter_is_refused_while_the_first_is_there() -> None:
    adapter, server = serve()
    with server, ready(adapter.ports[0]) as first, RemotePeer(adapter.ports[0]) as second, server.client() as client:
        second.introduce()
        assert second.expect_close() == "another adapter is connected"
        client.subscribe(1, "a", "x")
        first.subscribe("a")


def test_a_second_adapter_takes_the_place_of_one_that_has_been_silent_for_too_long() -> None:
    adapter, server = serve(keepalive_hint_millis=50, keepalive_timeout_millis=0)
    with server, ready(adapter.ports[0]) as first:
        connected(adapter)
        server.call(lambda: None)
        wait_until(lambda: _silence(adapter) > 0.06, "it is never silent")
        with ready(adapter.ports[0]):
            assert first.expect_close() == "another adapter has connected, and this one has been silent"
            connected(adapter)


def _silence(adapter: RemoteDataAdapter) -> float:
    return min([taken.silence() for taken in adapter.link._taken.values()])


# -- two connections ---------------------------------------------------------------------------------------------------


def test_an_adapter_with_two_connections_is_complete_when_both_are_there() -> None:
    adapter, server = serve(notify_port=0)
    with server, RemotePeer(adapter.ports[1]) as notify, RemotePeer(adapter.ports[0]) as remote:
        notify.send(ari_peer.credentials(Credentials(None, None, True, None), "1794743665602"))
        remote.introduce()
        remote.initialise()
        with server.client() as client:
            client.subscribe(1, "a", "x")
            identifier = remote.subscribe("a")
            notify.update("a", identifier, True, x="beside")
            assert client.values() == ["beside"]
            # On the connection for answers it is not expected.
            remote.update("a", identifier, x="wrong way")
            notify.update("a", identifier, x="right way")
            assert client.values() == ["right way"]


@pytest.mark.parametrize("lost", [0, 1])
def test_when_one_of_two_connections_is_lost_the_other_is_closed(lost: int) -> None:
    adapter, server = serve(notify_port=0)
    with server, RemotePeer(adapter.ports[0]) as remote, RemotePeer(adapter.ports[1]) as notify:
        remote.introduce()
        remote.initialise()
        connected(adapter)
        if lost == 0:
            remote.close()
            notify.expect_end()
        else:
            notify.close()
            assert remote.expect_close() is not None
        wait_until(lambda: adapter.link.phase is link.Phase.WAITING, "it is still taken for connected")


def test_an_adapter_whose_second_connection_does_not_come_is_refused() -> None:
    adapter, server = serve(notify_port=0, timeout_millis=100)
    with server, RemotePeer(adapter.ports[0]) as remote:
        remote.introduce()
        assert remote.expect_close() == "its second connection has not come in time"


def test_a_third_connection_is_refused() -> None:
    adapter, server = serve(notify_port=0)
    with server, RemotePeer(adapter.ports[0]) as remote, RemotePeer(adapter.ports[0]) as third:
        third.introduce()
        assert third.expect_close() == "another adapter is connected"
        with RemotePeer(adapter.ports[1]):
            remote.introduce()
            remote.initialise()
            connected(adapter)


# -- the first request -------------------------------------------------------------------------------------------------


def test_an_adapter_that_does_not_answer_the_first_request_is_given_up_and_the_next_one_taken() -> None:
    adapter, server = serve(timeout_millis=100)
    with server:
        with RemotePeer(adapter.ports[0]) as remote:
            remote.introduce()
            remote.expect(InitData)
            assert remote.expect_close() == "no initialisation: it has not answered in time"
        with ready(adapter.ports[0]):
            connected(adapter)


def test_an_adapter_of_an_unknown_version_is_refused() -> None:
    adapter, server = serve()
    with server, RemotePeer(adapter.ports[0]) as remote:
        remote.introduce()
        identifier, _ = remote.expect(InitData)
        remote.send(f"{identifier}|DPI|S|ARI.version|S|7.0.0\r\n".encode())
        assert remote.expect_close() == "no initialisation: its answer cannot be parsed"


def test_an_adapter_that_fails_to_initialise_itself_is_refused_with_its_own_words_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    adapter, server = serve()
    with server, RemotePeer(adapter.ports[0]) as remote:
        remote.introduce()
        identifier, _ = remote.expect(InitData)
        remote.reply(Failed(identifier, "DPI", ExceptionKind.DATA, "no database"))
        assert remote.expect_close() == "its initialisation has failed: no database"
    assert "no database" in logged(caplog)


def test_the_start_fails_when_no_adapter_comes_in_time() -> None:
    _, server = serve(first_connection_timeout_millis=50)
    with pytest.raises(StartError, match=r"data adapter FEED of set REMOTE failed: no remote adapter has connected"):
        server.__enter__()


def test_the_start_fails_when_the_adapter_that_it_waits_for_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    adapter = RemoteMetadataAdapter(port=port)
    server = RemoteServer(RemoteDataAdapter(port=0), adapter)
    failed: list[BaseException] = []

    def start() -> None:
        try:
            server.__enter__()
        except StartError as error:
            failed.append(error)

    starting = threading.Thread(target=start)
    starting.start()
    wait_until(lambda: hasattr(adapter, "link") and bool(adapter.link._listeners), "the port is not open")
    with RemotePeer(port) as remote:
        remote.introduce()
        identifier, _ = remote.expect(InitMetadata)
        remote.reply(Failed(identifier, "MPI", ExceptionKind.METADATA, "no database"))
        remote.expect_close()
    starting.join(10)
    assert "its initialisation has failed: no database" in str(failed[0])


def test_all_ports_are_open_before_the_first_adapter_is_waited_for() -> None:
    """One remote process may have both adapters, and connect them in any order."""
    metadata, data = RemoteMetadataAdapter(port=0), RemoteDataAdapter(port=0, first_connection_timeout_millis=-1)
    server = RemoteServer(data, metadata)
    starting = threading.Thread(target=server.__enter__)
    starting.start()
    wait_until(lambda: hasattr(data, "link") and bool(data.link._listeners), "the data port is not open")
    with ready(data.ports[0]), RemotePeer(metadata.ports[0]) as remote:
        remote.introduce()
        remote.initialise(InitMetadata)
        starting.join(10)
        assert not starting.is_alive()
        server.stop()


def test_an_adapter_that_was_given_up_can_be_started_again() -> None:
    async def start_twice() -> None:
        harness = Harness()
        adapter = RemoteDataAdapter(port=0, first_connection_timeout_millis=100)
        adapter.enter(harness.feed)
        await adapter.start()
        with pytest.raises(link.RemoteUnavailable):
            await adapter.wait_until_ready()
        await adapter.start()
        connecting = asyncio.create_task(asyncio.to_thread(ready, adapter.ports[0]))
        await adapter.wait_until_ready()
        assert adapter.connected
        (await connecting).close()
        await adapter.stop()

    asyncio.run(start_twice())


def test_a_port_that_is_taken_stops_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        _, server = serve(port=taken.getsockname()[1])
        with pytest.raises(StartError, match="data adapter FEED of set REMOTE failed"):
            server.__enter__()


# -- the end -----------------------------------------------------------------------------------------------------------


def test_silence_beyond_the_limit_is_the_end_and_a_sign_of_life_is_not_silence() -> None:
    adapter, server = serve(keepalive_hint_millis=100, keepalive_timeout_millis=250)
    with server, ready(adapter.ports[0]) as remote:
        until = time.monotonic() + 0.6

        def has_lived() -> bool:
            remote.send(ari_peer.KEEPALIVE)
            return time.monotonic() > until

        wait_until(has_lived, "time stands still")
        assert adapter.connected
        assert remote.expect_close() == "nothing heard for 0.25 s"
        assert not adapter.connected


def test_an_adapter_that_shows_life_but_answers_nothing_is_deaf() -> None:
    adapter, server = serve(timeout_millis=100)
    with server, ready(adapter.ports[0]) as remote, server.client() as client:
        client.subscribe(1, "a b c", "x")
        for _ in range(3):
            remote.expect(SubscribeItem)
            remote.send(ari_peer.KEEPALIVE)
        assert remote.expect_close() == "it has left several requests in a row unanswered"


def test_an_adapter_that_answers_something_is_not_deaf() -> None:
    adapter, server = serve(timeout_millis=100, retry_millis=30_000)
    with server, ready(adapter.ports[0]) as remote, server.client() as client:
        for number in range(1, 6):
            client.subscribe(2 * number, f"silent{number}", "x")
            remote.expect(SubscribeItem)
            client.subscribe(2 * number + 1, f"answered{number}", "x")
            remote.subscribe(f"answered{number}")
            wait_until(lambda: _failed(adapter) == number, "no time-out")  # noqa: B023
        assert adapter.connected


def _failed(adapter: RemoteDataAdapter) -> int:
    return len([entry for entry in list(adapter._items._entries.values()) if entry.name[0] == "s" and entry.timer])


def test_a_failure_that_the_adapter_reports_is_the_end_of_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    adapter, server = serve()
    with server:
        with ready(adapter.ports[0]) as remote:
            remote.send(ari_peer.failure("1", "the market is closed", NEWEST))
            assert remote.expect_close() == "the adapter has reported a failure"
        with ready(adapter.ports[0]):
            connected(adapter)
    assert "the market is closed" in logged(caplog)


def test_a_hundred_lines_of_nonsense_are_too_many() -> None:
    adapter, server = serve()
    with server, ready(adapter.ports[0]) as remote:
        remote.send(b"nonsense\n" * 99)
        wait_until(lambda: adapter.link._bad_count == 99, "they are not counted")
        assert adapter.connected
        remote.send(b"nonsense\n")
        assert remote.expect_close() == "100 lines within 60 s were invalid"


@pytest.mark.parametrize("stream", [b"\xff\xfe\n", b"z" * 1_000_001, b"a\rb\n"], ids=["bytes", "long", "CR"])
def test_a_stream_that_cannot_be_read_on_is_closed(stream: bytes) -> None:
    adapter, server = serve()
    with server, ready(adapter.ports[0]) as remote:
        remote.send(stream)
        reason = remote.expect_close()
        assert reason is not None
        assert reason.startswith("Line ")


def test_an_adapter_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNSENT_BYTES", 100_000)
    monkeypatch.setattr(connection, "CLOSING_SECONDS", 0.05)
    adapter, server = serve()
    with server, ready(adapter.ports[0]), server.client() as client:
        connected(adapter)
        for number in range(400):
            client.subscribe(number + 1, f"{number}" + "i" * 30_000, "x")
            client.read("SUBOK")
            if not adapter.connected:
                break
        wait_until(lambda: not adapter.connected, "it is kept though it does not read")


@pytest.mark.parametrize(
    ("version", "closes", "told"),
    [
        (NEWEST, False, True),
        (Version(1, 8, 3), False, True),
        (Version(1, 8, 2), False, False),
        (Version(1, 8, 2), True, True),
    ],
)
def test_when_the_server_goes_down_the_adapter_is_told_if_it_would_understand(
    version: Version, closes: bool, told: bool
) -> None:
    adapter, server = serve()
    with server:
        remote = RemotePeer(adapter.ports[0], version=version)
        remote.introduce(closes=closes)
        identifier, _ = remote.expect(InitData)
        remote.reply(Initialised(identifier, "DPI", version, {}))
        connected(adapter)
    if told:
        assert remote.expect_close() == "the server is shutting down"
    else:
        remote.expect_end()
    remote.close()


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({}, "parameter port is None; allowed: a port, 0 to 65535"),
        ({"port": 70_000}, "parameter port is 70000"),
        ({"port": "6661"}, "parameter port is '6661'"),
        ({"port": 0, "notify_port": True}, "parameter notify_port is True"),
        ({"port": 0, "prt": 1}, "parameter prt is 1; allowed: no such parameter, only port"),
        ({"port": 0, "timeout_millis": 0}, "parameter timeout_millis is 0; allowed: a whole number from 1"),
        ({"port": 0, "timeout_millis": 1.5}, "parameter timeout_millis is 1.5"),
        ({"port": 0, "first_connection_timeout_millis": -2}, "first_connection_timeout_millis is -2"),
        ({"port": 0, "keepalive_hint_millis": 500, "keepalive_timeout_millis": 400}, "more than the hint, 500"),
        ({"port": 0, "allowed_addresses": "127.0.0.1"}, "a list of addresses"),
        ({"port": 0, "allowed_addresses": ["localhost"]}, "parameter allowed_addresses is 'localhost'"),
        ({"port": 0, "remote_parameters": {"a": 1}}, "parameter remote_parameters.a is 1; allowed: text"),
        ({"port": 0, "remote_parameters": []}, "a table of texts"),
        ({"port": 0, "password": 17}, "parameter password is '***'"),
        ({"port": 0, "user": ""}, "parameter user is ''"),
        ({"port": 0, "tls_private_key": "key.pem"}, "nothing without tls_certificate"),
        ({"port": 0, "tls_certificate": "none.pem", "tls_private_key": "key.pem"}, "parameter tls_certificate"),
        ({"port": 0, "tls_certificate": str(CERTIFICATE)}, "parameter tls_private_key is None"),
        ({"port": 0, "status_item": ""}, "parameter status_item is ''"),
        ({"port": 0, "max_line_bytes": 10}, "a whole number from 1000"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value_and_what_is_allowed(
    parameters: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(").replace("*", r"\*")):
        RemoteDataAdapter(**parameters)  # type: ignore[arg-type]


def test_client_authorities_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tls_client_authorities"):
        RemoteDataAdapter(
            port=0,
            tls_certificate=str(CERTIFICATE),
            tls_private_key=str(PRIVATE_KEY),
            tls_client_authorities=str(tmp_path / "none.pem"),
        )
