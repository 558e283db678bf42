from __future__ import annotations

import logging
import time

import pytest

from penstock.doors.gate import BlockKey, BlockScope
from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import add, batch, create, logged_reason, row
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags
from tests.support.stand_in import StandIn

# Well-formed identifiers: of a session that never was, and of a session of another server.
UNKNOWN = "S" + "0123456789abcdef" * 3 + "Tpenstock"
FOREIGN = "S" + "0123456789abcdef" * 3 + "Telsewhere"


def refusal(exchange: Exchange, name: str, body: str, protocol: str = "TLCP-2.4.0") -> str:
    """The CONERR line of a request, which must be the same over HTTP and WebSocket."""
    (line,) = exchange.request(name, body, f"LS_protocol={protocol}")
    with exchange.socket(f"{protocol}.lightstreamer.com") as socket:
        socket.connection.send(f"{name}\r\n{body}")
        assert socket.read_line() == line
    return line


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        row("error.A.1", create(user="nobody"), "CONERR,1,User/password check failed"),
        row("error.A.2", create(adapter_set="NONE"), "CONERR,2,Requested Adapter Set not available"),
        row("error.A.5", create(user="slow", ttl_millis=30), "CONERR,5,No answer within LS_ttl_millis=30"),
        row("error.A.6", create(user="away"), "CONERR,6,The user store is away"),
        row("error.A.64", f"{create()}&{add(schema=' ')}", "CONERR,64,Error 23 in the control request: LS_schema"),
        row("error.A.65", create(polling="maybe"), "CONERR,65,LS_polling=maybe: expected true or false"),
        row("error.A.66", create(user="crash"), "CONERR,66,The metadata adapter failed on this request"),
        row("error.A.67", f"{create()}&LS_user=a&LS_user=b", "CONERR,67,Parameter LS_user is given twice"),
        row("error.A.negative", create(user="custom"), "CONERR,-7,Come back%2C tomorrow"),
    ],
)
def test_a_creation_that_fails_is_answered_with_its_code(exchange: Exchange, body: str, expected: str) -> None:
    assert refusal(exchange, "create_session", body).startswith(expected)


@pytest.mark.conformance("error.A.2.literal")
def test_the_text_of_a_missing_adapter_set_is_the_one_that_published_suites_compare(
    exchange: Exchange, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        line = refusal(exchange, "create_session", create(adapter_set="NONE"))
    assert line == "CONERR,2,Requested Adapter Set not available"
    assert "NONE" in logged_reason(caplog)


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        row("error.A.20", UNKNOWN, "CONERR,20,LS_session: Specified session not found"),
        row("error.A.20.garbage", "nonsense", "CONERR,20,LS_session: Specified session not found"),
        row("error.A.21", FOREIGN, "CONERR,21,LS_session: The session belongs to another server instance"),
    ],
)
def test_a_binding_of_an_unknown_session_is_answered_with_its_code(
    exchange: Exchange, session: str, expected: str
) -> None:
    assert refusal(exchange, "bind_session", params(session=session)) == expected


