"""Requests that are no TLCP: each gets the documented error, over HTTP and WebSocket, and spoils no other."""

from __future__ import annotations

import pytest

from tests.support.background import BackgroundServer
from tests.support.hostile import ADD, FORGETFUL, SESSION
from tests.support.push_lines import push
from tests.support.raw import Exchange, params
from tests.support.witness import Witness

pytestmark = pytest.mark.config(FORGETFUL)

# Request name, parameter line, and the start of the answer.
WRONG: list[tuple[str, str, str]] = [
    ("create_session", "x", "CONERR,67,"),
    ("create_session", "LS_user=%zz", "CONERR,67,"),
    ("create_session", "LS_user=%FF", "CONERR,67,"),
    ("create_session", "LS_user=a&LS_user=b", "CONERR,67,"),
    ("create_session", "LS_adapter_set=NOWHERE", "CONERR,2,"),
    ("create_session", f"LS_adapter_set={'x' * 20_000}", "CONERR,2,"),
    ("create_session", "LS_adapter_set=%00%0D%0A", "CONERR,2,"),
    ("create_session", "LS_adapter_set=TEST&LS_user=nobody", "CONERR,1,"),
    ("create_session", "LS_adapter_set=TEST&LS_polling=maybe", "CONERR,65,LS_polling"),
    ("create_session", "LS_adapter_set=TEST&LS_keepalive_millis=-1", "CONERR,65,LS_keepalive_millis"),
    ("create_session", f"LS_adapter_set=TEST&LS_content_length={'9' * 5000}", "CONERR,65,LS_content_length"),
    ("create_session", "LS_adapter_set=TEST&LS_requested_max_bandwidth=NaN", "CONERR,65,LS_requested_max_bandwidth"),
    ("create_session", "LS_adapter_set=TEST&LS_op=explode", "CONERR,64,"),
    ("create_session", "LS_adapter_set=TEST\r\nnonsense", "CONERR,64,"),
    ("create_session", "LS_adapter_set=TEST\nLS_op=add", "CONERR,67,"),
    ("bind_session", "", "CONERR,65,LS_session"),
    ("bind_session", SESSION, "CONERR,20,"),
    ("bind_session", "LS_session=%00", "CONERR,20,"),
    ("bind_session", f"LS_session={'S' * 20_000}", "CONERR,20,"),
    ("bind_session", f"{SESSION}&LS_recovery_from=x", "CONERR,65,LS_recovery_from"),
    ("bind_session", f"{SESSION}\r\n{SESSION}", "CONERR,67,"),
    ("control", "", "ERROR,65,LS_reqId"),
    ("control", "&&&", "ERROR,65,LS_reqId"),
    ("control", "&=&", "ERROR,67,"),
    ("control", "LS_reqId=1", "REQERR,1,65,LS_op"),
    ("control", "LS_reqId=1&LS_op=explode", "REQERR,1,65,LS_op=explode"),
    ("control", "LS_reqId=1&LS_op=register", "REQERR,1,65,PN_type "),
    ("control", push("register") + "&LS_session=S1", "REQERR,1,20,"),
    ("control", "LS_reqId=a%0D%0Ab&LS_op=destroy", "ERROR,65,LS_reqId"),
    ("control", ADD, "REQERR,1,20,"),
    ("control", ADD.replace("MERGE", "JOIN"), "REQERR,1,65,LS_mode=JOIN"),
    ("control", ADD.replace("subId=1", "subId=one"), "REQERR,1,65,LS_subId=one"),
    ("control", f"{ADD}&LS_snapshot=5", "REQERR,1,65,LS_snapshot=5"),
    ("msg", f"{SESSION}&LS_reqId=1", "REQERR,1,65,LS_message"),
    ("msg", f"{SESSION}&LS_reqId=1&LS_message=m", "REQERR,1,65,LS_msg_prog"),
    ("msg", f"{SESSION}&LS_reqId=1&LS_message=m&LS_msg_prog=0", "REQERR,1,65,LS_msg_prog=0"),
    ("msg", f"{SESSION}&LS_reqId=1&LS_message=m&LS_msg_prog=1&LS_sequence=a-b", "REQERR,1,65,LS_sequence=a-b"),
    ("heartbeat", "nonsense", "ERROR,67,"),
    ("heartbeat", "LS_session=%", "ERROR,67,"),
    ("explode", "LS_reqId=1", "ERROR,67,"),
    ("Control", "LS_reqId=1", "ERROR,67,"),
]


def test_wrong_requests_over_http_get_the_documented_error(server: BackgroundServer, witness: Witness) -> None:
    for name, body, expected in WRONG:
        (line,) = Exchange(server.host, server.port).request(name, body)
        assert line.startswith(expected), (name, body)
        assert len(line) < 400


def test_wrong_requests_over_websocket_get_the_same_and_the_socket_goes_on(
    server: BackgroundServer, witness: Witness
) -> None:
    with Exchange(server.host, server.port).socket() as socket:
        for name, body, expected in WRONG:
            socket.connection.send(f"{name}\r\n{body}")
            line = socket.read_line()
            if "LS_session" not in body and expected == "CONERR,65,LS_session":
                expected = "CONERR,"
            assert line.startswith(expected), (name, body)
        for message in (
            "",
            "\r\n",
            "\0",
            "control",
            "control\n" + ADD,
            "x" * 40_000,
            "é" * 10_000,
            "\ufeffwsok",
            "WSOK",
        ):
            socket.connection.send(message)
            assert socket.read_line().startswith("ERROR,6"), message[:20]
        socket.send("wsok")
        assert socket.read_line() == "WSOK"


def test_one_wrong_line_of_a_batch_spoils_no_other(server: BackgroundServer, witness: Witness) -> None:
    exchange = Exchange(server.host, server.port)
    with exchange.stream(send_sync=False) as stream:
        good = params(op="constrain", requested_max_bandwidth=10)
        wrong = ["", "x", "LS_reqId=9", "%", "LS_reqId=9&LS_op=%FF", f"LS_reqId=9&{good}\n"]
        batch = []
        for number, line in enumerate(wrong):
            batch += [f"LS_reqId={number}&{good}", line]
        query = f"LS_protocol=TLCP-2.4.0&LS_session={stream.session}"
        answers = exchange.request("control", "\r\n".join(batch), query)
        assert [line for line in answers if line.startswith("REQOK")] == [f"REQOK,{number}" for number in range(6)]
        assert len([line for line in answers if line.startswith(("ERROR", "REQERR"))]) == len(wrong)


@pytest.mark.parametrize(
    "query",
    [
        "LS_protocol=",
        "LS_protocol=TLCP-1.0.0",
        "LS_protocol=TLCP-2.4.0&LS_protocol=TLCP-2.4.0",
        "LS_protocol=TLCP-2.4.0&x",
        "LS_protocol=TLCP-2.4.0&%",
        "LS_protocol=%FF",
    ],
)
def test_a_wrong_query_string_is_answered(server: BackgroundServer, witness: Witness, query: str) -> None:
    for name, tag in (
        ("create_session", "CONERR"),
        ("bind_session", "CONERR"),
        ("control", "ERROR"),
        ("heartbeat", "ERROR"),
    ):
        (line,) = Exchange(server.host, server.port).request(name, "", query)
        assert line.startswith((f"{tag},65,", f"{tag},67,")), line
