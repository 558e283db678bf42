from __future__ import annotations

import pytest

from tests.conformance.phrases import HEAD, add, answer, create, row, without
from tests.support.background import BackgroundServer
from tests.support.push_lines import push
from tests.support.raw import Exchange, Stream, params, tags


def line(subscription: int, **changes: object) -> str:
    """A subscription inside a combo request: without session and request id."""
    return without(add(subscription, **changes), "LS_reqId")


def sessions(server: BackgroundServer) -> int:
    return server.call(len, server.server.kernel.sessions)


# -- combo requests ----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("combo.single.http")
def test_a_session_is_created_with_its_first_subscription_over_http(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream(extra=f"&{line(1)}") as stream:
        assert tags(stream.head) == HEAD
        assert stream.read_until("CONF") == ["SUBOK,1,1,1", "CONF,1,unlimited,filtered"]
        server.update("a", x="1")
        assert stream.read_line() == "U,1,1,1"


@pytest.mark.conformance("combo.single.ws")
def test_a_session_is_created_with_its_first_subscription_over_websocket(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.send("create_session", f"{create()}&{line(1)}")
        lines = socket.read_until("CONF")
        assert tags(lines) == [*HEAD, "SUBOK", "CONF"]


@pytest.mark.conformance("combo.multiple.http")
def test_a_session_is_created_with_several_control_requests_over_http(exchange: Exchange) -> None:
    controls = [
        line(1),
        line(2, group="b c"),
        "LS_op=delete&LS_subId=1",
        "LS_op=constrain&LS_requested_max_bandwidth=9",
    ]
    with exchange.stream(extra="".join(f"\r\n{control}" for control in controls)) as stream:
        assert stream.head[-1] == "CONS,9"
        lines = stream.read_until("UNSUB")
        assert lines == [
            "SUBOK,1,1,1",
            "CONF,1,unlimited,filtered",
            "SUBOK,2,2,1",
            "CONF,2,unlimited,filtered",
            "UNSUB,1",
        ]


@pytest.mark.conformance("combo.multiple.ws")
def test_a_session_is_created_with_several_control_requests_over_websocket(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.send("create_session", create(), line(1), line(2))
        lines = socket.read_until("CONF") + socket.read_until("CONF")
        assert tags(lines) == [*HEAD, "SUBOK", "CONF", "SUBOK", "CONF"]


@pytest.mark.parametrize(
    ("controls", "named"),
    [
        row("combo.atomic.single", [line(1, data_adapter="NONE")], "Error 17 in the control request: Data Adapter not"),
        row("combo.atomic.second", [line(1), line(2, schema=" ")], "Error 23 in the control request: LS_schema"),
        row("combo.atomic.syntax", [line(1), line(2, mode="NO")], "Error 65 in the control request: LS_mode=NO"),
        row("combo.atomic.same-number", [line(1), line(1)], "Error 65 in the control request: LS_subId"),
        row(
            "combo.atomic.unknown-number", [line(1), "LS_op=delete&LS_subId=3"], "Error 19 in the control request: LS_"
        ),
        row("combo.mpn", [push("register", reqId=None)], "Error 40 in the control request: LS_op=register"),
        row("combo.no-messages", [line(1), "LS_message=hello"], "Error 65 in the control request: LS_op is missing"),
        row("combo.malformed", [line(1), "LS_op"], "Error 67 in the control request"),
        row("combo.destroy", [line(1), "LS_op=destroy"], "destroyed the session"),
    ],
)
def test_a_combo_request_that_fails_leaves_nothing_behind(
    server: BackgroundServer, exchange: Exchange, controls: list[str], named: str
) -> None:
    first, *others = controls
    single = f"{create()}&{first}" + "".join(f"\r\n{control}" for control in others)
    several = "\r\n".join([create(), *controls])
    with exchange.socket() as socket:
        for body in (single, several):
            (refused,) = exchange.request("create_session", body)
            assert refused.startswith("CONERR,64,")
            assert named in refused
            socket.connection.send(f"create_session\r\n{body}")
            assert socket.read_line() == refused
            assert server.adapter.subscribed == set()
            assert sessions(server) == 0
        # The socket has no session to default to.
        socket.send("control", params(reqId=1, op="constrain"))
        assert socket.read_line().startswith("REQERR,1,20,LS_session")


@pytest.mark.conformance("combo.create-fails")
def test_a_combo_request_whose_creation_fails_subscribes_nothing(server: BackgroundServer, exchange: Exchange) -> None:
    (refused,) = exchange.request("create_session", f"{create(user='nobody')}&{line(1)}")
    assert refused.startswith("CONERR,1,")
    assert server.adapter.history == []


# -- GET ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_name", "parameters", "expected"),
    [
        row("get.create_session", "create_session", "LS_adapter_set=TEST&LS_user=us%20er&LS_polling=true", "CONOK"),
        row("get.bind_session", "bind_session", "LS_session={session}&LS_polling=true", "CONOK"),
        row("get.control", "control", "LS_session={session}&" + add(), "REQOK,1"),
        row("get.msg", "msg", "LS_session={session}&LS_reqId=1&LS_message=caf%C3%A9&LS_outcome=false", "REQOK,1"),
        row("get.heartbeat", "heartbeat", "LS_session={session}", "REQOK"),
    ],
)
def test_every_request_can_be_sent_by_get(
    exchange: Exchange, request_name: str, parameters: str, expected: str
) -> None:
    session = exchange.request("create_session", create(polling=True))[0].split(",")[1]
    with exchange.http() as http:
        query = parameters.format(session=session)
        http.get(f"/lightstreamer/{request_name}.txt?LS_protocol=TLCP-2.4.0&{query}")
        assert answer(http)[0].startswith(expected)
        assert http.status == 200


@pytest.mark.conformance("get.combo")
def test_a_combo_request_with_one_control_can_be_sent_by_get(exchange: Exchange) -> None:
    http = exchange.http()
    http.get(f"/lightstreamer/create_session.txt?LS_protocol=TLCP-2.4.0&{create()}&{line(1)}")
    http.read_head()
    with Stream(http, http.read_until("CONS")) as stream:
        assert tags(stream.read_until("CONF")) == ["SUBOK", "CONF"]


@pytest.mark.conformance("get.length")
@pytest.mark.config({"limits.header_limit": 2000})
def test_a_query_string_is_limited_in_length(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.get("/lightstreamer/create_session.txt?LS_protocol=TLCP-2.4.0&LS_user=" + "u" * 2000)
        assert http.read_head() == 431
        assert "2000" in http.read_body().decode()
