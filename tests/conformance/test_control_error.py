from __future__ import annotations

import logging

import pytest

from penstock.adapters import Reason, Refusal
from penstock.kernel.ports import SessionFacts
from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import add, batch, logged_reason, row
from tests.conformance.test_message import msg
from tests.conformance.test_session_error import FOREIGN, UNKNOWN
from tests.support.background import BackgroundServer
from tests.support.push_lines import push
from tests.support.raw import Exchange, Socket, params
from tests.support.stand_in import StandIn

WELCOME = {"data_adapter": "STOCKS", "schema": "last_price"}


def refusal(exchange: Exchange, socket: Socket, request: str, name: str = "control") -> str:
    """The error line of a request, which must be the same over HTTP and WebSocket."""
    (line,) = batch(exchange, socket.session, request, name=name)
    socket.send(name, request)
    assert socket.read_line() == line
    return line


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        row("error.B.17", add(data_adapter="NONE"), "REQERR,1,17,Data Adapter not found"),
        row("error.B.19", params(reqId=1, op="delete", subId=5), "REQERR,1,19,LS_subId: Subscription 5 not found"),
        row("error.B.21", add(group="item1 nothing", **WELCOME), "REQERR,1,21,LS_group: STOCKS has no item nothing"),
        row("error.B.23", add(**{**WELCOME, "group": "item1", "schema": " "}), "REQERR,1,23,LS_schema: "),
        row("error.B.24", add(group="item1", **WELCOME, mode="DISTINCT"), "REQERR,1,24,Invalid mode for these items"),
        row("error.B.25", add(group="item1", **WELCOME, selector="s"), "REQERR,1,25,LS_selector: s is not a selector"),
        row("error.B.40", push("activate"), "REQERR,1,40,LS_op=activate: the MPN module is disabled"),
        row("error.B.65", add(mode="SIDEWAYS"), "REQERR,1,65,LS_mode=SIDEWAYS: expected one of RAW MERGE DISTINCT"),
        row("error.B.67", "LS_reqId=1&LS_op=%zz", "REQERR,1,67,Bad percent-encoding in the value of LS_op"),
    ],
)
def test_a_request_that_fails_is_answered_with_its_code(exchange: Exchange, request_line: str, expected: str) -> None:
    with exchange.socket() as socket:
        socket.create("WELCOME")
        assert refusal(exchange, socket, request_line).startswith(expected)


@pytest.mark.parametrize(
    ("request_line", "expected", "logged"),
    [
        row("error.B.17.literal", add(data_adapter="NONE"), "REQERR,1,17,Data Adapter not found", "NONE"),
        row(
            "error.B.24.literal",
            add(group="item1", **WELCOME, mode="DISTINCT"),
            "REQERR,1,24,Invalid mode for these items",
            "item1",
        ),
    ],
)
def test_the_text_is_the_one_that_published_suites_compare(
    exchange: Exchange, caplog: pytest.LogCaptureFixture, request_line: str, expected: str, logged: str
) -> None:
    with exchange.socket() as socket, caplog.at_level(logging.INFO):
        socket.create("WELCOME")
        assert refusal(exchange, socket, request_line) == expected
    assert logged in logged_reason(caplog)


@pytest.mark.conformance("error.B.3")
def test_a_session_of_another_protocol_version_cannot_be_controlled(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket("TLCP-2.5.0.lightstreamer.com") as socket:
        (line,) = exchange.request("control", f"LS_session={stream.session}&{add()}", "LS_protocol=TLCP-2.5.0")
        assert line.startswith("REQERR,1,3,LS_protocol")
        socket.send("control", f"LS_session={stream.session}&{add()}")
        assert socket.read_line() == line


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        row("error.B.11", FOREIGN, "REQERR,1,11,LS_session: The session belongs to another server instance"),
        row("error.B.20", UNKNOWN, "REQERR,1,20,LS_session: Specified session not found"),
    ],
)
def test_a_request_for_an_unknown_session_is_answered_with_its_code(
    exchange: Exchange, session: str, expected: str
) -> None:
    with exchange.socket() as socket:
        for name, request in (("control", add()), ("msg", msg(1))):
            assert exchange.request(name, f"LS_session={session}&{request}") == [expected]
            socket.send(name, f"LS_session={session}&{request}")
            assert socket.read_line() == expected


