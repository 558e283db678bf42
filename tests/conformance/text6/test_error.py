from __future__ import annotations

import pytest

from penstock.adapters import Reason, Refusal
from penstock.doors.gate import BlockKey, BlockScope
from tests.conformance.phrases import row
from tests.conformance.text6.conftest import StrictMetadata
from tests.conformance.text6.phrases import OK, SYNC_ERROR, Device, creation, error, table
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params
from tests.support.stand_in import StandIn

WELCOME = {"data_adapter": "STOCKS", "schema": "last_price"}


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        row("text6.error.1", creation(user="nobody"), 1, "User/password check failed"),
        row(
            "text6.error.2",
            creation(adapter_set="NONE"),
            2,
            "LS_adapter_set: Requested Adapter Set not available: NONE",
        ),
        row("text6.error.10", creation(user="away"), 10, "The user store is away"),
        row("text6.error.negative.create", creation(user="custom"), -7, "Come back, tomorrow"),
    ],
)
def test_a_creation_that_fails_is_answered_with_its_code(device: Device, line: str, code: int, message: str) -> None:
    assert device.ask("create_session", line) == error(code, message)


@pytest.mark.conformance("text6.error.3")
def test_a_session_of_tlcp_cannot_be_addressed_in_this_protocol(exchange: Exchange, device: Device) -> None:
    expected = error(3, "LS_session: The session was opened with TLCP")
    with exchange.stream() as stream:
        assert device.ask("bind_session", params(session=stream.session)) == expected
        assert device.add(stream.session) == expected
        for operation in ("start", "delete", "reconf"):
            assert device.control(stream.session, op=operation, table=1) == expected
        for operation in ("constrain", "force_rebind", "destroy"):
            assert device.control(stream.session, op=operation) == expected
        assert device.message(stream.session, message="m") == expected
        assert device.message(stream.session, message="m", sequence="s", msg_prog=1) == expected
        assert exchange.control(stream.session, reqId=1, op="constrain") == ["REQOK,1"]


@pytest.mark.conformance("text6.error.3.reverse")
def test_a_session_of_this_protocol_cannot_be_addressed_in_tlcp(
    server: BackgroundServer, exchange: Exchange, device: Device
) -> None:
    with device.create() as tap, exchange.socket() as socket:
        (line,) = exchange.request("bind_session", params(session=tap.session))
        assert line.startswith("CONERR,3,")
        control = params(session=tap.session, reqId=1, op="destroy")
        message = params(session=tap.session, reqId=1, message="m", outcome=False)
        for name, request in (("control", control), ("msg", message)):
            (line,) = exchange.request(name, request)
            assert line.startswith("REQERR,1,3,")
            socket.send(name, request)
            assert socket.read_line() == line
        assert server.metadata.messages == []
        assert device.control(tap.session, op="constrain") == OK


@pytest.mark.conformance("text6.error.8")
@pytest.mark.config({"limits.max_sessions": 2})
def test_one_session_more_than_configured_is_error_8_whatever_the_protocol(exchange: Exchange, device: Device) -> None:
    with device.create(), exchange.stream():
        expected = error(8, "Configured maximum number of sessions reached: 2")
        assert device.ask("create_session", creation()) == expected


@pytest.mark.conformance("text6.error.9")
@pytest.mark.config({"limits.max_memory_bytes": 1_000_000})
def test_a_server_with_too_high_a_load_is_error_9(device: Device) -> None:
    expected = error(9, "Configured maximum memory of the server reached: 1000000 bytes")
    assert device.ask("create_session", creation()) == expected


@pytest.mark.conformance("text6.error.10.blocked")
def test_new_sessions_that_an_administrator_blocks_are_error_10(server: BackgroundServer, device: Device) -> None:
    server.call(server.server.gate.blocks.__setitem__, BlockKey(BlockScope.ALL), "root")
    assert device.ask("create_session", creation()) == error(10, "New sessions temporarily blocked")
    server.call(server.server.gate.blocks.clear)
    device.create().http.close()


@pytest.mark.conformance("text6.error.8.address")
@pytest.mark.config({"limits.sessions_per_address": 1})
def test_one_session_more_from_an_address_than_configured_is_error_8(device: Device) -> None:
    with device.create() as tap:
        expected = error(8, "Configured maximum number of sessions per address reached: 1")
        assert device.ask("create_session", creation()) == expected
        device.control(tap.session, op="destroy")
        device.create().http.close()


