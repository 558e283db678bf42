from __future__ import annotations

import pytest

from tests.conformance.phrases import HEAD, answer, create
from tests.support.raw import Exchange, params, tags


@pytest.mark.conformance("heartbeat.http")
def test_a_heartbeat_over_http_is_answered_without_identifier(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        assert exchange.request("heartbeat", params(session=stream.session)) == ["REQOK"]


@pytest.mark.conformance("heartbeat.ws")
def test_a_heartbeat_over_websocket_is_not_answered(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("heartbeat", params(session=socket.session))
        socket.connection.send("heartbeat\r\n\r\n")
        socket.send("wsok")
        assert socket.read_line() == "WSOK"


@pytest.mark.conformance("heartbeat.LS_session")
def test_the_session_of_a_heartbeat_is_optional_and_may_stand_in_the_query_string(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        query = f"LS_protocol=TLCP-2.4.0&LS_session={stream.session}"
        assert exchange.request("heartbeat", "\r\n", query) == ["REQOK"]
        assert exchange.request("heartbeat", "", query) == ["REQOK"]
        assert exchange.request("heartbeat", "") == ["REQOK"]


@pytest.mark.conformance("heartbeat.unknown-session")
def test_a_heartbeat_for_an_unknown_session_is_no_error(exchange: Exchange) -> None:
    assert exchange.request("heartbeat", "LS_session=gone") == ["REQOK"]
    with exchange.socket() as socket:
        socket.send("heartbeat", "LS_session=gone")
        socket.send("wsok")
        assert socket.read_line() == "WSOK"


@pytest.mark.conformance("heartbeat.error")
def test_a_heartbeat_that_cannot_be_read_is_answered_with_error_on_either_transport(exchange: Exchange) -> None:
    (line,) = exchange.request("heartbeat", "what")
    assert line.startswith("ERROR,67,")
    with exchange.socket() as socket:
        socket.send("heartbeat", "what")
        assert socket.read_line() == line


@pytest.mark.conformance("wsok.request", "response.WSOK")
def test_the_establishment_check_is_echoed_before_any_later_answer(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.send("wsok")
        socket.send("create_session", create())
        assert tags(socket.read_until("CONS")) == ["WSOK", *HEAD]
        socket.connection.send("wsok\r\n")
        assert socket.read_line() == "WSOK"


@pytest.mark.conformance("wsok.http")
def test_the_establishment_check_is_not_allowed_over_http(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("wsok")
        assert answer(http) == ["ERROR,67,wsok is allowed on a WebSocket only"]