@pytest.mark.conformance("error.B.13")
def test_an_unfiltered_subscription_gets_no_frequency_limit(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("control", add(requested_max_frequency="unfiltered"))
        socket.read_until("CONF")
        for wish in ("2.0", "unlimited"):
            line = refusal(exchange, socket, params(reqId=2, op="reconf", subId=1, requested_max_frequency=wish))
            assert line.startswith("REQERR,2,13,LS_requested_max_frequency: ")


@pytest.mark.conformance("error.B.24.conflict")
def test_an_item_cannot_be_subscribed_in_two_modes_that_exclude_each_other(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, add(1, mode="MERGE"), add(2, mode="RAW")) == ["REQOK,1", "REQOK,2"]
        (line,) = batch(exchange, stream.session, add(3, group="b a", mode="DISTINCT"))
        assert line == "REQERR,3,24,Invalid mode for these items"


@pytest.mark.conformance("error.B.32")
def test_a_message_number_that_was_given_up_is_too_low(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("msg", msg(3, sequence="s", max_wait=0))
        socket.read_until("MSGDONE")
        line = refusal(exchange, socket, msg(2, sequence="s"), "msg")
        assert line.startswith("REQERR,2,32,LS_msg_prog: Message number 2 is too low")


@pytest.mark.conformance("error.B.33")
def test_a_message_number_that_was_used_is_a_duplicate(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("msg", msg(1), msg(2, sequence="s"))
        socket.read_until("MSGDONE")
        line = refusal(exchange, socket, msg(1), "msg")
        assert line == "REQERR,1,33,LS_msg_prog: Message number 1 is already enqueued"
        line = refusal(exchange, socket, msg(2, sequence="s"), "msg")
        assert line == "REQERR,2,33,LS_msg_prog: Message number 2 is already enqueued"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        row("error.B.34", "refuse", "MSGFAIL,*,1,34,refused%2C on purpose"),
        row("error.B.35", "crash", "MSGFAIL,*,1,35,The metadata adapter failed on this message"),
        row("error.B.negative.msg", "refuse with code", "MSGFAIL,*,1,-3,refused%2C on purpose"),
    ],
)
def test_a_message_that_fails_is_told_with_its_code(exchange: Exchange, text: str, expected: str) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, msg(1, message=text), name="msg") == ["REQOK,1"]
        assert stream.read_line() == expected


@pytest.mark.parametrize(
    ("arrived", "expected"),
    [
        row("error.B.38", 2, "MSGFAIL,s,1,38,The specified progressive number has been skipped by timeout"),
        row("error.B.39", 5, "MSGFAIL,s,4,39,4"),
    ],
)
def test_missing_messages_are_skipped_by_time_out(
    exchange: Exchange, clock: MovableClock, arrived: int, expected: str
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, msg(arrived, sequence="s", max_wait=500), name="msg")
        clock.advance(0.6)
        assert [stream.read_line(), stream.read_line()] == [expected, f"MSGDONE,s,{arrived}"]


@pytest.mark.conformance("error.B.66")
def test_an_adapter_that_breaks_down_over_a_subscription_is_error_66(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(server.metadata, "fields", broken)
    with exchange.stream() as stream:
        (line,) = batch(exchange, stream.session, add())
        assert line == "REQERR,1,66,The metadata adapter failed on this request"
        assert server.adapter.history == []


@pytest.mark.conformance("error.B.68")
def test_an_unexpected_error_is_answered_with_68_and_an_id_for_the_log(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    with exchange.stream() as stream:
        with monkeypatch.context() as patch:
            patch.setattr(server.server.tlcp.reception, "kernel", StandIn(server.server.kernel, feed=broken))
            lines = batch(exchange, stream.session, add(1), params(reqId=2, op="constrain"))
            assert lines[0].startswith("REQERR,1,68,Internal error ")
            assert "purpose" not in lines[0]
            assert lines[1] == "REQOK,2"
        assert batch(exchange, stream.session, add(1)) == ["REQOK,1"]


@pytest.mark.conformance("error.B.negative")
def test_a_code_of_the_metadata_adapter_goes_through(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def items(*_: object) -> None:
        raise Refusal(Reason.GROUP, "Not for you, today", code=-12)

    monkeypatch.setattr(server.metadata, "items", items)
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, add()) == ["REQERR,1,-12,Not for you%2C today"]


@pytest.mark.conformance("error.B.22")
def test_a_group_that_does_not_go_with_the_schema_is_error_22(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fields(session: SessionFacts, data_adapter: str, group: str, schema: str) -> list[str]:
        raise Refusal(Reason.GROUP_FOR_SCHEMA, f"{group} has no {schema}")

    monkeypatch.setattr(server.metadata, "fields", fields)
    with exchange.stream() as stream:
        (line,) = batch(exchange, stream.session, add())
        assert line == "REQERR,1,22,LS_schema: a has no x"
