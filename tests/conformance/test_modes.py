"""The modes, buffers and differences of chapters 2 and 3 that need more than one event to show."""

from __future__ import annotations

import json

import pytest

from tests.conformance.phrases import add, batch, row
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, Stream

TABLE = {"group": "table", "schema": "key command qty", "mode": "COMMAND"}


def subscribe(exchange: Exchange, stream: Stream, **parameters: object) -> list[str]:
    """Subscribe; the lines up to CONF."""
    assert batch(exchange, stream.session, add(**parameters)) == ["REQOK,1"]
    return stream.read_until("CONF")


@pytest.mark.conformance("notify.SUBCMD")
def test_subcmd_tells_where_key_and_command_are(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        lines = subscribe(exchange, stream, **TABLE, snapshot=True)
        assert lines == ["SUBCMD,1,1,3,1,2", "CONF,1,unlimited,filtered"]


@pytest.mark.conformance("add.LS_mode.COMMAND")
def test_command_mode_keeps_a_table_of_rows(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as first, exchange.stream() as second:
        subscribe(exchange, first, **TABLE)
        server.update("table", key="a", command="ADD", qty="1")
        server.update("table", key="b", command="ADD", qty="2")
        server.update("table", key="a", command="UPDATE", qty="3")
        server.update("table", key="b", command="DELETE")
        lines = [first.read_line() for _ in range(4)]
        assert lines == ["U,1,1,a|ADD|1", "U,1,1,b||2", "U,1,1,a|UPDATE|3", "U,1,1,b|DELETE|#"]
        # A newcomer gets the shortest way to the table as it is, then the end of the snapshot.
        subscribe(exchange, second, **TABLE, snapshot=True)
        assert second.read_until("EOS") == ["U,1,1,a|ADD|3", "EOS,1,1"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        row("error.B.15", "command qty", "REQERR,1,15,LS_schema: COMMAND mode needs a field named key"),
        row("error.B.16", "key qty", "REQERR,1,16,LS_schema: COMMAND mode needs a field named command"),
    ],
)
def test_command_mode_needs_its_two_fields(exchange: Exchange, schema: str, expected: str) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, add(group="table", schema=schema, mode="COMMAND")) == [expected]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        row("error.B.26", "limited", "REQERR,1,26,LS_requested_max_frequency: Item limited is limited to 2 updates/s"),
        row("error.B.27", "prefiltered", "REQERR,1,27,LS_requested_max_frequency: Item prefiltered is prefiltered"),
    ],
)
def test_items_with_a_limit_cannot_be_unfiltered(exchange: Exchange, item: str, expected: str) -> None:
    with exchange.stream() as stream:
        (line,) = batch(exchange, stream.session, add(group=item, requested_max_frequency="unfiltered"))
        assert line.startswith(expected)


@pytest.mark.conformance("notify.CS")
def test_a_cleared_snapshot_is_told(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        subscribe(exchange, stream, **TABLE)
        server.update("table", key="a", command="ADD", qty="1")
        for feed in server.adapter.publishers:
            server.call(feed.clear_snapshot, "table")
        assert stream.read_until("CS") == ["U,1,1,a|ADD|1", "CS,1,1"]


@pytest.mark.conformance("add.LS_requested_buffer_size.effect")
def test_a_larger_buffer_absorbs_a_burst(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        subscribe(exchange, stream, group="a", schema="x", requested_buffer_size=2, requested_max_frequency=5)
        for number in range(5):
            server.update("a", x=str(number))
        # The first goes at once; of the others the buffer keeps the last two.
        assert [stream.read_line() for _ in range(3)] == ["U,1,1,0", "U,1,1,3", "U,1,1,4"]


@pytest.mark.conformance("notify.U.diff.P")
@pytest.mark.config({"session.default_diff_order": "P"})
def test_a_json_value_is_sent_as_a_patch(server: BackgroundServer, exchange: Exchange) -> None:
    document = {"name": "pump 7", "speed": 1, "notes": ["a long note about this pump"] * 5}
    with exchange.stream() as stream:
        subscribe(exchange, stream, group="a", schema="x")
        server.update("a", x=json.dumps(document))
        server.update("a", x=json.dumps({**document, "speed": 2}))
        assert json.loads(stream.read_line().removeprefix("U,1,1,")) == document
        assert stream.read_line() == 'U,1,1,^P[{"op":"replace","path":"/speed","value":2}]'


@pytest.mark.conformance("notify.U.diff.T")
@pytest.mark.config({"session.default_diff_order": "T"})
def test_a_long_text_is_sent_as_a_difference(server: BackgroundServer, exchange: Exchange) -> None:
    text = "The quick brown fox jumps over the lazy dog, again and again."
    with exchange.stream() as stream:
        subscribe(exchange, stream, group="a", schema="x")
        server.update("a", x=text)
        server.update("a", x=text.replace("brown", "red"))
        assert stream.read_line() == f"U,1,1,{text}"
        # Copy 10, add "red", delete 5, copy the remaining 46.
        assert stream.read_line() == "U,1,1,^TkdredfBu"


@pytest.mark.conformance("notify.CONS.unmanaged")
def test_a_client_that_may_not_limit_its_bandwidth_is_told_so(exchange: Exchange) -> None:
    with exchange.stream(user="unmanaged", requested_max_bandwidth=10) as stream:
        assert stream.head[-1] == "CONS,unmanaged"
        exchange.control(stream.session, reqId=1, op="constrain", requested_max_bandwidth=5)
        assert stream.read_line() == "CONS,unmanaged"
