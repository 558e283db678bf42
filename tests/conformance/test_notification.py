from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import HEAD, add, batch, bind, create, row
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags

# -- real-time updates -------------------------------------------------------------------------------------------------

# The ten fields of the specification's example, as events and as the lines they must become.
QUOTE = ("timestamp", "price", "change", "minimum", "maximum", "bid", "ask", "open", "close", "status")
FIRST = ("20:00:33", "3.04", "0.0", "2.41", "3.67", "3.03", "3.04", None, None, "")


def publish(server: BackgroundServer, event: Mapping[str, str | None]) -> None:
    server.call(server.adapter.publisher.update, "a", event)


@pytest.mark.conformance("notify.U")
def test_an_update_names_subscription_item_and_all_values_at_first(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(3, group="other a", schema=" ".join(QUOTE)))
        stream.read_until("CONF")
        publish(server, dict(zip(QUOTE, FIRST, strict=True)))
        assert stream.read_line() == "U,3,2,20:00:33|3.04|0.0|2.41|3.67|3.03|3.04|#|#|$"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        row(
            "notify.U.unchanged",
            {"timestamp": "20:00:54", "price": "3.07", "change": "0.98", "bid": "3.06", "ask": "3.07", "status": "S"},
            "20:00:54|3.07|0.98|||3.06|3.07|||S",
        ),
        row("notify.U.null", {"price": None}, "|#|^8"),
        row("notify.U.empty", {"price": "", "status": "S"}, "|$|^7|S"),
        row("notify.U.run", {"timestamp": "20:04:40", "bid": "3.02", "ask": "3.03"}, "20:04:40|^4|3.02|3.03|||"),
        row("notify.U.run.last", {"timestamp": "20:06:10", "price": "3.05", "change": "1"}, "20:06:10|3.05|1|^7"),
        row("notify.U.from-null", {"open": "1", "close": "2"}, "^7|1|2|"),
    ],
)
def test_an_update_says_what_has_changed(
    server: BackgroundServer, exchange: Exchange, changes: dict[str, str | None], expected: str
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(schema=" ".join(QUOTE)))
        publish(server, dict(zip(QUOTE, FIRST, strict=True)))
        stream.read_until("U")
        publish(server, changes)
        assert stream.read_line() == f"U,1,1,{expected}"


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        row("notify.U.escape.pipe", "a|b", "a%7Cb"),
        row("notify.U.escape.percent", "100%41", "100%2541"),
        row("notify.U.escape.line-end", "a\r\nb", "a%0D%0Ab"),
        row("notify.U.escape.hash", "#a#", "%23a#"),
        row("notify.U.escape.dollar", "$", "%24"),
        row("notify.U.escape.caret", "^4", "%5E4"),
        row("notify.U.escape.caret-letter", "^Pa", "%5EPa"),
        row("notify.U.comma", "a,b,c", "a,b,c"),
        row("notify.U.utf-8", "naïve € 日本 😀", "naïve € 日本 😀"),
        row("notify.U.spaces", " a+b ", " a+b "),
    ],
)
def test_a_value_is_encoded(server: BackgroundServer, exchange: Exchange, value: str, encoded: str) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        socket.create()
        for session in (stream.session, socket.session):
            batch(exchange, session, add(schema="x y"))
        server.update("a", x=value, y=value)
        assert stream.read_until("U")[-1] == f"U,1,1,{encoded}|{encoded}"
        assert socket.read_until("U")[-1] == f"U,1,1,{encoded}|{encoded}"


