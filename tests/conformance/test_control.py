from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import add, answer, batch, bind, close_code, create, row
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags

# -- common parameters -------------------------------------------------------------------------------------------------


@pytest.mark.conformance("control.LS_session")
def test_a_control_request_acts_on_the_session_it_names(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.stream() as other:
        assert exchange.control(other.session, reqId=1, op="constrain", requested_max_bandwidth=5) == ["REQOK,1"]
        assert other.read_line() == "CONS,5"
        assert exchange.control(stream.session, reqId=1, op="constrain", requested_max_bandwidth=6) == ["REQOK,1"]
        assert stream.read_line() == "CONS,6"


@pytest.mark.conformance("control.LS_session.ws-default")
def test_on_a_websocket_the_last_session_bound_to_it_is_meant_even_between_polls(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("control", add(1))
        assert socket.read_line() == "REQOK,1"
        assert socket.read_until("CONF")[0] == "SUBOK,1,1,1"
        socket.send("create_session", create())
        assert socket.read_line().startswith("CONERR,69,")
        socket.send("control", params(reqId=2, op="force_rebind"))
        assert set(tags([socket.read_line(), socket.read_line()])) == {"LOOP", "REQOK"}
        socket.send("control", params(reqId=3, op="delete", subId=1))
        assert socket.read_line() == "REQOK,3"


@pytest.mark.conformance("control.LS_session.missing")
def test_a_control_request_without_any_session_is_refused_naming_it(exchange: Exchange) -> None:
    assert exchange.request("control", add()) == ["REQERR,1,20,LS_session is missing"]
    with exchange.socket() as socket:
        socket.send("control", add())
        assert socket.read_line() == "REQERR,1,20,LS_session is missing"


@pytest.mark.conformance("control.LS_reqId")
def test_a_request_id_is_letters_and_numbers(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        for request_id in ("1", "999999999999999999", "abcXYZ09", "a"):
            request = params(reqId=request_id, op="constrain")
            assert batch(exchange, stream.session, request) == [f"REQOK,{request_id}"]
        (line,) = batch(exchange, stream.session, "LS_op=constrain")
        assert line == "ERROR,65,LS_reqId is missing"
        for wrong in ("a b", "a,b", "é", "x" * 65):
            (line,) = batch(exchange, stream.session, params(reqId=wrong, op="constrain"))
            assert line.startswith("ERROR,65,LS_reqId=")


@pytest.mark.conformance("control.LS_op")
def test_an_unknown_operation_is_error_65_naming_it_and_the_known_ones(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        assert exchange.control(stream.session, reqId=1) == ["REQERR,1,65,LS_op is missing"]
        (line,) = exchange.control(stream.session, reqId=1, op="explode")
        assert line.startswith("REQERR,1,65,LS_op=explode")
        for known in ("add", "delete", "reconf", "constrain", "force_rebind", "destroy"):
            assert known in line


@pytest.mark.conformance("response.REQOK")
def test_success_is_answered_with_reqok_and_the_request_id(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        assert exchange.request("control", f"LS_session={stream.session}&{add(5)}") == ["REQOK,5"]
        socket.send("control", f"LS_session={stream.session}&{add(6)}")
        assert socket.read_line() == "REQOK,6"


@pytest.mark.conformance("response.REQERR")
def test_failure_is_answered_with_reqerr_id_code_and_message(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        request = params(session=stream.session, reqId="r7", op="delete", subId=4)
        expected = "REQERR,r7,19,LS_subId: Subscription 4 not found"
        assert exchange.request("control", request) == [expected]
        socket.send("control", request)
        assert socket.read_line() == expected


@pytest.mark.conformance("response.ERROR")
def test_a_request_that_cannot_be_interpreted_is_answered_with_error_code_and_message(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        (line,) = exchange.request("control", "gibberish")
        assert line.startswith("ERROR,67,")
        socket.send("control", "gibberish")
        assert socket.read_line() == line


# -- constrain ---------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("constrain.LS_requested_max_bandwidth")
def test_a_new_bandwidth_is_announced_and_obeyed(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream(send_sync=False, keepalive_millis=30_000) as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        exchange.control(stream.session, reqId=2, op="constrain", requested_max_bandwidth="0.8")
        assert stream.read_line() == "CONS,0.8"
        clock.advance(2)
        server.update("a", x="1" * 1000)
        assert stream.read_line() == "U,1,1," + "1" * 1000
        server.update("a", x="2")
        server.update("a", x="3")
        clock.advance(11)
        assert stream.read_line() == "U,1,1,3"
        clock.advance(1)
        server.update("a", x="4" * 1000)
        clock.advance(1)
        assert stream.read_line() == "U,1,1," + "4" * 1000
        server.update("a", x="5")
        exchange.control(stream.session, reqId=3, op="constrain", requested_max_bandwidth="unlimited")
        assert sorted([stream.read_line(), stream.read_line()]) == ["CONS,unlimited", "U,1,1,5"]


@pytest.mark.conformance("constrain.LS_requested_max_bandwidth.omitted")
def test_without_a_new_bandwidth_the_present_one_is_told(exchange: Exchange) -> None:
    with exchange.stream(requested_max_bandwidth=12.5) as stream:
        assert exchange.control(stream.session, reqId=1, op="constrain") == ["REQOK,1"]
        assert stream.read_line() == "CONS,12.5"


@pytest.mark.conformance("constrain.LS_requested_max_bandwidth.invalid")
def test_a_wrong_bandwidth_is_error_65_naming_it(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        for value in ("0", "-3", "lots", "1e2"):
            (line,) = exchange.control(stream.session, reqId=1, op="constrain", requested_max_bandwidth=value)
            assert line.startswith(f"REQERR,1,65,LS_requested_max_bandwidth={value}")


# -- force_rebind ------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("force_rebind.request")
def test_a_forced_rebind_ends_the_stream_with_loop_and_keeps_the_session(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        assert exchange.control(stream.session, reqId=2, op="force_rebind") == ["REQOK,2"]
        assert stream.read_line() == "LOOP,0"
        with pytest.raises(EOFError, match="the response has ended"):
            stream.read_line()
        server.update("a", x="1")
        with bind(exchange, stream.session) as again:
            assert again.read_line() == "U,1,1,1"


@pytest.mark.conformance("force_rebind.LS_polling_millis")
def test_a_forced_rebind_keeps_the_session_for_the_time_the_client_needs(
    exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream() as stream, exchange.stream() as other:
        exchange.control(stream.session, reqId=1, op="force_rebind", polling_millis=5000)
        exchange.control(other.session, reqId=1, op="force_rebind")
        assert stream.read_line() == other.read_line() == "LOOP,0"
        clock.advance(10.5)
        assert exchange.request("bind_session", params(session=other.session))[0].startswith("CONERR,20,")
        clock.advance(4)
        with bind(exchange, stream.session) as again:
            assert again.head[0].startswith("CONOK,")
        (line,) = exchange.control(stream.session, reqId=1, op="force_rebind", polling_millis="-1")
        assert line.startswith("REQERR,1,65,LS_polling_millis=-1")


@pytest.mark.conformance("force_rebind.LS_close_socket")
def test_a_forced_rebind_closes_the_connection_on_request(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        exchange.control(stream.session, reqId=1, op="force_rebind", close_socket=True)
        assert stream.read_line() == "LOOP,0"
        assert stream.http.is_closed()
        socket.create()
        socket.send("control", params(reqId=1, op="force_rebind", close_socket=True))
        assert set(tags([socket.read_line(), socket.read_line()])) == {"LOOP", "REQOK"}
        assert close_code(socket) == 1000
        (line,) = exchange.control(stream.session, reqId=1, op="force_rebind", close_socket="now")
        assert line.startswith("REQERR,1,65,LS_close_socket=now")


@pytest.mark.conformance("force_rebind.LS_close_socket.omitted")
def test_a_forced_rebind_leaves_the_connection_open_for_reuse(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        exchange.control(stream.session, reqId=1, op="force_rebind")
        assert stream.http.read_body() == b"LOOP,0\r\n"
        stream.http.post("bind_session", params(session=stream.session, polling=True))
        assert tags(answer(stream.http)) == ["CONOK", "CONS", "LOOP"]
        socket.create()
        exchange.control(socket.session, reqId=1, op="force_rebind")
        assert socket.read_line() == "LOOP,0"
        socket.send("bind_session", "")
        assert tags(socket.read_until("CONS")) == ["CONOK", "CONS"]


# -- destroy -----------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("destroy.request")
def test_a_destroyed_session_ends_its_stream_and_is_gone(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        assert exchange.control(stream.session, reqId=2, op="destroy") == ["REQOK,2"]
        line = stream.read_line()
        assert line.startswith("END,31,")
        with pytest.raises(EOFError):
            stream.read_line()
        assert server.adapter.subscribed == set()
        assert exchange.control(stream.session, reqId=3, op="destroy")[0].startswith("REQERR,3,20,")
        assert exchange.request("bind_session", params(session=stream.session))[0].startswith("CONERR,20,")


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        row("destroy.LS_cause_code", {"cause_code": -17, "cause_message": "why"}, "END,-17,why"),
        row("destroy.LS_cause_code.zero", {"cause_code": 0, "cause_message": "why"}, "END,0,why"),
        row("destroy.LS_cause_code.positive", {"cause_code": 39, "cause_message": "why"}, "END,0,why"),
        row("destroy.LS_cause_message", {"cause_code": -1, "cause_message": "a, b"}, "END,-1,a%2C b"),
        row("destroy.LS_cause_message.empty", {"cause_code": -1, "cause_message": ""}, "END,-1,"),
        row("destroy.LS_cause_message.omitted", {"cause_code": -1}, "END,-1,null"),
        row("destroy.LS_cause_message.alone", {"cause_message": "why"}, "END,31,Destroy invoked by client"),
    ],
)
def test_the_cause_of_a_destruction_is_told(exchange: Exchange, parameters: dict[str, object], expected: str) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        socket.create()
        exchange.control(stream.session, reqId=1, op="destroy", **parameters)
        assert stream.read_line() == expected
        socket.send("control", params(reqId=1, op="destroy", **parameters))
        assert socket.read_until("END")[-1] == expected


@pytest.mark.conformance("destroy.LS_cause_message.long")
def test_a_long_cause_never_makes_a_limited_stream_longer_than_allowed(
    server: BackgroundServer, exchange: Exchange
) -> None:
    long = "x" * 90
    with exchange.http() as http, exchange.socket() as socket:
        http.post("create_session", f"{create(content_length=1000)}&{add(mode='RAW')}")
        http.read_head()
        head = http.read_until("CONF")
        used = sum(len(line) + 2 for line in head)
        room = 1000 - used - len("U,1,1,\r\n") - 96
        server.update("a", x="." * room)
        exchange.control(head[0].split(",")[1], reqId=1, op="destroy", cause_code=-1, cause_message=long)
        body = http.read_body()
        assert body.endswith(b"\r\nEND,-1,[Custom message skipped]\r\n")
        assert used + len(body) <= 1000
        socket.create()
        exchange.control(socket.session, reqId=1, op="destroy", cause_code=-1, cause_message=long)
        assert socket.read_line() == f"END,-1,{long}"


@pytest.mark.conformance("destroy.LS_cause_code.invalid")
def test_a_wrong_cause_code_is_error_65_naming_it(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        for value in ("x", "1.5", "--1"):
            (line,) = exchange.control(stream.session, reqId=1, op="destroy", cause_code=value)
            assert line.startswith(f"REQERR,1,65,LS_cause_code={value}")


@pytest.mark.conformance("destroy.LS_close_socket")
def test_a_destruction_closes_the_connection_on_request(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        exchange.control(stream.session, reqId=1, op="destroy", close_socket=True)
        assert stream.read_line().startswith("END,31,")
        assert stream.http.is_closed()
        socket.create()
        socket.send("control", params(reqId=1, op="destroy", close_socket=True))
        assert set(tags([socket.read_line(), socket.read_line()])) == {"END", "REQOK"}
        assert close_code(socket) == 1000


@pytest.mark.conformance("destroy.LS_close_socket.omitted")
def test_a_destruction_leaves_the_connection_open_for_reuse(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        exchange.control(stream.session, reqId=1, op="destroy")
        stream.http.read_body()
        stream.http.post("create_session", create(polling=True))
        assert answer(stream.http)[0].startswith("CONOK,")
        socket.create()
        exchange.control(socket.session, reqId=1, op="destroy")
        assert socket.read_line().startswith("END,31,")
        assert socket.create()[0].startswith("CONOK,")
