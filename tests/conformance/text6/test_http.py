from __future__ import annotations

import pytest

from tests.conformance.phrases import row
from tests.conformance.text6.phrases import OK, Device, Tap, creation, table
from tests.support.background import BackgroundServer
from tests.support.raw import CID, Exchange, Http


@pytest.mark.parametrize(
    ("method", "version"),
    [
        row("text6.http.POST.1.1", "POST", "1.1"),
        row("text6.http.POST.1.0", "POST", "1.0"),
        row("text6.http.GET.1.1", "GET", "1.1"),
        row("text6.http.GET.1.0", "GET", "1.0"),
    ],
)
def test_every_request_is_served_whatever_the_form_of_http(
    server: BackgroundServer, exchange: Exchange, method: str, version: str
) -> None:
    device = Device(exchange, method, version)
    with device.create() as tap:
        assert device.add(tap.session) == OK
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"
        assert device.message(tap.session, message="m", sequence="s", msg_prog=1) == OK
        assert tap.read_line() == "MSG,s,1,DONE"
        assert device.message(tap.session, message="n") == OK
        assert server.metadata.messages == ["m", "n"]
        with device.rebind(tap) as again:
            server.update("a", x="2")
            assert again.read_line() == "1,1|2"
            assert device.control(tap.session, op="destroy") == OK
            assert again.read_rest() == "END 31\r\n"


@pytest.mark.conformance("text6.http.telnet")
def test_a_request_typed_by_hand_needs_neither_host_nor_any_other_header(exchange: Exchange) -> None:
    http = exchange.http()
    http.send(f"GET /lightstreamer/create_session.txt?{creation()} HTTP/1.0\r\n\r\n".encode())
    with Tap(http) as tap, exchange.http() as other:
        other.send(f"GET /lightstreamer/control.txt?LS_session={tap.session}&{table()} HTTP/1.0\r\n\r\n".encode())
        assert other.read_head() == 200
        assert other.read_body() == b"OK\r\n"
        assert other.is_closed()


@pytest.mark.conformance("text6.http.keep-alive")
def test_one_connection_carries_one_request_after_the_other(exchange: Exchange, device: Device) -> None:
    with device.create() as tap, exchange.http() as http:
        for number in (1, 2):
            http.post("control", f"LS_session={tap.session}&{table(number)}", query="")
            assert http.read_head() == 200
            assert http.read_body() == b"OK\r\n"


@pytest.mark.conformance("text6.http.query")
def test_parameters_of_the_query_string_hold_for_every_line_of_the_body(
    server: BackgroundServer, exchange: Exchange, device: Device
) -> None:
    with device.create() as tap, exchange.http() as http:
        http.post("control", f"{table(1)}\r\n{table(2, id='b')}", query=f"LS_session={tap.session}")
        assert http.read_head() == 200
        assert http.read_body() == b"OK\r\nOK\r\n"
        server.update("b", x="1")
        assert tap.read_line() == "2,1|1"


@pytest.mark.conformance("text6.http.encoding")
def test_values_are_percent_encoded_and_a_plus_is_a_space(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        request = f"LS_session={tap.session}&LS_op=add&LS_table=1&LS_mode=MERGE"
        assert device.ask("control", f"{request}&LS_id=%61+b&LS_schema=x%20y") == OK
        server.update("b", x="1", y="2")
        assert tap.read_line() == "1,2|1|2"
        assert device.message(tap.session, message="ünï€ & = + %") == OK
        assert server.metadata.messages == ["ünï€ & = + %"]


@pytest.mark.conformance("text6.http.empty-pair")
def test_an_empty_pair_is_nothing_wherever_it_stands(exchange: Exchange) -> None:
    http = exchange.http()
    http.post("create_session", f"&{creation()}&&", query="&")
    with Tap(http) as tap:
        with exchange.http() as other:
            other.post("control", f"{table(1)}&\r\n&&{table(2)}&", query=f"&LS_session={tap.session}&")
            assert other.read_head() == 200
            assert other.read_body() == b"OK\r\nOK\r\n"
        with exchange.http() as other:
            other.get(f"/lightstreamer/control.txt?LS_session={tap.session}&&LS_op=delete&LS_table=2&")
            assert other.read_head() == 200
            assert other.read_body() == b"OK\r\n"


@pytest.mark.conformance("text6.http.case")
def test_parameter_names_are_read_in_any_case(server: BackgroundServer, device: Device) -> None:
    server.adapter.state["a"] = {"x": "1"}
    with device.create() as tap:
        request = f"LS_Session={tap.session}&LS_Op=add&LS_Table=1&LS_Id=a&LS_Schema=x&LS_Mode=MERGE&LS_Snapshot=true"
        assert device.ask("control", request) == OK
        assert tap.read_line() == "1,1|1"
        text = device.fail("control", f"{request}&LS_table=2")
        assert "LS_table is given twice" in text


@pytest.mark.conformance("text6.http.type")
def test_answers_are_plain_text_that_nobody_keeps(exchange: Exchange, device: Device) -> None:
    def check(http: Http) -> None:
        assert http.headers["content-type"].startswith("text/plain")
        assert "no-store" in http.headers["cache-control"]

    with device.create() as tap, exchange.http() as http:
        check(tap.http)
        http.post("control", f"LS_session={tap.session}&{table()}", query="")
        http.read_head()
        check(http)
        assert http.read_body() == b"OK\r\n"
        http.post("control", "LS_op=none", query="")
        assert http.read_head() == 500
        check(http)


@pytest.mark.conformance("text6.http.protocol")
def test_ls_protocol_decides_in_the_query_string_and_nowhere_else(exchange: Exchange, device: Device) -> None:
    line = f"LS_adapter_set=TEST&LS_cid={CID}"
    text = device.fail("create_session", f"LS_op2=create&LS_protocol=TLCP-2.4.0&{line}")
    assert text == "LS_protocol=TLCP-2.4.0: expected only in the query string\n"
    assert exchange.request("create_session", f"{line}&LS_polling=true")[0].startswith("CONOK,")
    assert "LS_protocol" in device.fail("create_session", line)