@pytest.mark.conformance("notify.U.shared")
def test_clients_with_different_states_get_different_updates_of_one_event(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as early, exchange.stream() as late:
        batch(exchange, early.session, add(schema="x y"))
        early.read_until("CONF")
        server.update("a", x="1", y="1")
        assert early.read_line() == "U,1,1,1|1"
        batch(exchange, late.session, add(schema="x y"))
        late.read_until("CONF")
        server.update("a", y="2")
        assert early.read_line() == "U,1,1,|2"
        assert late.read_line() == "U,1,1,1|2"
        server.update("a", x="3")
        assert early.read_line() == late.read_line() == "U,1,1,3|"


# -- subscriptions -----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("notify.SUBOK")
def test_subok_tells_the_number_of_items_and_fields_before_any_update(
    server: BackgroundServer, exchange: Exchange
) -> None:
    server.adapter.state.update({"a": {"x": "1"}, "b": {"x": "2"}})
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(7, group="a b", schema="x y z", snapshot=True))
        lines = [stream.read_line() for _ in range(4)]
        assert lines == ["SUBOK,7,2,3", "CONF,7,unlimited,filtered", "U,7,1,1|#|#", "U,7,2,2|#|#"]


@pytest.mark.conformance("notify.UNSUB")
def test_unsub_is_the_last_notification_of_a_subscription(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("control", add(3), add(4))
        socket.read_until("CONF")
        socket.read_until("CONF")
        server.update("a", x="1")
        socket.send("control", params(reqId=5, op="delete", subId=3))
        lines = socket.read_until("UNSUB")
        assert lines[-1] == "UNSUB,3"
        server.update("a", x="2")
        assert socket.read_line() == "U,4,1,2"


@pytest.mark.conformance("notify.EOS")
def test_eos_ends_the_snapshot_of_a_distinct_item(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(3, mode="DISTINCT", group="a b", snapshot=True))
        stream.read_until("CONF")
        server.update("b", snapshot=True, x="1")
        server.call(server.adapter.publisher.end_of_snapshot, "b")
        server.update("b", x="2")
        assert [stream.read_line() for _ in range(3)] == ["U,3,2,1", "EOS,3,2", "U,3,2,2"]
        # A real-time event ends a snapshot of which the adapter says no more.
        server.update("a", x="3")
        assert [stream.read_line() for _ in range(2)] == ["EOS,3,1", "U,3,1,3"]


@pytest.mark.conformance("notify.EOS.not-in-MERGE")
def test_eos_is_not_sent_in_merge_and_raw_mode_nor_without_snapshot(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(1, snapshot=True), add(2, mode="RAW", snapshot=True))
        batch(exchange, stream.session, add(3, mode="DISTINCT", group="b"))
        for _ in range(3):
            stream.read_until("CONF")
        for item in ("a", "b"):
            server.update(item, snapshot=True, x="1")
            server.call(server.adapter.publisher.end_of_snapshot, item)
            server.update(item, x="2")
        assert sorted(stream.read_line() for _ in range(4)) == ["U,1,1,1", "U,1,1,2", "U,2,1,2", "U,3,1,2"]


@pytest.mark.parametrize(
    ("mode", "frequency"),
    [
        row("notify.OV", "RAW", "unlimited", config={"session.max_buffer_size": 3}),
        row("notify.OV.unfiltered", "MERGE", "unfiltered", config={"session.max_buffer_size": 3}),
        row("notify.OV.DISTINCT", "DISTINCT", "unfiltered", config={"session.max_buffer_size": 3}),
    ],
)
def test_overflow_tells_how_many_events_were_dropped(
    server: BackgroundServer, exchange: Exchange, mode: str, frequency: str
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(3, mode=mode, group="b a", requested_max_frequency=frequency))
        stream.read_until("CONF")
        exchange.control(stream.session, reqId=4, op="force_rebind")
        for number in range(8):
            server.update("a", x=str(number))
        lines = exchange.request("bind_session", params(session=stream.session, polling=True))
        assert lines[2:] == ["OV,3,2,5", "U,3,2,5", "U,3,2,6", "U,3,2,7", "LOOP,0"]


@pytest.mark.conformance("notify.OV.not-filtered")
@pytest.mark.config({"session.max_buffer_size": 3})
def test_overflow_is_not_told_where_dropping_was_agreed(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(1, group="a"), add(2, group="b", mode="DISTINCT"))
        exchange.control(stream.session, reqId=4, op="force_rebind")
        for number in range(8):
            server.update("a", x=str(number))
            server.update("b", x=str(number))
        lines = exchange.request("bind_session", params(session=stream.session, polling=True))
        assert "OV" not in tags(lines)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        row("notify.CONF", "3", "CONF,3,3.0,filtered"),
        row("notify.CONF.decimal", "0.25", "CONF,3,0.25,filtered"),
        row("notify.CONF.unlimited", "unlimited", "CONF,3,unlimited,filtered"),
        row("notify.CONF.unfiltered", "unfiltered", "CONF,3,unlimited,unfiltered"),
    ],
)
def test_conf_tells_frequency_and_filtering(exchange: Exchange, wish: str, expected: str) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(3, requested_max_frequency=wish))
        assert stream.read_until("CONF")[-1] == expected


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("notify.MSGDONE")
def test_msgdone_names_sequence_and_number(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, params(reqId=1, message="m", sequence="Orders", msg_prog=1), name="msg")
        batch(exchange, stream.session, params(reqId=2, message="m", msg_prog=1), name="msg")
        assert [stream.read_line(), stream.read_line()] == ["MSGDONE,Orders,1", "MSGDONE,*,1"]


