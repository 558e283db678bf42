from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import add, batch, row, without
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags

ADD_INVALID = {
    "LS_subId": ("", "0", "-1", "one", "1.5"),
    "LS_mode": ("", "merge", "PLAID"),
    "LS_group": ("",),
    "LS_schema": ("",),
    "LS_requested_buffer_size": ("0", "-1", "big", "1.5"),
    "LS_requested_max_frequency": ("0", "-2", "often", "1e3", "1,5"),
    "LS_snapshot": ("yes", "3", "-1"),
    "LS_ack": ("0", "no"),
}
REQUIRED = ("LS_subId", "LS_group", "LS_schema", "LS_mode")


# -- add ---------------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("add.request")
def test_a_subscription_is_answered_announced_configured_and_fed(server: BackgroundServer, exchange: Exchange) -> None:
    server.adapter.state["a"] = {"x": "0"}
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, add(snapshot=True)) == ["REQOK,1"]
        assert stream.read_until("U") == ["SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,0"]
        server.update("a", x="1")
        assert stream.read_line() == "U,1,1,1"


@pytest.mark.conformance("add.LS_subId")
def test_a_subscription_number_is_unique_within_its_session(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.stream() as other:
        assert batch(exchange, stream.session, add(1)) == ["REQOK,1"]
        assert batch(exchange, stream.session, add(1)) == ["REQERR,1,65,LS_subId: Subscription number 1 is in use"]
        assert batch(exchange, other.session, add(1)) == ["REQOK,1"]
        batch(exchange, stream.session, params(reqId=2, op="delete", subId=1))
        assert batch(exchange, stream.session, add(1)) == ["REQOK,1"]


@pytest.mark.conformance("add.LS_data_adapter")
def test_the_data_adapter_is_chosen_by_name(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, add(data_adapter="PLAIN")) == ["REQOK,1"]
        assert server.plain.subscribed == {"a"}
        assert server.adapter.subscribed == set()


@pytest.mark.conformance("add.LS_data_adapter.omitted")
def test_without_a_data_adapter_the_one_named_default_is_meant(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, add()) == ["REQOK,1"]
    with exchange.stream("WELCOME") as stream:
        (line,) = batch(exchange, stream.session, add())
        assert line == "REQERR,1,17,Data Adapter not found"


@pytest.mark.conformance("add.LS_group")
def test_items_are_numbered_in_the_order_the_metadata_adapter_gives_them(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(group="b a c"))
        assert stream.read_until("CONF")[0] == "SUBOK,1,3,1"
        for item in ("a", "b", "c"):
            server.update(item, x=f"of {item}")
        assert [stream.read_line() for _ in range(3)] == ["U,1,2,of a", "U,1,1,of b", "U,1,3,of c"]


@pytest.mark.conformance("add.LS_group.no-items")
def test_a_group_without_items_is_subscribed_and_has_no_updates(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        command = add(2, group="empty", mode="COMMAND", schema="key command x", snapshot=True)
        limited = add(3, group="empty", mode="DISTINCT", requested_max_frequency=2)
        assert batch(exchange, stream.session, add(group="empty"), command, limited) == [
            "REQOK,1",
            "REQOK,2",
            "REQOK,3",
        ]
        assert [stream.read_line() for _ in range(6)] == [
            "SUBOK,1,0,1",
            "CONF,1,unlimited,filtered",
            "SUBCMD,2,0,3,1,2",
            "CONF,2,unlimited,filtered",
            "SUBOK,3,0,1",
            "CONF,3,2.0,filtered",
        ]
        assert server.adapter.subscribed == set()
        reconf = params(reqId=4, op="reconf", subId=1, requested_max_frequency="1.5")
        assert batch(exchange, stream.session, reconf, params(reqId=5, op="delete", subId=2)) == ["REQOK,4", "REQOK,5"]
        assert [stream.read_line(), stream.read_line()] == ["CONF,1,1.5,filtered", "UNSUB,2"]


@pytest.mark.conformance("add.LS_schema")
def test_values_come_in_the_order_of_the_schema(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(schema="z x"))
        assert stream.read_until("CONF")[0] == "SUBOK,1,1,2"
        server.update("a", x="1", y="2", z="3")
        assert stream.read_line() == "U,1,1,3|1"


@pytest.mark.conformance("add.LS_selector")
def test_a_selector_is_given_to_the_metadata_adapter_which_may_refuse_it(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        (line,) = batch(exchange, stream.session, add(selector="big ones"))
        assert line.startswith("REQERR,1,25,LS_selector: big ones")


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        row("add.LS_mode.RAW", "RAW", ["U,1,1,1|#", "U,1,1,#|2", "U,1,1,|"]),
        row("add.LS_mode.MERGE", "MERGE", ["U,1,1,1|#", "U,1,1,|2"]),
        row("add.LS_mode.DISTINCT", "DISTINCT", ["U,1,1,1|#", "U,1,1,#|2", "U,1,1,|"]),
    ],
)
def test_the_mode_says_what_an_event_means(
    server: BackgroundServer, exchange: Exchange, mode: str, lines: list[str]
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode=mode, schema="x y"))
        stream.read_until("CONF")
        server.update("a", x="1")
        server.update("a", y="2")
        server.update("a", y="2")
        assert [stream.read_line() for _ in lines] == lines