@pytest.mark.conformance("text6.error.13")
def test_an_unfiltered_table_gets_no_frequency_limit(device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, requested_max_frequency="unfiltered")
        for wish in (0, 2):
            answer = device.control(tap.session, op="reconf", table=1, requested_max_frequency=wish)
            assert answer == error(
                13,
                "LS_requested_max_frequency: Subscription 1 is unfiltered; its frequency cannot be limited",
            )


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        row("text6.error.17", table(data_adapter="NONE"), 17, "LS_data_adapter: NONE is not a data adapter of set"),
        row("text6.error.19.start", params(op="start", table=5), 19, "LS_table: Subscription 5 not found"),
        row("text6.error.19.delete", params(op="delete", table=5), 19, "LS_table: Subscription 5 not found"),
        row("text6.error.19.reconf", params(op="reconf", table=5), 19, "LS_table: Subscription 5 not found"),
        row("text6.error.21", table(id="item1 nothing", **WELCOME), 21, "LS_id: STOCKS has no item nothing"),
        row("text6.error.23", table(id="item1", data_adapter="STOCKS", schema=" "), 23, "LS_schema: "),
        row("text6.error.24", table(id="item1", mode="DISTINCT", **WELCOME), 24, "LS_mode: Mode DISTINCT is not"),
        row("text6.error.25", table(id="item1", selector="s", **WELCOME), 25, "LS_selector: s is not a selector"),
    ],
)
def test_a_control_request_that_fails_is_answered_with_its_code(
    device: Device, line: str, code: int, message: str
) -> None:
    with device.create(adapter_set="WELCOME") as tap:
        answer = device.ask("control", f"LS_session={tap.session}&{line}")
        assert answer.startswith(f"ERROR\r\n{code}\r\n{message}")
        assert answer.count("\r\n") == 3