@pytest.mark.conformance("notify.MSGFAIL")
def test_msgfail_names_sequence_number_code_and_message(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, params(reqId=1, message="refuse", sequence="Orders", msg_prog=1), name="msg")
        assert stream.read_line() == "MSGFAIL,Orders,1,34,refused%2C on purpose"
        batch(exchange, stream.session, params(reqId=2, message="refuse", msg_prog=1), name="msg")
        assert stream.read_line() == "MSGFAIL,*,1,34,refused%2C on purpose"
        # The sequence goes on after a failure.
        batch(exchange, stream.session, params(reqId=3, message="m", sequence="Orders", msg_prog=2), name="msg")
        assert stream.read_line() == "MSGDONE,Orders,2"


# -- the session -------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("notify.CONS")
def test_cons_tells_the_bandwidth_with_every_binding_and_every_change(exchange: Exchange) -> None:
    with exchange.stream(requested_max_bandwidth="50.50") as stream:
        assert stream.head[-1] == "CONS,50.5"
        exchange.control(stream.session, reqId=1, op="constrain", requested_max_bandwidth="unlimited")
        assert stream.read_line() == "CONS,unlimited"
        exchange.control(stream.session, reqId=1, op="constrain", requested_max_bandwidth="20")
        assert stream.read_line() == "CONS,20"
        with bind(exchange, stream.session) as again:
            assert again.head[-1] == "CONS,20"


@pytest.mark.conformance("notify.SYNC")
def test_sync_tells_the_seconds_since_the_binding(exchange: Exchange, clock: MovableClock) -> None:
    with exchange.stream(keepalive_millis=30_000) as stream, exchange.socket() as socket:
        socket.create(keepalive_millis=30_000)
        for seconds in ("10", "20", "30"):
            clock.advance(10)
            assert stream.read_line() == f"SYNC,{seconds}"
            assert socket.read_line() == f"SYNC,{seconds}"
        with bind(exchange, stream.session, keepalive_millis=30_000) as again:
            clock.advance(10)
            assert again.read_line() == "SYNC,10"


@pytest.mark.conformance("notify.SYNC.not-on-polls")
def test_neither_sync_nor_probe_is_sent_on_a_poll(exchange: Exchange, clock: MovableClock) -> None:
    session = exchange.request("create_session", create(polling=True))[0].split(",")[1]
    with bind(exchange, session, polling=True, idle_millis=25_000) as poll:
        clock.advance(12)
        clock.advance(12)
        clock.advance(2)
        assert poll.read_until("LOOP") == ["LOOP,0"]


