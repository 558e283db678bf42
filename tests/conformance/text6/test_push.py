from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import row
from tests.conformance.text6.conftest import StrictMetadata
from tests.conformance.text6.phrases import OK, Device
from tests.support.background import BackgroundServer
from tests.support.raw import params


@pytest.mark.conformance("text6.push.update")
def test_an_update_is_table_and_item_then_one_value_for_every_field(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, 12, id="a b", schema="last_price pct_change time")
        server.update("b", last_price="10.5", pct_change="+12.5%", time="12:55:56")
        server.update("b", last_price="10.4", pct_change="+12.4%", time="12:57:00")
        assert tap.read(2) == ["12,2|10.5|+12.5%|12:55:56", "12,2|10.4|+12.4%|12:57:00"]


@pytest.mark.conformance("text6.push.update.example")
def test_the_example_of_the_specification_is_sent_as_printed(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, schema="CATEGORY HEADLINE BODY")
        server.update("a", CATEGORY="SPORT", HEADLINE="ITALY WINS SOCCER WORLD CHAMPIONSHIPS", BODY="")
        server.update("a", HEADLINE='ZIDANE ELECTED "MVP"')
        assert tap.read(2) == [
            "1,1|SPORT|ITALY WINS SOCCER WORLD CHAMPIONSHIPS|$",
            "1,1||ZIDANE ELECTED \\u0022MVP\\u0022|",
        ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        row("text6.value.empty", "", "$"),
        row("text6.value.null", None, "#"),
        row("text6.value.dollar", "$5", "$$5"),
        row("text6.value.dollar.only", "$", "$$"),
        row("text6.value.hash", "#1", "##1"),
        row("text6.value.inside", "a$#b", "a$#b"),
        row("text6.value.pipe", "a|b", "a\\u007Cb"),
        row("text6.value.backslash", "a\\u0041", "a\\u005Cu0041"),
        row("text6.value.quotes", "'\"", "\\u0027\\u0022"),
        row("text6.value.line-ends", "a\r\nb", "a\\u000D\\u000Ab"),
        row("text6.value.control", "\x00\x7f", "\\u0000\\u007F"),
        row("text6.value.unicode", "Grüße €", "Gr\\u00FC\\u00DFe \\u20AC"),
        row("text6.value.surrogates", "a🚰b", "a\\uD83D\\uDEB0b"),
        row("text6.value.plain", "a,b%41+ ~!", "a,b%41+ ~!"),
    ],
)
def test_a_value_is_encoded_in_two_phases(
    server: BackgroundServer, device: Device, value: str | None, expected: str
) -> None:
    with device.create() as tap:
        device.add(tap.session, schema="x y")
        server.update("a", x=value, y="end")
        assert tap.read_line() == f"1,1|{expected}|end"


@pytest.mark.conformance("text6.value.unchanged")
def test_a_value_that_has_not_changed_is_empty(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, schema="x y z")
        server.update("a", x="1", y="", z=None)
        server.update("a", x="2")
        server.update("a", x="2", y=None, z="")
        server.update("a", x="3")
        assert tap.read(4) == ["1,1|1|$|#", "1,1|2||", "1,1||#|$", "1,1|3||"]


@pytest.mark.conformance("text6.value.whole")
@pytest.mark.config({"session.default_diff_order": "PT", "session.jsonpatch_min_length": 1})
def test_values_are_never_sent_as_differences(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session)
        for letter in "ab":
            server.update("a", x=letter + "-" * 200)
            assert tap.read_line() == f"1,1|{letter}" + "-" * 200


@pytest.mark.conformance("text6.push.EOS")
def test_the_end_of_a_snapshot_is_told_in_distinct_and_command_mode(server: BackgroundServer, device: Device) -> None:
    server.adapter.state["b"] = {"key": "k", "command": "ADD", "x": "1"}
    with device.create() as tap:
        device.add(tap.session, 1, mode="DISTINCT", snapshot=True)
        server.update("a", snapshot=True, x="1")
        server.call(server.adapter.end_of_snapshot, "a")
        assert tap.read(2) == ["1,1|1", "1,1,EOS"]
        device.add(tap.session, 2, id="b", mode="COMMAND", schema="key command x", snapshot=True)
        server.call(server.adapter.end_of_snapshot, "b")
        assert tap.read(2) == ["2,1|k|ADD|1", "2,1,EOS"]


@pytest.mark.conformance("text6.push.EOS.none")
def test_no_end_of_a_snapshot_is_told_where_none_was_asked_for_or_in_merge_mode(
    server: BackgroundServer, device: Device
) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, mode="DISTINCT")
        device.add(tap.session, 2, id="b", mode="MERGE", snapshot=True)
        for item in "ab":
            server.call(server.adapter.end_of_snapshot, item)
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"


