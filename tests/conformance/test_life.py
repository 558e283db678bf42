from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import add, batch, bind, create
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags


@pytest.mark.conformance("life.unbound")
def test_notifications_are_kept_while_a_session_is_unbound_and_sent_when_it_is_bound(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(1, mode="RAW"), add(2))
        stream.read_until("CONF")
        stream.read_until("CONF")
        exchange.control(stream.session, reqId=3, op="force_rebind")
        for value in ("1", "2", "3"):
            server.update("a", x=value)
        batch(exchange, stream.session, params(reqId=4, message="m", msg_prog=1), name="msg")
        batch(exchange, stream.session, params(reqId=5, op="delete", subId=2), add(3, group="b"))
        lines = exchange.request("bind_session", params(session=stream.session, polling=True))
        assert lines[2:] == [
            "U,1,1,1",
            "U,1,1,2",
            "U,1,1,3",
            "MSGDONE,*,1",
            "UNSUB,2",
            "SUBOK,3,1,1",
            "CONF,3,unlimited,filtered",
            "LOOP,0",
        ]


@pytest.mark.conformance("life.conflation")
def test_merge_updates_of_an_unbound_session_are_conflated(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(schema="x y"))
        stream.read_until("CONF")
        server.update("a", x="1", y="1")
        assert stream.read_line() == "U,1,1,1|1"
        exchange.control(stream.session, reqId=3, op="force_rebind")
        for value in ("2", "3", "4"):
            server.update("a", x=value)
        lines = exchange.request("bind_session", params(session=stream.session, polling=True))
        assert lines[2:] == ["U,1,1,4|", "LOOP,0"]


