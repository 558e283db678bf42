from __future__ import annotations

import pytest
from websockets.exceptions import ConnectionClosedError

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import add, answer, bind, create, row
from tests.conformance.test_create import INVALID
from tests.support.background import BackgroundServer
from tests.support.raw import TIMEOUT, Exchange, params, tags

BIND_INVALID = {
    **{name: values for name, values in INVALID.items() if name not in ("LS_requested_max_bandwidth", "LS_ttl_millis")},
    "LS_recovery_from": ("-1", "start", "1.0"),
}


def unbound(exchange: Exchange, **parameters: object) -> str:
    """A session that waits to be bound."""
    return exchange.request("create_session", create(polling=True, **parameters))[0].split(",")[1]


@pytest.mark.conformance("bind.LS_session")
def test_a_binding_restarts_the_flow_of_the_named_session(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        exchange.request("control", f"LS_session={stream.session}&{add()}")
        stream.read_until("CONF")
        exchange.control(stream.session, reqId=2, op="force_rebind")
        assert stream.read_line() == "LOOP,0"
        server.update("a", x="meanwhile")
        with bind(exchange, stream.session) as again:
            assert tags(again.head) == ["CONOK", "CONS"]
            assert again.head[0].split(",")[1] == stream.session
            assert again.read_line() == "U,1,1,meanwhile"


@pytest.mark.conformance("bind.LS_session.missing")
def test_a_binding_over_http_without_session_is_error_65_naming_it(exchange: Exchange) -> None:
    assert exchange.request("bind_session", "") == ["CONERR,65,LS_session is missing"]
    with exchange.socket() as socket:
        socket.send("bind_session", "LS_polling=true")
        assert socket.read_line() == "CONERR,65,LS_session is missing"


@pytest.mark.conformance("bind.LS_session.ws-default")
def test_on_a_websocket_the_last_session_bound_to_it_is_meant(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.send("bind_session", params(session=unbound(exchange), polling=True))
        first = socket.read_until("LOOP")[0].split(",")[1]
        socket.send("bind_session", params(polling=True))
        assert socket.read_until("LOOP")[0].split(",")[1] == first
        socket.send("create_session", create(polling=True))
        second = socket.read_until("LOOP")[0].split(",")[1]
        socket.send("bind_session", "")
        assert socket.read_until("CONS")[0].split(",")[1] == second != first


@pytest.mark.conformance("bind.LS_recovery_from")
def test_a_binding_resumes_after_the_notifications_the_client_has(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        exchange.request("control", f"LS_session={stream.session}&{add()}")
        stream.read_until("CONF")
        for value in ("1", "2", "3"):
            server.update("a", x=value)
        assert [stream.read_line() for _ in range(3)] == ["U,1,1,1", "U,1,1,2", "U,1,1,3"]
        with bind(exchange, stream.session, recovery_from=3) as again:
            assert tags(again.head) == ["CONOK", "CONS"]
            assert [again.read_line() for _ in range(3)] == ["PROG,3", "U,1,1,2", "U,1,1,3"]


@pytest.mark.conformance("bind.LS_recovery_from.omitted")
def test_a_binding_without_recovery_takes_everything_sent_as_received(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        exchange.request("control", f"LS_session={stream.session}&{add()}")
        stream.read_until("CONF")
        server.update("a", x="1")
        assert stream.read_line() == "U,1,1,1"
        stream.http.close()
        with bind(exchange, stream.session) as again:
            server.update("a", x="2")
            assert again.read_line() == "U,1,1,2"


@pytest.mark.conformance("bind.LS_polling")
def test_a_polling_binding_sends_what_is_ready_and_ends(server: BackgroundServer, exchange: Exchange) -> None:
    session = unbound(exchange)
    exchange.request("control", f"LS_session={session}&{add(mode='RAW')}")
    for value in ("1", "2"):
        server.update("a", x=value)
    with exchange.http() as http:
        http.post("bind_session", params(session=session, polling=True))
        lines = answer(http)
        assert http.headers["content-length"]
    assert tags(lines[:2]) == ["CONOK", "CONS"]
    assert lines[2:] == ["SUBOK,1,1,1", "CONF,1,unlimited,unfiltered", "U,1,1,1", "U,1,1,2", "LOOP,0"]
    assert tags(exchange.request("bind_session", params(session=session, polling=True))) == ["CONOK", "CONS", "LOOP"]


@pytest.mark.conformance("bind.LS_polling.ws")
def test_polls_on_a_websocket_go_on_over_the_same_socket(server: BackgroundServer, exchange: Exchange) -> None:
    session = unbound(exchange)
    with exchange.socket() as socket:
        socket.send("bind_session", params(session=session, polling=True))
        assert tags(socket.read_until("LOOP")) == ["CONOK", "CONS", "LOOP"]
        socket.send("control", add(mode="RAW"))
        assert socket.read_line() == "REQOK,1"
        server.update("a", x="1")
        socket.send("bind_session", params(polling=True))
        assert tags(socket.read_until("LOOP")) == ["CONOK", "CONS", "SUBOK", "CONF", "U", "LOOP"]
        socket.send("bind_session", params(polling=True, idle_millis=15_000))
        socket.read_until("CONS")
        server.update("a", x="2")
        assert socket.read_until("LOOP") == ["U,1,1,2", "LOOP,0"]


@pytest.mark.conformance("bind.LS_polling_millis")
def test_the_pause_between_polls_is_told_by_loop_and_bounded(exchange: Exchange, clock: MovableClock) -> None:
    session = unbound(exchange)
    assert exchange.request("bind_session", params(session=session, polling=True, polling_millis=90_000))[-1] == (
        "LOOP,15000"
    )
    assert exchange.request("bind_session", params(session=session, polling=True, polling_millis=3000))[-1] == (
        "LOOP,3000"
    )
    clock.advance(12.9)
    assert exchange.request("bind_session", params(session=session, polling=True))[-1] == "LOOP,0"
    clock.advance(10.1)
    (line,) = exchange.request("bind_session", params(session=session, polling=True))
    assert line.startswith("CONERR,20,LS_session")


@pytest.mark.conformance("bind.LS_idle_millis")
def test_an_asynchronous_poll_ends_with_the_first_data_or_with_its_time(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    session = unbound(exchange)
    exchange.request("control", f"LS_session={session}&{add()}")
    exchange.request("bind_session", params(session=session, polling=True))
    with bind(exchange, session, polling=True, idle_millis=19_000) as poll:
        assert poll.head[0].split(",")[3] == "19000"
        server.update("a", x="1")
        assert poll.read_until("LOOP") == ["U,1,1,1", "LOOP,0"]
    with bind(exchange, session, polling=True, idle_millis=90_000) as poll:
        assert poll.head[0].split(",")[3] == "30000"
        clock.advance(30.1)
        assert poll.read_until("LOOP") == ["LOOP,0"]


@pytest.mark.conformance("bind.LS_idle_millis.CONS")
def test_an_asynchronous_poll_ends_with_a_change_of_the_constraints(exchange: Exchange, clock: MovableClock) -> None:
    # The clock stands still: its time alone would never end a poll.
    session = unbound(exchange)
    with bind(exchange, session, polling=True, idle_millis=15_000) as poll:
        exchange.control(session, reqId=1, op="constrain", requested_max_bandwidth=50)
        assert poll.read_until("LOOP") == ["CONS,50", "LOOP,0"]
    with bind(exchange, session, polling=True, idle_millis=15_000) as poll:
        exchange.control(session, reqId=2, op="constrain")
        assert poll.read_until("LOOP") == ["CONS,50", "LOOP,0"]


@pytest.mark.conformance("bind.LS_inactivity_millis")
def test_the_promise_of_a_binding_to_speak_now_and_then_is_held(exchange: Exchange, clock: MovableClock) -> None:
    session = unbound(exchange)
    with exchange.socket() as socket:
        socket.send("bind_session", params(session=session, inactivity_millis=2000, keepalive_millis=30_000))
        socket.read_until("CONS")
        for _ in range(3):
            clock.advance(1.5)
            socket.send("heartbeat", "")
            socket.send("wsok")
            assert socket.read_line() == "WSOK"
        clock.advance(2.1)
        with pytest.raises(ConnectionClosedError):
            socket.connection.recv(TIMEOUT)
    assert tags(exchange.request("bind_session", params(session=session, polling=True))) == ["CONOK", "CONS", "LOOP"]


@pytest.mark.conformance("bind.LS_keepalive_millis")
def test_the_keep_alive_time_of_a_binding_is_bounded_announced_and_kept(
    exchange: Exchange, clock: MovableClock
) -> None:
    session = unbound(exchange, keepalive_millis=20_000)
    for asked, granted in ((2000, "2000"), (1, "1000"), (3_600_000, "30000")):
        with bind(exchange, session, keepalive_millis=asked, send_sync=False) as stream:
            assert stream.head[0].split(",")[3] == granted
            clock.advance(int(granted) / 1000)
            assert stream.read_line() == "PROBE"
    with bind(exchange, session) as stream:
        assert stream.head[0].split(",")[3] == "5000"


@pytest.mark.conformance("bind.LS_send_sync")
def test_sync_is_left_out_of_a_binding_on_request(exchange: Exchange, clock: MovableClock) -> None:
    session = unbound(exchange)
    with bind(exchange, session, keepalive_millis=30_000) as stream:
        clock.advance(10.1)
        assert stream.read_line() == "SYNC,10"
        with bind(exchange, session, keepalive_millis=30_000, send_sync=False) as other:
            clock.advance(30.1)
            assert other.read_line() == "PROBE"


@pytest.mark.conformance("bind.LS_reduce_head")
def test_a_reduced_head_of_a_binding_has_no_conok_name_and_address(exchange: Exchange) -> None:
    session = unbound(exchange)
    lines = exchange.request("bind_session", params(session=session, reduce_head=True, polling=True))
    assert tags(lines) == ["CONS", "LOOP"]
    lines = exchange.request("bind_session", params(session=session, reduce_head=False, polling=True))
    assert tags(lines) == ["CONOK", "CONS", "LOOP"]


@pytest.mark.parametrize("name", [row(f"bind.{name}.invalid", name) for name in BIND_INVALID])
def test_a_wrong_value_is_error_65_naming_parameter_and_value(exchange: Exchange, name: str) -> None:
    session = unbound(exchange)
    for value in BIND_INVALID[name]:
        (line,) = exchange.request("bind_session", f"LS_session={session}&{name}={value}")
        assert line.startswith(f"CONERR,65,{name}={value[:30]}")
        assert "expected" in line


@pytest.mark.conformance("response.END")
def test_a_session_closed_on_the_server_while_unbound_answers_its_binding_with_end(
    server: BackgroundServer, exchange: Exchange
) -> None:
    for close in ((-4, "sorry%2C closed"), (32, "enough")):
        session = unbound(exchange)
        code, message = close
        server.call(server.server.kernel.find_session(session).close, code, message.replace("%2C", ","))
        assert exchange.request("bind_session", params(session=session)) == [f"END,{code},{message}"]
        with exchange.socket() as socket:
            socket.send("bind_session", params(session=session))
            assert socket.read_line() == f"END,{code},{message}"