@pytest.mark.conformance("text6.push.OV")
@pytest.mark.config({"session.max_buffer_size": 2})
def test_losses_are_told_with_their_number_where_losses_must_not_be(server: BackgroundServer, device: Device) -> None:
    with device.create(polling=True) as tap:
        device.add(tap.session, 1, mode="RAW")
        device.add(tap.session, 2, mode="MERGE", requested_max_frequency="unfiltered")
        device.add(tap.session, 3, mode="MERGE", requested_buffer_size=0)
        for number in range(12):
            server.update("a", x=str(number))
        with device.bind(tap.session, polling=True) as poll:
            lines = poll.read_rest().split("\r\n")
    assert [line for line in lines if line.startswith("1,")] == ["1,1,OV10", "1,1|10", "1,1|11"]
    assert [line for line in lines if line.startswith("2,")] == ["2,1,OV10", "2,1|10", "2,1|11"]
    assert [line for line in lines if line.startswith("3,")] == ["3,1|10", "3,1|11"]


@pytest.mark.conformance("text6.push.MSG.DONE")
def test_a_message_that_is_done_is_told_with_sequence_and_number(device: Device) -> None:
    with device.create() as tap:
        # The adapter answers "got m"; there is no place for that.
        device.message(tap.session, message="m", sequence="My_seq", msg_prog=1)
        assert tap.read_line() == "MSG,My_seq,1,DONE"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        row("text6.push.MSG.ERR.34", "refuse", "MSG,s,1,ERR,34,refused, on purpose"),
        row("text6.push.MSG.ERR.35", "crash", "MSG,s,1,ERR,35,The metadata adapter failed on this message"),
        row("text6.push.MSG.ERR.negative", "refuse with code", "MSG,s,1,ERR,-3,refused, on purpose"),
    ],
)
def test_a_message_that_fails_is_told_with_its_code(device: Device, text: str, expected: str) -> None:
    with device.create() as tap:
        assert device.message(tap.session, message=text, sequence="s", msg_prog=1) == OK
        assert tap.read_line() == expected


@pytest.mark.parametrize(
    ("arrived", "expected"),
    [
        row("text6.push.MSG.ERR.38", 2, "MSG,s,1,ERR,38,The specified progressive number has been skipped by timeout"),
        row("text6.push.MSG.ERR.39", 5, "MSG,s,4,ERR,39,4"),
    ],
)
def test_missing_messages_are_skipped_by_time_out(
    device: Device, clock: MovableClock, arrived: int, expected: str
) -> None:
    with device.create() as tap:
        device.message(tap.session, message="m", sequence="s", msg_prog=arrived, max_wait=500)
        clock.advance(0.6)
        assert tap.read(2) == [expected, f"MSG,s,{arrived},DONE"]