@pytest.mark.conformance("add.LS_requested_buffer_size")
def test_a_buffer_size_is_a_whole_number_or_unlimited(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        for number, size in enumerate(("1", "30", "9999999", "unlimited"), start=1):
            assert batch(exchange, stream.session, add(number, requested_buffer_size=size)) == [f"REQOK,{number}"]


@pytest.mark.conformance("add.LS_requested_max_frequency")
def test_a_frequency_limit_is_announced_and_conflates(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(requested_max_frequency="0.5"))
        assert stream.read_until("CONF")[-1] == "CONF,1,0.5,filtered"
        for value in ("1", "2", "3"):
            server.update("a", x=value)
        clock.advance(1.9)
        server.update("a", x="4")
        clock.advance(0.2)
        assert [stream.read_line(), stream.read_line()] == ["U,1,1,1", "U,1,1,4"]


@pytest.mark.conformance("add.LS_requested_max_frequency.unlimited")
def test_an_unlimited_frequency_is_the_default(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(1), add(2, requested_max_frequency="unlimited"))
        assert stream.read_until("CONF")[-1] == "CONF,1,unlimited,filtered"
        assert stream.read_until("CONF")[-1] == "CONF,2,unlimited,filtered"


@pytest.mark.conformance("add.LS_requested_max_frequency.unfiltered")
def test_unfiltered_dispatching_loses_nothing_while_there_is_room(server: BackgroundServer, exchange: Exchange) -> None:
    for mode in ("MERGE", "DISTINCT"):
        with exchange.stream() as stream:
            request = add(mode=mode, group=f"i-{mode}", requested_max_frequency="unfiltered")
            batch(exchange, stream.session, request)
            assert stream.read_until("CONF")[-1] == "CONF,1,unlimited,unfiltered"
            exchange.control(stream.session, reqId=2, op="force_rebind")
            for value in ("1", "2", "3"):
                server.update(f"i-{mode}", x=value)
            lines = exchange.request("bind_session", params(session=stream.session, polling=True))
            assert [line for line in lines if line[0] == "U"] == ["U,1,1,1", "U,1,1,2", "U,1,1,3"]


@pytest.mark.conformance("add.LS_requested_max_frequency.RAW")
def test_a_frequency_limit_means_nothing_in_raw_mode(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode="RAW", requested_max_frequency="0.001"))
        assert stream.read_until("CONF")[-1] == "CONF,1,unlimited,unfiltered"
        server.update("a", x="1")
        server.update("a", x="2")
        assert [stream.read_line(), stream.read_line()] == ["U,1,1,1", "U,1,1,2"]


@pytest.mark.parametrize(
    ("mode", "wish", "expected"),
    [
        row("add.LS_snapshot.MERGE", "MERGE", "true", ["U,1,1,old"]),
        row("add.LS_snapshot.RAW", "RAW", "true", []),
        row("add.LS_snapshot.false", "MERGE", "false", []),
        row("add.LS_snapshot.omitted", "MERGE", None, []),
    ],
)
def test_the_snapshot_is_sent_on_request(
    server: BackgroundServer, exchange: Exchange, mode: str, wish: str | None, expected: list[str]
) -> None:
    server.adapter.state["a"] = {"x": "old"}
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode=mode, **({} if wish is None else {"snapshot": wish})))
        stream.read_until("CONF")
        server.update("a", x="new")
        assert [stream.read_line() for _ in range(len(expected) + 1)] == [*expected, "U,1,1,new"]