@pytest.mark.conformance("life.time-out")
def test_a_session_that_nobody_binds_is_discarded(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        exchange.control(stream.session, reqId=2, op="force_rebind")
        clock.advance(9.9)
        assert server.adapter.subscribed == {"a"}
        clock.advance(0.2)
        assert server.adapter.subscribed == set()
        (line,) = exchange.request("bind_session", params(session=stream.session))
        assert line.startswith("CONERR,20,LS_session")


@pytest.mark.conformance("life.drop")
def test_a_session_whose_connection_broke_is_kept_for_recovery_and_then_discarded(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    sessions = server.server.kernel.sessions
    with exchange.stream() as stream, exchange.socket() as socket:
        socket.create()
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        stream.http.close()
        batch(exchange, socket.session, add(2))
        socket.read_until("CONF")
        # Until the server has noticed, updates go to the broken connection.
        while server.call(lambda: any(session.channel is None for session in sessions.values())) is False:
            server.update("a", x="lost?")
        clock.advance(12.9)
        assert server.call(len, sessions) == 2
        clock.advance(0.2)
        assert server.call(len, sessions) == 1


@pytest.mark.conformance("life.mixed.ws-stream")
def test_a_websocket_stream_is_controlled_over_http(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        assert exchange.request("control", f"LS_session={socket.session}&{add()}") == ["REQOK,1"]
        assert tags(socket.read_until("CONF")) == ["SUBOK", "CONF"]
        server.update("a", x="1")
        assert socket.read_line() == "U,1,1,1"
        assert exchange.control(socket.session, reqId=2, op="delete", subId=1) == ["REQOK,2"]
        assert socket.read_line() == "UNSUB,1"


@pytest.mark.conformance("life.mixed.http-stream")
def test_an_http_stream_is_controlled_over_a_websocket(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        socket.send("control", f"LS_session={stream.session}&{add()}")
        assert socket.read_line() == "REQOK,1"
        assert tags(stream.read_until("CONF")) == ["SUBOK", "CONF"]
        socket.send("msg", params(session=stream.session, reqId=2, message="m", msg_prog=1))
        assert socket.read_line() == "REQOK,2"
        assert stream.read_line() == "MSGDONE,*,1"


@pytest.mark.conformance("life.mixed.rebind")
def test_a_session_moves_between_transports_without_loss(server: BackgroundServer, exchange: Exchange) -> None:
    lines = exchange.request("create_session", f"{create(polling=True)}&{add(mode='RAW')}")
    session = lines[0].split(",")[1]
    with exchange.socket() as socket:
        server.update("a", x="1")
        socket.send("bind_session", params(session=session))
        assert socket.read_until("U")[-1] == "U,1,1,1"
        socket.send("control", params(reqId=2, op="force_rebind"))
        assert set(tags([socket.read_line(), socket.read_line()])) == {"LOOP", "REQOK"}
        server.update("a", x="2")
        with bind(exchange, session) as stream:
            assert stream.read_line() == "U,1,1,2"
            server.update("a", x="3")
            assert stream.read_line() == "U,1,1,3"


@pytest.mark.conformance("life.one-connection")
def test_a_session_bound_elsewhere_leaves_its_old_connection(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        socket.send("bind_session", params(session=stream.session))
        socket.read_until("CONS")
        assert stream.read_line().startswith("END,40,")
        server.update("a", x="1")
        assert socket.read_line() == "U,1,1,1"
        assert stream.http.is_closed()


@pytest.mark.conformance("life.http-loop")
def test_loop_ends_an_http_response_and_the_client_binds_on_any_connection(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        exchange.control(stream.session, reqId=1, op="force_rebind")
        assert stream.http.read_body() == b"LOOP,0\r\n"
        with bind(exchange, stream.session) as again:
            assert again.head[0].startswith(f"CONOK,{stream.session},")


@pytest.mark.conformance("life.ws-loop")
def test_loop_leaves_a_websocket_open_for_the_next_binding(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        for _ in range(3):
            exchange.control(socket.session, reqId=1, op="force_rebind")
            assert socket.read_line() == "LOOP,0"
            socket.send("bind_session", "")
            assert tags(socket.read_until("CONS")) == ["CONOK", "CONS"]


@pytest.mark.conformance("life.streaming-time")
@pytest.mark.config({"session.max_streaming_millis": 40})
def test_a_stream_connection_may_be_limited_in_time(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        socket.create()
        assert stream.read_line() == "LOOP,0"
        assert socket.read_line() == "LOOP,0"


@pytest.mark.conformance("life.two-subscriptions")
def test_subscriptions_of_a_session_come_and_go_independently(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(1, group="a"))
        stream.read_until("CONF")
        batch(exchange, stream.session, add(2, group="b"))
        stream.read_until("CONF")
        server.update("a", x="1")
        server.update("b", x="2")
        assert [stream.read_line(), stream.read_line()] == ["U,1,1,1", "U,2,1,2"]
        exchange.control(stream.session, reqId=3, op="delete", subId=2)
        assert stream.read_line() == "UNSUB,2"
        server.update("b", x="3")
        server.update("a", x="4")
        assert stream.read_line() == "U,1,1,4"


@pytest.mark.conformance("life.schema-change")
def test_a_client_changes_its_fields_by_subscribing_again(server: BackgroundServer, exchange: Exchange) -> None:
    server.adapter.state["a"] = {"x": "1", "y": "2"}
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(1, schema="x", snapshot=True))
        assert stream.read_until("U")[-1] == "U,1,1,1"
        exchange.control(stream.session, reqId=2, op="delete", subId=1)
        batch(exchange, stream.session, add(3, schema="y x", snapshot=True))
        assert stream.read_until("U") == ["UNSUB,1", "SUBOK,3,1,2", "CONF,3,unlimited,filtered", "U,3,1,2|1"]


# -- recovery ----------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("recovery.replay")
def test_every_point_that_is_kept_can_be_recovered_from_exactly(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode="RAW"))
        lines = stream.read_until("CONF")
        for value in ("1", "2", "3", "4"):
            server.update("a", x=value)
        lines += [stream.read_line() for _ in range(4)]
        stream.http.close()
        for point in (6, 0, 2, 5, 1):
            again = exchange.request(
                "bind_session", params(session=stream.session, recovery_from=point, polling=True, idle_millis=0)
            )
            assert again[1:] == ["CONS,unlimited", f"PROG,{point}", *lines[point:], "LOOP,0"]
            assert again[0].startswith("CONOK,")
            # What was replayed is kept on, until a binding without recovery confirms it.


@pytest.mark.conformance("recovery.counted")
def test_only_data_notifications_count(server: BackgroundServer, exchange: Exchange, clock: MovableClock) -> None:
    with exchange.socket() as socket:
        socket.create()
        clock.advance(5.1)
        clock.advance(5.1)
        socket.send("control", add(), params(reqId=2, op="constrain", requested_max_bandwidth="unlimited"))
        socket.send("msg", params(reqId=3, message="m", msg_prog=1), params(reqId=4, message="refuse", msg_prog=2))
        lines = socket.read_until("MSGFAIL")
        socket.send("control", params(reqId=5, op="delete", subId=1))
        lines += socket.read_until("UNSUB")
        assert {"PROBE", "SYNC", "CONS", "REQOK"} < set(tags(lines))
        counted = [tag for tag in tags(lines) if tag in ("SUBOK", "CONF", "U", "MSGDONE", "MSGFAIL", "UNSUB")]
        assert len(counted) == 5
        request = params(session=socket.session, recovery_from=5, polling=True)
        assert exchange.request("bind_session", request)[2:] == ["PROG,5", "LOOP,0"]
        request = params(session=socket.session, recovery_from=6, polling=True)
        assert exchange.request("bind_session", request)[0].startswith("CONERR,4,LS_recovery_from")


@pytest.mark.conformance("recovery.live-connection")
def test_recovery_needs_no_broken_connection_and_silences_the_old_one(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        server.update("a", x="1")
        with bind(exchange, stream.session, recovery_from=2) as again:
            assert [again.read_line(), again.read_line()] == ["PROG,2", "U,1,1,1"]
            assert tags(stream.read_until("END")) == ["U", "END"]
            server.update("a", x="2")
            assert again.read_line() == "U,1,1,2"


@pytest.mark.conformance("recovery.then-rebind")
def test_a_recovery_cut_short_by_its_length_goes_on_with_an_ordinary_binding(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode="RAW"))
        stream.read_until("CONF")
        for number in range(40):
            server.update("a", x=f"{number:050}")
        expected = [stream.read_line() for _ in range(40)]
        stream.http.close()
        request = params(session=stream.session, recovery_from=2, content_length=1200)
        found = exchange.request("bind_session", request)
        assert found[-1] == "LOOP,0"
        while len(updates := [line for line in found if line.startswith("U")]) < 40:
            request = params(session=stream.session, content_length=1200, polling=True)
            found += exchange.request("bind_session", request)
        assert updates == expected


@pytest.mark.conformance("recovery.confirmed")
def test_a_binding_without_recovery_confirms_all_that_was_sent(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        exchange.control(stream.session, reqId=2, op="force_rebind")
        exchange.request("bind_session", params(session=stream.session, polling=True))
        (line,) = exchange.request("bind_session", params(session=stream.session, recovery_from=1, polling=True))
        assert line.startswith("CONERR,4,LS_recovery_from")


@pytest.mark.conformance("recovery.size")
@pytest.mark.config({"session.max_recovery_length": 1000})
def test_what_is_kept_for_recovery_is_limited_in_size(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode="RAW"))
        stream.read_until("CONF")
        for number in range(40):
            server.update("a", x=f"{number:050}")
            stream.read_line()
        (line,) = exchange.request("bind_session", params(session=stream.session, recovery_from=3, polling=True))
        assert line.startswith("CONERR,4,LS_recovery_from")
        lines = exchange.request("bind_session", params(session=stream.session, recovery_from=40, polling=True))
        assert lines[2:] == ["PROG,40", f"U,1,1,{38:050}", f"U,1,1,{39:050}", "LOOP,0"]


@pytest.mark.conformance("recovery.age")
def test_what_is_kept_for_recovery_is_limited_in_time(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        clock.advance(61)
        server.update("a", x="1")
        stream.read_until("U")
        (line,) = exchange.request("bind_session", params(session=stream.session, recovery_from=1, polling=True))
        assert line.startswith("CONERR,4,LS_recovery_from")
        lines = exchange.request("bind_session", params(session=stream.session, recovery_from=2, polling=True))
        assert lines[2:] == ["PROG,2", "U,1,1,1", "LOOP,0"]