@pytest.mark.conformance("text6.push.PROBE")
def test_a_stream_with_nothing_to_say_sends_probes(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create(keepalive_millis=5000) as tap:
        clock.advance(5)
        clock.advance(5)
        device.add(tap.session)
        server.update("a", x="1")
        assert tap.read(3) == ["PROBE", "PROBE", "1,1|1"]


@pytest.mark.conformance("text6.push.LOOP")
def test_a_stream_that_is_used_up_ends_with_loop_alone(server: BackgroundServer, device: Device) -> None:
    with device.create(content_length=1000, polling_millis=5000) as tap:
        device.add(tap.session, mode="RAW")
        for letter in "abcdefghij":
            server.update("a", x=letter * 150)
        assert tap.read_rest().endswith("\r\nLOOP\r\n")
        assert device.control(tap.session, op="destroy") == OK


@pytest.mark.conformance("text6.push.LOOP.millis")
def test_a_poll_ends_with_loop_and_the_holding_time(device: Device) -> None:
    with device.create(polling=True, polling_millis=5000) as tap:
        assert tap.read_rest() == "LOOP 5000\r\n"


@pytest.mark.conformance("text6.push.LOOP.time")
@pytest.mark.config({"session.max_streaming_millis": 60_000})
def test_a_stream_connection_may_be_limited_in_time(device: Device, clock: MovableClock) -> None:
    with device.create() as tap:
        clock.advance(20)
        clock.advance(20)
        clock.advance(20)
        assert tap.read_rest().endswith("LOOP\r\n")
        with device.bind(tap.session) as again:
            assert again.session == tap.session


@pytest.mark.parametrize(
    "cause", [row("text6.cause.31", 31), row("text6.cause.0", 0), row("text6.cause.negative", -40)]
)
def test_the_end_of_a_session_is_told_with_its_cause(device: Device, cause: int) -> None:
    with device.create() as tap:
        wish = {} if cause == 31 else {"cause_code": cause}
        assert device.control(tap.session, op="destroy", **wish) == OK
        assert tap.read_rest() == f"END {cause}\r\n"


@pytest.mark.conformance("text6.cause.32")
def test_a_session_ended_by_the_server_is_cause_32(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        server.call(server.server.kernel.find_session(tap.session).close, 32, "not told")
        assert tap.read_rest() == "END 32\r\n"


@pytest.mark.conformance("text6.cause.35")
def test_another_session_of_a_user_who_may_have_one_is_cause_35(strict: tuple[Device, StrictMetadata]) -> None:
    device, metadata = strict
    metadata.sessions_per_user = 1
    with device.create(user="anna") as tap, device.create(user="bert") as other:
        with device.create(user="anna"):
            assert tap.read_rest() == "END 35\r\n"
        assert device.control(other.session, op="constrain") == OK


@pytest.mark.conformance("text6.cause.40")
def test_a_rebind_by_somebody_else_is_cause_40(device: Device) -> None:
    with device.create() as tap, device.bind(tap.session, polling=True) as other:
        assert tap.read_rest() == "END 40\r\n"
        assert other.read_rest() == "LOOP\r\n"


@pytest.mark.conformance("text6.cause.48")
@pytest.mark.config({"session.max_session_duration_minutes": 1})
def test_a_session_that_has_lasted_long_enough_is_cause_48(device: Device, clock: MovableClock) -> None:
    with device.create() as tap:
        clock.advance(30)
        clock.advance(30)
        assert tap.read_rest().split("\r\n")[-2] == "END 48"


@pytest.mark.conformance("text6.cause.48.stop")
@pytest.mark.config({"log.level": "error"})
def test_a_server_that_stops_ends_every_stream_with_cause_48(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        server.stop()
        assert tap.read_rest() == "END 48\r\n"


@pytest.mark.conformance("text6.cause.33")
@pytest.mark.config({"session.max_unbound_notifications": 3})
def test_an_unexpected_end_is_cause_33(device: Device) -> None:
    with device.create(polling=True) as tap:
        for number in range(1, 6):
            device.message(tap.session, message="m", sequence="s", msg_prog=number)
        assert device.ask("bind_session", params(session=tap.session)) == "END\r\n33\r\n"


@pytest.mark.conformance("text6.push.nothing-else")
def test_what_this_protocol_has_no_message_for_is_not_sent(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, mode="COMMAND", schema="key command")
        device.control(tap.session, op="reconf", table=1, requested_max_frequency=5)
        device.control(tap.session, op="constrain", requested_max_bandwidth=500)
        device.control(tap.session, op="constrain")
        device.control(tap.session, op="delete", table=1)
        device.add(tap.session, 2)
        server.update("a", x="1")
        assert tap.read_line() == "2,1|1"


@pytest.mark.conformance("text6.push.nothing-else.poll")
def test_what_this_protocol_has_no_message_for_does_not_end_a_poll(server: BackgroundServer, device: Device) -> None:
    with device.create(polling=True, idle_millis=30_000) as tap:
        device.add(tap.session, 1)
        device.control(tap.session, op="constrain", requested_max_bandwidth=500)
        device.control(tap.session, op="constrain")
        device.control(tap.session, op="reconf", table=1, requested_max_frequency=5)
        server.update("a", x="1")
        assert tap.read_rest() == "1,1|1\r\nLOOP\r\n"


# -- a snapshot that is cleared ----------------------------------------------------------------------------------------


def clear(server: BackgroundServer, item: str) -> None:
    server.call(server.adapter.clear_snapshot, item)


@pytest.mark.conformance("text6.clear.COMMAND")
def test_a_cleared_table_in_command_mode_is_a_delete_of_every_key(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, mode="COMMAND", schema="key command x")
        for key in ("k", "l"):
            server.update("a", key=key, command="ADD", x="1")
        assert tap.read(2) == ["1,1|k|ADD|1", "1,1|l||"]
        clear(server, "a")
        assert tap.read(2) == ["1,1|k|DELETE|#", "1,1|l||"]
        server.update("a", key="k", command="UPDATE", x="2")
        assert tap.read_line() == "1,1|k|ADD|2"


@pytest.mark.conformance("text6.clear.MERGE")
def test_a_cleared_item_in_merge_mode_is_all_nulls(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, schema="x y")
        server.update("a", x="1", y="2")
        clear(server, "a")
        assert tap.read(2) == ["1,1|1|2", "1,1|#|#"]


@pytest.mark.conformance("text6.clear.DISTINCT")
def test_a_cleared_item_in_distinct_mode_is_not_told(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, mode="DISTINCT")
        server.update("a", x="1")
        clear(server, "a")
        server.update("a", x="2")
        assert tap.read(2) == ["1,1|1", "1,1|2"]
        device.add(tap.session, 2, mode="DISTINCT", snapshot=True)
        assert tap.read(2) == ["2,1|2", "2,1,EOS"]