@pytest.mark.conformance("text6.error.22")
def test_a_group_that_does_not_go_with_the_schema_is_error_22(
    server: BackgroundServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fields(*_: object) -> None:
        raise Refusal(Reason.GROUP_FOR_SCHEMA, "a has no field x")

    monkeypatch.setattr(server.metadata, "fields", fields)
    with device.create() as tap:
        assert device.add(tap.session) == error(22, "LS_schema: a has no field x")


@pytest.mark.parametrize(
    ("schema", "missing"),
    [row("text6.error.23.key", "command x", "key"), row("text6.error.23.command", "key x", "command")],
)
def test_a_schema_without_what_command_mode_needs_is_error_23(device: Device, schema: str, missing: str) -> None:
    with device.create() as tap:
        answer = device.add(tap.session, mode="COMMAND", schema=schema)
        assert answer == error(23, f"LS_schema: COMMAND mode needs a field named {missing}")


@pytest.mark.parametrize(
    ("item", "code", "reason"),
    [
        row("text6.error.26", "limited", 26, "is limited to 2 updates/s; it cannot be unfiltered"),
        row("text6.error.27", "prefiltered", 27, "is prefiltered; it cannot be unfiltered"),
    ],
)
def test_an_item_with_a_limit_cannot_be_unfiltered(device: Device, item: str, code: int, reason: str) -> None:
    with device.create() as tap:
        answer = device.add(tap.session, id=item, requested_max_frequency="unfiltered")
        assert answer == error(code, f"LS_requested_max_frequency: Item {item} {reason}")


@pytest.mark.conformance("text6.error.32")
def test_a_message_number_that_was_given_up_is_too_low(device: Device) -> None:
    with device.create() as tap:
        device.message(tap.session, message="m", sequence="s", msg_prog=3, max_wait=0)
        assert tap.read(2)[1] == "MSG,s,3,DONE"
        answer = device.message(tap.session, message="m", sequence="s", msg_prog=2)
        assert answer.startswith("ERROR\r\n32\r\nLS_msg_prog: Message number 2 is too low")


@pytest.mark.conformance("text6.error.33")
def test_a_message_number_that_was_used_is_a_duplicate(device: Device) -> None:
    with device.create() as tap:
        for number in (1, 3):
            assert device.message(tap.session, message="m", sequence="s", msg_prog=number) == OK
            answer = device.message(tap.session, message="m", sequence="s", msg_prog=number)
            assert answer == error(33, f"LS_msg_prog: Message number {number} is already enqueued")


@pytest.mark.conformance("text6.error.negative.add")
def test_a_code_of_the_metadata_adapter_goes_through(
    server: BackgroundServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def items(*_: object) -> None:
        raise Refusal(Reason.GROUP, "Not for you,\r\nÄnne", code=-12)

    monkeypatch.setattr(server.metadata, "items", items)
    with device.create() as tap:
        # One line of ASCII, whatever the adapter says.
        assert device.add(tap.session) == error(-12, "Not for you,\\u000D\\u000A\\u00C4nne")


@pytest.mark.conformance("text6.answer.OK")
def test_success_is_one_line(device: Device) -> None:
    with device.create() as tap:
        assert device.add(tap.session) == "OK\r\n"
        assert device.message(tap.session, message="m") == "OK\r\n"


@pytest.mark.conformance("text6.answer.ERROR")
def test_a_refusal_is_three_lines(device: Device) -> None:
    with device.create() as tap:
        answer = device.control(tap.session, op="delete", table=4)
        assert answer == "ERROR\r\n19\r\nLS_table: Subscription 4 not found\r\n"
    assert device.ask("create_session", creation(user="custom")) == "ERROR\r\n-7\r\nCome back, tomorrow\r\n"


@pytest.mark.conformance("text6.answer.SYNC")
def test_a_session_that_nobody_knows_is_a_sync_error_without_a_code(device: Device) -> None:
    assert device.add("S0") == SYNC_ERROR
    assert device.message("S0", message="m") == SYNC_ERROR
    assert device.ask("bind_session", "LS_session=S0") == SYNC_ERROR


@pytest.mark.conformance("text6.answer.HTML")
@pytest.mark.config({"stream.doors": ["tlcp"]})
def test_a_port_without_the_text_mode_answers_with_a_page(server: BackgroundServer, exchange: Exchange) -> None:
    for name in ("create_session", "bind_session", "control", "send_message"):
        with exchange.http() as http:
            http.post(name, creation(), query="")
            assert http.read_head() == 404
            assert http.headers["content-type"] == "text/html; charset=utf-8"
            assert b"<p>The text protocol is not served at this port." in http.read_body()
    assert server.metadata.clients == []


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        row("text6.answer.500.encoding", "control", "LS_op=%zz", "Bad percent-encoding in the value of LS_op"),
        row("text6.answer.500.twice", "control", "LS_op=add&LS_op=add", "Parameter LS_op is given twice"),
        row("text6.answer.500.garbage", "bind_session", "gibberish", ""),
        row("text6.answer.500.authentication", "create_session", creation(user="crash"), "The metadata adapter failed"),
    ],
)
def test_what_has_no_code_is_http_error_500_with_a_line_that_says_why(
    device: Device, name: str, line: str, message: str
) -> None:
    text = device.fail(name, line)
    assert text.startswith(message)
    assert text.endswith("\n")
    assert len(text) > 10


@pytest.mark.conformance("text6.answer.500.unexpected")
def test_an_unexpected_error_is_http_error_500_with_an_id_for_the_log(
    server: BackgroundServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    with device.create() as tap:
        with monkeypatch.context() as patch:
            patch.setattr(server.server.tlcp.reception, "kernel", StandIn(server.server.kernel, feed=broken))
            text = device.fail("control", f"LS_session={tap.session}&{table()}")
        assert text.startswith("Internal error ")
        assert "purpose" not in text
        assert device.add(tap.session) == OK


@pytest.mark.conformance("text6.create.8.closed")
def test_a_session_that_is_closed_before_it_is_bound_is_error_8(strict: tuple[Device, StrictMetadata]) -> None:
    device, metadata = strict
    metadata.sessions_per_user = 0
    answer = device.ask("create_session", creation(user="anna"))
    assert answer == "ERROR\r\n8\r\nThe session was closed before it was bound\r\n"
    device.create().http.close()


@pytest.mark.conformance("text6.answer.500.adapter")
def test_a_metadata_adapter_that_breaks_down_over_a_subscription_is_http_error_500(
    server: BackgroundServer, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(server.metadata, "fields", broken)
    with device.create() as tap:
        text = device.fail("control", f"LS_session={tap.session}&{table()}")
        assert text == "The metadata adapter failed on this request\n"
        assert server.adapter.history == []
