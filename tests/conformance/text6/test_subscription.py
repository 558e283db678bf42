from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import row, without
from tests.conformance.text6.phrases import OK, SYNC_ERROR, Device, error, table
from tests.support.background import BackgroundServer

INVALID = {
    "LS_table": ("0", "-1", "one", "1.0", ""),
    "LS_mode": ("merge", "SIDEWAYS", ""),
    "LS_requested_buffer_size": ("-1", "many", "1.5", "unlimited"),
    "LS_requested_max_frequency": ("-1", "often", "1e3", "1,5", "unlimited", ""),
    "LS_snapshot": ("yes", "-1", ""),
}


@pytest.mark.conformance("text6.add")
def test_a_table_is_created_and_its_updates_flow_at_once(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        assert device.add(tap.session, 3, id="a b", schema="x y") == OK
        server.update("b", x="1", y="2")
        server.update("a", y="3")
        assert tap.read(2) == ["3,2|1|2", "3,1|#|3"]


@pytest.mark.conformance("text6.add.session")
def test_a_table_belongs_to_the_session_named(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap, device.create() as other:
        assert device.add(tap.session, 1) == OK
        assert device.add(other.session, 2) == OK
        server.update("a", x="1")
        assert (tap.read_line(), other.read_line()) == ("1,1|1", "2,1|1")
    assert device.fail("control", table()) == "LS_session is missing\n"
    assert device.add("") == SYNC_ERROR


@pytest.mark.conformance("text6.add.LS_op")
def test_an_operation_must_be_one_of_those_there_are(device: Device) -> None:
    with device.create() as tap:
        assert device.fail("control", f"LS_session={tap.session}") == "LS_op is missing\n"
        text = device.fail("control", f"LS_session={tap.session}&LS_op=explode")
        for known in ("add", "add_silent", "start", "delete", "reconf", "constrain", "force_rebind", "destroy"):
            assert known in text


@pytest.mark.conformance("text6.add.LS_table")
def test_tables_are_told_apart_by_their_numbers(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        for number in (7, 2, 2_000_000_000):
            assert device.add(tap.session, number, id=f"i{number}") == OK
            server.update(f"i{number}", x="1")
            assert tap.read_line() == f"{number},1|1"


@pytest.mark.conformance("text6.add.LS_table.used")
def test_a_number_in_use_is_http_error_500_and_the_table_stays(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        assert device.add(tap.session) == OK
        text = device.fail("control", f"LS_session={tap.session}&{table(id='b')}")
        assert text == "LS_table: Subscription number 1 is in use\n"
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"


@pytest.mark.conformance("text6.add.limit")
@pytest.mark.config({"limits.max_subscriptions_per_session": 1})
def test_one_table_more_than_allowed_is_http_error_500(device: Device) -> None:
    with device.create() as tap:
        assert device.add(tap.session) == OK
        text = device.fail("control", f"LS_session={tap.session}&{table(2)}")
        assert text == "LS_table: The session has reached 1 subscriptions, the most allowed\n"


@pytest.mark.conformance("text6.add.LS_data_adapter")
def test_items_come_from_the_data_adapter_named_or_the_default_one(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        assert device.add(tap.session, 1, data_adapter="PLAIN") == OK
        assert device.add(tap.session, 2) == OK
        server.call(server.plain.publish, "a", {"x": "plain"})
        assert tap.read_line() == "1,1|plain"
        server.update("a", x="default")
        assert tap.read_line() == "2,1|default"


@pytest.mark.conformance("text6.add.LS_id")
def test_the_items_of_a_group_have_the_numbers_of_their_places(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, id="c a b")
        for item in ("a", "b", "c"):
            server.update(item, x=item)
        assert tap.read(3) == ["1,2|a", "1,3|b", "1,1|c"]
        line = f"LS_session={tap.session}&{without(table(2), 'LS_id')}"
        assert device.ask("control", line) == error(21, "LS_id is missing")
        assert device.ask("control", f"{line}&LS_id=") == error(21, "LS_id is empty")


@pytest.mark.conformance("text6.add.LS_schema")
def test_an_update_has_the_fields_of_the_schema_in_its_order(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, schema="z x y")
        server.update("a", x="1", y="2", z="3")
        assert tap.read_line() == "1,1|3|1|2"
        line = f"LS_session={tap.session}&{without(table(2), 'LS_schema')}"
        assert device.ask("control", line) == error(23, "LS_schema is missing")
        assert device.ask("control", f"{line}&LS_schema=") == error(23, "LS_schema is empty")


@pytest.mark.conformance("text6.add.LS_selector")
def test_a_selector_chooses_events(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        assert device.add(tap.session, selector="odd", mode="DISTINCT") == OK
        for number in range(1, 6):
            server.update("a", x=str(number))
        assert tap.read(3) == ["1,1|1", "1,1|3", "1,1|5"]


@pytest.mark.conformance("text6.add.LS_mode.RAW")
def test_raw_sends_every_event(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, mode="RAW", schema="x y", snapshot=True)
        server.update("a", x="1")
        server.update("a", x="1")
        server.update("a", y="2")
        assert tap.read(3) == ["1,1|1|#", "1,1||", "1,1|#|2"]


@pytest.mark.conformance("text6.add.LS_mode.MERGE")
def test_merge_sends_changes_and_conflates_what_cannot_go(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create() as tap:
        device.add(tap.session, schema="x y", requested_max_frequency=1)
        server.update("a", x="1", y="1")
        server.update("a", x="1")
        for number in range(2, 6):
            server.update("a", x=str(number))
        clock.advance(1)
        assert tap.read(2) == ["1,1|1|1", "1,1|5|"]


@pytest.mark.conformance("text6.add.LS_mode.DISTINCT")
def test_distinct_sends_every_event_of_its_own(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, mode="DISTINCT", schema="x y")
        server.update("a", x="1")
        server.update("a", x="1", y="2")
        assert tap.read(2) == ["1,1|1|#", "1,1||2"]


@pytest.mark.conformance("text6.add.LS_mode.COMMAND")
def test_command_keeps_a_table_by_key(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, mode="COMMAND", schema="key command x")
        for command in ("ADD", "UPDATE", "DELETE"):
            server.update("a", key="k", command=command, x=command[0])
        assert tap.read(3) == ["1,1|k|ADD|A", "1,1||UPDATE|U", "1,1||DELETE|D"]


@pytest.mark.conformance("text6.add.LS_requested_buffer_size")
def test_a_buffer_keeps_as_many_events_as_asked_for(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create(polling=True) as tap:
        device.add(tap.session, 1, mode="MERGE")
        device.add(tap.session, 2, mode="MERGE", requested_buffer_size=3)
        device.add(tap.session, 3, mode="MERGE", requested_buffer_size=0)
        device.add(tap.session, 4, mode="MERGE", requested_buffer_size=3, requested_max_frequency="unfiltered")
        for number in range(1, 8):
            server.update("a", x=str(number))
        with device.bind(tap.session) as again:
            lines = again.read(1 + 3 + 7 + 7)
    assert [len([line for line in lines if line[0] == number]) for number in "1234"] == [1, 3, 7, 7]
    assert [line for line in lines if line[0] == "2"] == ["2,1|5", "2,1|6", "2,1|7"]


@pytest.mark.conformance("text6.add.LS_requested_buffer_size.DISTINCT")
def test_a_buffer_in_distinct_mode_is_unlimited_unless_asked_for(server: BackgroundServer, device: Device) -> None:
    with device.create(polling=True) as tap:
        device.add(tap.session, 1, mode="DISTINCT")
        device.add(tap.session, 2, mode="DISTINCT", requested_buffer_size=2)
        device.add(tap.session, 3, mode="DISTINCT", requested_buffer_size=0)
        for number in range(1, 8):
            server.update("a", x=str(number))
        with device.bind(tap.session) as again:
            lines = again.read(7 + 2 + 7)
    assert [len([line for line in lines if line[0] == number]) for number in "123"] == [7, 2, 7]
    assert [line for line in lines if line[0] == "2"] == ["2,1|6", "2,1|7"]


@pytest.mark.conformance("text6.add.LS_requested_max_frequency")
def test_updates_come_no_more_often_than_asked_for(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, requested_max_frequency="0.5")
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"
        server.update("a", x="2")
        clock.advance(1.9)
        server.update("a", x="3")
        clock.advance(0.1)
        assert tap.read_line() == "1,1|3"


@pytest.mark.conformance("text6.add.LS_requested_max_frequency.0")
def test_a_frequency_of_zero_is_no_limit(server: BackgroundServer, device: Device, clock: MovableClock) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, requested_max_frequency=0)
        device.add(tap.session, 2, requested_max_frequency="0.0")
        for number in range(5):
            server.update("a", x=str(number))
            assert sorted(tap.read(2)) == [f"1,1|{number}", f"2,1|{number}"]


@pytest.mark.conformance("text6.add.LS_requested_max_frequency.unfiltered")
def test_unfiltered_updates_are_not_lost(server: BackgroundServer, device: Device) -> None:
    with device.create(polling=True) as tap:
        device.add(tap.session, requested_max_frequency="unfiltered")
        for number in range(20):
            server.update("a", x=str(number))
        with device.bind(tap.session, polling=True) as again:
            assert again.read_rest() == "".join(f"1,1|{number}\r\n" for number in range(20)) + "LOOP\r\n"


@pytest.mark.conformance("text6.add.LS_snapshot")
def test_a_snapshot_is_sent_on_request_only(server: BackgroundServer, device: Device) -> None:
    server.adapter.state["a"] = {"x": "old"}
    with device.create() as tap:
        for number, wish in enumerate(({}, {"snapshot": False}, {"snapshot": True}), start=1):
            device.add(tap.session, number, **wish)
        assert tap.read_line() == "3,1|old"
        server.update("a", x="new")
        assert sorted(tap.read(3)) == ["1,1|new", "2,1|new", "3,1|new"]


@pytest.mark.conformance("text6.add.LS_snapshot.length")
def test_a_snapshot_in_distinct_mode_has_at_most_the_length_asked_for(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap, device.create() as other:
        device.add(tap.session, mode="DISTINCT")
        for number in range(1, 6):
            server.update("a", x=str(number))
        for table_number, wish in enumerate(("2", "true", "0"), start=1):
            assert device.add(other.session, table_number, mode="DISTINCT", snapshot=wish) == OK
        server.update("a", x="6")
        lines = other.read(3 + 6 + 3)
    assert [line for line in lines if line[0] == "1"] == ["1,1|4", "1,1|5", "1,1,EOS", "1,1|6"]
    assert len([line for line in lines if line[0] == "2"]) == 7
    assert [line for line in lines if line[0] == "3"] == ["3,1|6"]


@pytest.mark.conformance("text6.add.LS_snapshot.length.mode")
def test_a_snapshot_length_is_for_distinct_mode_only(device: Device) -> None:
    with device.create() as tap:
        for mode in ("RAW", "MERGE", "COMMAND"):
            text = device.fail("control", f"LS_session={tap.session}&{table(mode=mode, snapshot=5)}")
            assert text.startswith("LS_snapshot=5: expected true or false; a length is allowed in DISTINCT mode only")


@pytest.mark.parametrize("name", [row(f"text6.add.{name}.invalid", name) for name in INVALID])
def test_a_wrong_parameter_of_a_subscription_is_http_error_500_naming_it(
    server: BackgroundServer, device: Device, name: str
) -> None:
    with device.create() as tap:
        for value in INVALID[name]:
            for operation in ("add", "add_silent"):
                line = without(table(op=operation, mode="DISTINCT"), name)
                text = device.fail("control", f"LS_session={tap.session}&{line}&{name}={value}")
                assert text.startswith(f"{name}={value}: expected" if value else name)
        assert server.adapter.history == []