@pytest.mark.conformance("error.A.20.lost")
@pytest.mark.config({"server.foreign_sessions": "lost"})
def test_a_session_of_another_node_counts_as_lost_where_that_is_configured(
    exchange: Exchange, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        line = refusal(exchange, "bind_session", params(session=FOREIGN))
        assert line == "CONERR,20,LS_session: The session was lost with its node"
        expected = ["REQERR,1,20,LS_session: The session was lost with its node"]
        assert exchange.control(FOREIGN, reqId=1, op="constrain") == expected
    (record,) = [record for record in caplog.records if "another node" in record.getMessage()]
    # Not the identifier itself, which would let others in.
    assert record.__dict__["fields"] == {"node": "elsewhere"}


@pytest.mark.conformance("error.A.20.guess")
def test_a_session_id_that_differs_in_its_secret_is_unknown(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        head, node = stream.session[:-9], stream.session[-9:]
        changed = ("0" if head[-1] != "0" else "1").join((head[:-1], node))
        line = refusal(exchange, "bind_session", params(session=changed))
        assert line == "CONERR,20,LS_session: Specified session not found"
        assert exchange.control(changed, reqId=1, op="destroy")[0].startswith("REQERR,1,20,LS_session")


@pytest.mark.conformance("error.A.3")
def test_a_session_of_another_protocol_version_cannot_be_bound(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket("TLCP-2.5.0.lightstreamer.com") as socket:
        socket.create()
        line = refusal(exchange, "bind_session", params(session=stream.session), "TLCP-2.5.0")
        assert line.startswith("CONERR,3,LS_protocol")
        line = refusal(exchange, "bind_session", params(session=socket.session), "TLCP-2.4.0")
        assert line.startswith("CONERR,3,LS_protocol")
        # It would take differences for values.
        line = refusal(exchange, "bind_session", params(session=stream.session), "TLCP-2.3.0")
        assert line.startswith("CONERR,3,LS_protocol")
        with exchange.socket("TLCP-2.0.0.lightstreamer.com") as old:
            old.create(polling=True)
            lines = exchange.request(
                "bind_session", params(session=old.session, polling=True), "LS_protocol=TLCP-2.3.0"
            )
            assert tags(lines) == ["CONOK", "CONS", "LOOP"]


@pytest.mark.conformance("error.A.4")
def test_a_recovery_that_is_not_possible_is_refused_and_changes_nothing(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        line = refusal(exchange, "bind_session", params(session=stream.session, recovery_from=3))
        assert line.startswith("CONERR,4,LS_recovery_from: Recovery from 3 is not possible")
        server.update("a", x="1")
        assert stream.read_line() == "U,1,1,1"


@pytest.mark.conformance("error.A.8")
@pytest.mark.config({"limits.max_sessions": 2})
def test_more_sessions_than_configured_are_refused(exchange: Exchange) -> None:
    with exchange.stream(), exchange.stream() as stream:
        line = refusal(exchange, "create_session", create())
        assert line == "CONERR,8,Configured maximum number of sessions reached: 2"
        exchange.control(stream.session, reqId=1, op="destroy")
        assert exchange.request("create_session", create(polling=True))[0].startswith("CONOK,")


@pytest.mark.conformance("error.A.8.per-address")
@pytest.mark.config({"limits.sessions_per_address": 2})
def test_more_sessions_of_one_address_than_configured_are_refused(exchange: Exchange) -> None:
    with exchange.stream(), exchange.stream() as stream:
        line = refusal(exchange, "create_session", create())
        assert line == "CONERR,8,Configured maximum number of sessions per address reached: 2"
        exchange.control(stream.session, reqId=1, op="destroy")
        assert exchange.request("create_session", create(polling=True))[0].startswith("CONOK,")


@pytest.mark.conformance("error.A.5.lag")
@pytest.mark.config({"limits.max_lag_millis": 60_000})
def test_a_server_whose_loop_was_late_refuses_new_sessions(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exchange.stream() as stream:
        # As if it had not turned for so long.
        monkeypatch.setattr(server.server.gate, "_clock", lambda: time.monotonic() + 100)
        line = refusal(exchange, "create_session", create())
        assert line == "CONERR,5,Configured maximum lag of the server reached: 60000 ms"
        assert exchange.control(stream.session, reqId=1, op="constrain") == ["REQOK,1"]


@pytest.mark.conformance("error.A.9")
@pytest.mark.config({"limits.max_memory_bytes": 1_000_000})
def test_a_server_with_too_much_memory_refuses_new_sessions(exchange: Exchange) -> None:
    line = refusal(exchange, "create_session", create())
    assert line == "CONERR,9,Configured maximum memory of the server reached: 1000000 bytes"


@pytest.mark.parametrize(
    ("key", "body"),
    [
        row("error.A.10", BlockKey(BlockScope.ALL), create()),
        row("error.A.10.adapter-set", BlockKey(BlockScope.ADAPTER_SET, "TEST"), create()),
        row("error.A.10.user", BlockKey(BlockScope.USER, "ann"), create(user="ann")),
    ],
)
def test_new_sessions_are_refused_while_an_administrator_blocks_them(
    server: BackgroundServer, exchange: Exchange, key: BlockKey, body: str
) -> None:
    with exchange.stream(user="ann") as stream:
        server.call(server.server.gate.blocks.__setitem__, key, "root")
        assert refusal(exchange, "create_session", body) == "CONERR,10,New sessions temporarily blocked"
        assert exchange.control(stream.session, reqId=1, op="constrain") == ["REQOK,1"]
        server.call(server.server.gate.blocks.pop, key)
        assert exchange.request("create_session", f"{body}&LS_polling=true")[0].startswith("CONOK,")


@pytest.mark.conformance("error.A.31")
def test_a_destroyed_session_ends_with_31(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        exchange.control(stream.session, reqId=1, op="destroy")
        assert stream.read_line() == "END,31,Destroy invoked by client"


@pytest.mark.conformance("error.A.31.unbound")
def test_a_session_destroyed_while_unbound_answers_its_binding_with_end(exchange: Exchange) -> None:
    session = exchange.request("create_session", create(polling=True))[0].split(",")[1]
    assert exchange.control(session, reqId=1, op="destroy") == ["REQOK,1"]
    assert exchange.request("bind_session", params(session=session)) == ["END,31,Destroy invoked by client"]
    assert exchange.control(session, reqId=2, op="destroy")[0].startswith("REQERR,2,20,LS_session")


@pytest.mark.conformance("error.A.32")
def test_a_session_closed_by_the_server_ends_with_32(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        server.call(server.server.kernel.find_session(stream.session).close, 32, "Closed by the operator")
        assert stream.read_line() == "END,32,Closed by the operator"


@pytest.mark.conformance("error.A.33")
@pytest.mark.config({"session.max_unbound_notifications": 5})
def test_a_session_that_cannot_be_kept_ends_with_33(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        exchange.control(stream.session, reqId=1, op="force_rebind")
        batch(exchange, stream.session, *(add(number) for number in range(1, 5)))
        assert exchange.request("bind_session", params(session=stream.session)) == [
            "END,33,Too many notifications are waiting for this session"
        ]


@pytest.mark.conformance("error.A.40")
def test_a_session_bound_elsewhere_ends_its_old_connection_with_40(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        socket.send("bind_session", params(session=stream.session))
        socket.read_until("CONS")
        assert stream.read_line() == "END,40,The session has been bound to another connection"
        lines = exchange.request("bind_session", params(session=stream.session, polling=True))
        assert lines[-1] == "LOOP,0"
        assert socket.read_line() == "END,40,The session has been bound to another connection"


@pytest.mark.conformance("error.A.48")
@pytest.mark.config({"session.max_session_duration_minutes": 3})
def test_a_session_that_has_lasted_too_long_ends_with_48(exchange: Exchange, clock: MovableClock) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        socket.create()
        clock.advance(179)
        exchange.control(stream.session, reqId=1, op="constrain")
        clock.advance(1.1)
        expected = "END,48,The maximum session duration has been reached"
        assert stream.read_until("END")[-1] == expected
        assert socket.read_until("END")[-1] == expected


@pytest.mark.conformance("error.A.68")
def test_an_unexpected_error_is_answered_with_68_and_an_id_for_the_log(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    with monkeypatch.context() as patch:
        patch.setattr(server.server.tlcp.reception, "kernel", StandIn(server.server.kernel, open_session=broken))
        (line,) = exchange.request("create_session", create())
        assert line.startswith("CONERR,68,Internal error ")
        assert "purpose" not in line
    assert exchange.request("create_session", create(polling=True))[0].startswith("CONOK,")


@pytest.mark.conformance("error.A.70")
@pytest.mark.config({"stream.new_sessions": False})
def test_a_port_that_opens_no_sessions_says_so(server: BackgroundServer, exchange: Exchange) -> None:
    assert refusal(exchange, "create_session", create()) == "CONERR,70,Sessions cannot be opened at this port"
    assert server.metadata.clients == []
    # All other requests are served.
    assert refusal(exchange, "bind_session", params(session=UNKNOWN)).startswith("CONERR,20,")


@pytest.mark.conformance("error.A.71")
@pytest.mark.config({"stream.doors": ["text6"]})
def test_a_port_without_tlcp_says_so(server: BackgroundServer, exchange: Exchange) -> None:
    for name, body in (("create_session", create()), ("bind_session", params(session=UNKNOWN))):
        assert refusal(exchange, name, body) == "CONERR,71,TLCP clients are not served at this port"
    assert server.metadata.clients == []


@pytest.mark.conformance("error.A.69")
def test_a_websocket_that_streams_takes_no_second_session(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        other = exchange.request("create_session", create(polling=True))[0].split(",")[1]
        for name, body in (
            ("create_session", create()),
            ("bind_session", params(session=other)),
            ("bind_session", params(session=socket.session)),
            ("bind_session", "LS_polling=true"),
        ):
            socket.send(name, body)
            assert socket.read_line() == "CONERR,69,A session is already bound to this WebSocket"
        socket.send("control", add())
        assert socket.read_until("SUBOK") == ["REQOK,1", "SUBOK,1,1,1"]


@pytest.mark.conformance("error.A.35")
def test_one_session_more_than_a_user_may_have_ends_the_oldest_with_35(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.metadata, "sessions_per_user", 1)
    with exchange.stream(user="anna") as first, exchange.stream(user="bert") as other:
        with exchange.stream(user="anna") as second:
            assert first.read_until("END")[-1] == "END,35,Another session has been opened for this user"
            exchange.control(other.session, reqId=1, op="destroy")
            assert other.read_until("END")[-1].startswith("END,31,")
        with exchange.stream(user="anna") as third:
            assert third.head[0].startswith("CONOK,")
        assert second.session != third.session
    monkeypatch.setattr(server.metadata, "sessions_per_user", 0)
    (line,) = exchange.request("create_session", create(user="anna"))
    assert line == "CONERR,8,The session was closed before it was bound"
