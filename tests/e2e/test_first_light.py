from __future__ import annotations

from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags


def test_a_subscription_over_http_streams_snapshot_and_updates(server: BackgroundServer) -> None:
    exchange = Exchange(server.host, server.port)
    server.adapter.state["a"] = {"x": "1", "y": None}
    with exchange.stream() as stream:
        assert tags(stream.head) == ["CONOK", "SERVNAME", "CLIENTIP", "CONS"]
        answer = exchange.control(
            stream.session, reqId=1, op="add", subId=1, group="a", schema="x y", mode="MERGE", snapshot=True
        )
        assert answer == ["REQOK,1"]
        assert stream.read_until("U") == ["SUBOK,1,1,2", "CONF,1,unlimited,filtered", "U,1,1,1|#"]
        server.update("a", y="two")
        assert stream.read_line() == "U,1,1,|two"


def test_a_subscription_over_websocket_streams_snapshot_and_updates(server: BackgroundServer) -> None:
    server.adapter.state["a"] = {"x": "1", "y": None}
    with Exchange(server.host, server.port).socket() as socket:
        socket.send("wsok")
        assert socket.read_line() == "WSOK"
        assert tags(socket.create()) == ["CONOK", "SERVNAME", "CLIENTIP", "CONS"]
        socket.send("control", params(reqId=1, op="add", subId=1, group="a", schema="x y", mode="MERGE", snapshot=True))
        assert socket.read_until("U") == ["REQOK,1", "SUBOK,1,1,2", "CONF,1,unlimited,filtered", "U,1,1,1|#"]
        server.update("a", y="two")
        assert socket.read_line() == "U,1,1,|two"