@pytest.mark.conformance("notify.CLIENTIP")
def test_clientip_tells_the_address_once_and_again_when_it_has_changed(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        assert "CLIENTIP,127.0.0.1" in stream.head
        with bind(exchange, stream.session) as again:
            assert "CLIENTIP" not in tags(again.head)
        server.server.kernel.find_session(stream.session).announced_address = "192.0.2.7"
        # A binding that is refused tells nothing, and so does not count.
        refused = exchange.request("bind_session", params(session=stream.session, recovery_from=1_000))
        assert tags(refused) == ["CONERR"]
        with bind(exchange, stream.session) as again:
            assert "CLIENTIP,127.0.0.1" in again.head


@pytest.mark.conformance("notify.SERVNAME")
@pytest.mark.config({"server.name": "Weir, east"})
def test_servname_tells_the_configured_name(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        assert "SERVNAME,Weir%2C east" in stream.head
        assert "SERVNAME,Weir%2C east" in socket.create()


@pytest.mark.conformance("notify.SERVNAME.again")
@pytest.mark.config({"server.name": "Weir"})
def test_servname_is_told_again_when_a_binding_finds_another_name(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        with bind(exchange, stream.session) as again:
            assert "SERVNAME" not in tags(again.head)
        server.server.kernel.find_session(stream.session).announced_name = "Weir, east"
        with bind(exchange, stream.session) as again:
            assert "SERVNAME,Weir" in again.head


@pytest.mark.conformance("notify.PROG")
def test_prog_comes_before_any_data_and_only_on_a_recovery(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        server.update("a", x="1")
        stream.read_until("U")
        with bind(exchange, stream.session, recovery_from=1) as again:
            assert [again.read_line() for _ in range(3)] == ["PROG,1", "CONF,1,unlimited,filtered", "U,1,1,1"]
        lines = exchange.request("bind_session", params(session=stream.session, polling=True))
        assert "PROG" not in tags(lines)


@pytest.mark.conformance("notify.NOOP")
def test_noop_lines_fill_the_start_of_an_http_stream(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("create_session", create())
        http.read_head()
        lines = [http.read_line()]
        while not lines[-1].startswith("CONS"):
            lines.append(http.read_line())
        padding = [line for line in lines if line.startswith("NOOP,")]
        assert 2048 <= sum(len(line) + 2 for line in padding) < 2200
        assert set(padding) == {"NOOP,sending placeholder data"}


@pytest.mark.conformance("notify.NOOP.not-elsewhere")
def test_noop_is_not_sent_on_websockets_polls_and_short_streams(exchange: Exchange) -> None:
    with exchange.socket() as socket, exchange.http() as http:
        assert tags(socket.create()) == HEAD
        assert tags(exchange.request("create_session", create(polling=True))) == [*HEAD, "LOOP"]
        http.post("create_session", create(content_length=2000))
        http.read_head()
        assert tags(http.read_line() for _ in range(4)) == HEAD


@pytest.mark.conformance("notify.PROBE")
def test_probe_breaks_the_silence_of_a_stream(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream(send_sync=False) as stream, exchange.socket() as socket:
        socket.create(send_sync=False)
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        clock.advance(5)
        assert stream.read_line() == socket.read_line() == "PROBE"
        clock.advance(4)
        server.update("a", x="1")
        clock.advance(4)
        assert socket.read_line() == "PROBE"
        clock.advance(1.1)
        # The update was the last sign of life: five seconds after it, and not before, comes the next.
        assert [stream.read_line(), stream.read_line()] == ["U,1,1,1", "PROBE"]


@pytest.mark.conformance("notify.LOOP")
def test_loop_tells_when_to_bind_again(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        exchange.control(stream.session, reqId=1, op="force_rebind")
        assert stream.read_line() == "LOOP,0"
        request = params(session=stream.session, polling=True, polling_millis=5000)
        assert exchange.request("bind_session", request)[-1] == "LOOP,5000"


@pytest.mark.conformance("notify.END")
def test_end_tells_cause_and_message_and_is_the_last_line(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        socket.create()
        for session in (stream.session, socket.session):
            server.call(server.server.kernel.find_session(session).close, 32, "Closed by the operator")
        assert stream.http.read_body() == b"END,32,Closed by the operator\r\n"
        assert socket.read_line() == "END,32,Closed by the operator"