@pytest.mark.conformance("add.LS_snapshot.second")
def test_a_later_subscription_gets_the_snapshot_as_it_is_by_then(server: BackgroundServer, exchange: Exchange) -> None:
    server.adapter.state["a"] = {"x": "old", "y": "1"}
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(schema="x y", snapshot=True))
        stream.read_until("U")
        server.update("a", x="new")
        batch(exchange, stream.session, add(2, schema="y x", snapshot=True), add(3, schema="y x"))
        server.update("a", y="2")
        lines = [line for line in (stream.read_line() for _ in range(9)) if line.startswith("U")]
        assert sorted(lines) == ["U,1,1,new|", "U,1,1,|2", "U,2,1,1|new", "U,2,1,2|", "U,3,1,2|new"]


@pytest.mark.conformance("add.LS_snapshot.DISTINCT")
def test_a_distinct_snapshot_is_as_long_as_asked_for_and_available(
    server: BackgroundServer, exchange: Exchange
) -> None:
    feed = server.adapter.publisher
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode="DISTINCT", snapshot=True))
        stream.read_until("CONF")
        for number in range(1, 4):
            server.call(feed.update, "a", {"x": str(number)}, True)
        server.call(feed.end_of_snapshot, "a")
        assert [stream.read_line() for _ in range(4)] == ["U,1,1,1", "U,1,1,2", "U,1,1,3", "EOS,1,1"]
        batch(exchange, stream.session, add(2, mode="DISTINCT", snapshot=2))
        assert stream.read_until("EOS")[2:] == ["U,2,1,2", "U,2,1,3", "EOS,2,1"]
        batch(exchange, stream.session, add(3, mode="DISTINCT", snapshot=99))
        assert stream.read_until("EOS")[2:] == ["U,3,1,1", "U,3,1,2", "U,3,1,3", "EOS,3,1"]
        batch(exchange, stream.session, add(4, mode="DISTINCT"))
        stream.read_until("CONF")
        server.update("a", x="4")
        assert sorted(stream.read_line() for _ in range(4)) == [f"U,{number},1,4" for number in (1, 2, 3, 4)]


@pytest.mark.conformance("add.LS_snapshot.DISTINCT.granted")
def test_a_distinct_snapshot_is_never_longer_than_allowed(server: BackgroundServer, exchange: Exchange) -> None:
    feed = server.adapter.publisher
    allowed = server.metadata.snapshot_length("DEFAULT", "a")
    assert isinstance(allowed, int)
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode="DISTINCT", snapshot=True))
        stream.read_until("CONF")
        for number in range(allowed + 3):
            server.call(feed.update, "a", {"x": str(number)}, True)
        server.call(feed.end_of_snapshot, "a")
        assert stream.read_until("EOS") == [*(f"U,1,1,{number}" for number in range(3, allowed + 3)), "EOS,1,1"]


@pytest.mark.conformance("add.LS_ack")
def test_an_acknowledgement_is_left_out_on_request_on_a_websocket_only(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("control", add(1, ack=False), add(2, ack=True), add(3, ack=False, mode="RED"))
        lines = socket.read_until("CONF") + socket.read_until("CONF")
        assert sorted(tags(lines)) == ["CONF", "CONF", "REQERR", "REQOK", "SUBOK", "SUBOK"]
        assert "REQOK,2" in lines
        assert batch(exchange, socket.session, add(4, ack=False)) == ["REQOK,4"]


@pytest.mark.parametrize("name", [row(f"add.{name}.invalid", name) for name in ADD_INVALID])
def test_a_wrong_value_is_error_65_naming_the_parameter(
    server: BackgroundServer, exchange: Exchange, name: str
) -> None:
    with exchange.stream() as stream:
        for value in ADD_INVALID[name]:
            (line,) = batch(exchange, stream.session, f"{without(add(), name)}&{name}={value}")
            assert line.startswith(f"REQERR,1,65,{name}")
        assert server.adapter.history == []


@pytest.mark.parametrize("name", [row(f"add.{name}.missing", name) for name in REQUIRED])
def test_a_missing_parameter_is_error_65_naming_it(exchange: Exchange, name: str) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, without(add(), name)) == [f"REQERR,1,65,{name} is missing"]


# -- delete ------------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("delete.request")
def test_after_an_unsubscription_no_update_follows(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(1), add(2))
        stream.read_until("CONF")
        stream.read_until("CONF")
        assert exchange.control(stream.session, reqId=9, op="delete", subId=1) == ["REQOK,9"]
        assert stream.read_line() == "UNSUB,1"
        server.update("a", x="1")
        assert stream.read_line() == "U,2,1,1"
        exchange.control(stream.session, reqId=10, op="delete", subId=2)
        assert stream.read_line() == "UNSUB,2"
        assert server.adapter.subscribed == set()


@pytest.mark.conformance("delete.LS_subId")
def test_only_a_subscription_of_the_session_can_be_deleted(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        (line,) = exchange.control(stream.session, reqId=1, op="delete", subId=7)
        assert line == "REQERR,1,19,LS_subId: Subscription 7 not found"
        assert exchange.control(stream.session, reqId=1, op="delete") == ["REQERR,1,65,LS_subId is missing"]
        (line,) = exchange.control(stream.session, reqId=1, op="delete", subId="x")
        assert line.startswith("REQERR,1,65,LS_subId=x")


@pytest.mark.conformance("delete.LS_ack")
def test_the_acknowledgement_of_an_unsubscription_is_left_out_on_request(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("control", add(1), add(2))
        socket.read_until("CONF")
        socket.read_until("CONF")
        socket.send("control", params(reqId=3, op="delete", subId=1, ack=False))
        assert socket.read_line() == "UNSUB,1"
        socket.send("control", params(reqId=4, op="delete", subId=1, ack=False))
        assert socket.read_line().startswith("REQERR,4,19,")
        assert exchange.control(socket.session, reqId=5, op="delete", subId=2, ack=False) == ["REQOK,5"]


# -- reconf ------------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("reconf.LS_requested_max_frequency")
def test_a_new_frequency_is_announced_before_it_holds(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        stream.read_until("CONF")
        request = {"op": "reconf", "subId": 1}
        assert exchange.control(stream.session, reqId=2, requested_max_frequency="2.0", **request) == ["REQOK,2"]
        assert stream.read_line() == "CONF,1,2.0,filtered"
        for value in ("1", "2", "3"):
            server.update("a", x=value)
        clock.advance(0.6)
        assert [stream.read_line(), stream.read_line()] == ["U,1,1,1", "U,1,1,3"]
        exchange.control(stream.session, reqId=3, requested_max_frequency="unlimited", **request)
        assert stream.read_line() == "CONF,1,unlimited,filtered"


@pytest.mark.conformance("reconf.LS_requested_max_frequency.omitted")
def test_without_a_new_frequency_nothing_changes_and_the_present_one_is_told(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(1, requested_max_frequency=3), add(2, requested_max_frequency="unfiltered"))
        stream.read_until("CONF")
        stream.read_until("CONF")
        assert exchange.control(stream.session, reqId=3, op="reconf", subId=1) == ["REQOK,3"]
        assert stream.read_line() == "CONF,1,3.0,filtered"
        assert exchange.control(stream.session, reqId=4, op="reconf", subId=2) == ["REQOK,4"]
        assert stream.read_line() == "CONF,2,unlimited,unfiltered"


@pytest.mark.conformance("reconf.LS_requested_max_frequency.RAW")
def test_a_new_frequency_is_not_considered_in_raw_mode(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add(mode="RAW"))
        stream.read_until("CONF")
        answers = exchange.control(stream.session, reqId=2, op="reconf", subId=1, requested_max_frequency=1)
        assert answers == ["REQOK,2"]
        assert stream.read_line() == "CONF,1,unlimited,unfiltered"


@pytest.mark.conformance("reconf.LS_requested_max_frequency.invalid")
def test_a_wrong_new_frequency_is_error_65_naming_it(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        batch(exchange, stream.session, add())
        for value in ("0", "-1", "unfiltered", "often"):
            (line,) = exchange.control(stream.session, reqId=2, op="reconf", subId=1, requested_max_frequency=value)
            assert line.startswith(f"REQERR,2,65,LS_requested_max_frequency={value}")


@pytest.mark.conformance("reconf.LS_subId")
def test_only_a_subscription_of_the_session_can_be_reconfigured(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        (line,) = exchange.control(stream.session, reqId=1, op="reconf", subId=7, requested_max_frequency=1)
        assert line == "REQERR,1,19,LS_subId: Subscription 7 not found"
        assert exchange.control(stream.session, reqId=1, op="reconf") == ["REQERR,1,65,LS_subId is missing"]
