from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import heard, row
from tests.conformance.text6.phrases import OK, SYNC_ERROR, Device, error, table
from tests.support.background import BackgroundServer
from tests.support.raw import params

OPERATIONS = ("add", "add_silent", "start", "delete", "reconf", "constrain", "force_rebind", "destroy")


@pytest.mark.conformance("text6.delete")
def test_a_deleted_table_is_silent_its_items_are_left_and_its_number_is_free(
    server: BackgroundServer, device: Device
) -> None:
    with device.create() as tap:
        device.add(tap.session, 1)
        device.add(tap.session, 2, id="b")
        assert device.control(tap.session, op="delete", table=1) == OK
        assert server.adapter.history[-1] == ("unsubscribe", "a")
        server.update("b", x="1")
        assert tap.read_line() == "2,1|1"
        assert device.add(tap.session, 1, id="b", schema="y x") == OK
        server.update("b", x="2")
        assert sorted(tap.read(2)) == ["1,1|#|2", "2,1|2"]


@pytest.mark.conformance("text6.delete.LS_table")
def test_a_deletion_names_its_table_and_other_parameters_mean_nothing(device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session)
        line = f"LS_session={tap.session}&LS_op=delete"
        assert device.fail("control", line) == "LS_table is missing\n"
        assert device.fail("control", f"{line}&LS_table=x").startswith("LS_table=x: expected")
        assert device.ask("control", f"{line}&LS_table=2") == error(19, "LS_table: Subscription 2 not found")
        assert device.ask("control", f"{line}&LS_table=1&LS_mode=SIDEWAYS&LS_id=") == OK


@pytest.mark.conformance("text6.reconf")
def test_a_new_frequency_holds_at_once(server: BackgroundServer, device: Device, clock: MovableClock) -> None:
    with device.create() as tap:
        device.add(tap.session, requested_max_frequency=0.1)
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"
        server.update("a", x="2")
        clock.advance(1)
        assert device.control(tap.session, op="reconf", table=1, requested_max_frequency=2) == OK
        clock.advance(0.5)
        assert tap.read_line() == "1,1|2"


@pytest.mark.conformance("text6.reconf.LS_requested_max_frequency")
def test_a_frequency_of_zero_lifts_the_limit_and_none_changes_nothing(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create() as tap:
        device.add(tap.session, requested_max_frequency=0.5)
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"
        server.update("a", x="2")
        assert device.control(tap.session, op="reconf", table=1) == OK
        clock.advance(1.9)
        server.update("a", x="3")
        clock.advance(0.1)
        assert tap.read_line() == "1,1|3"
        assert device.control(tap.session, op="reconf", table=1, requested_max_frequency=0) == OK
        clock.advance(0)
        for value in ("4", "5", "6"):
            server.update("a", x=value)
            assert tap.read_line() == f"1,1|{value}"


@pytest.mark.conformance("text6.reconf.LS_requested_max_frequency.invalid")
def test_a_wrong_new_frequency_is_http_error_500_naming_it(device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session)
        for value in ("-1", "often", "unfiltered", "unlimited"):
            line = params(session=tap.session, op="reconf", table=1, requested_max_frequency=value)
            assert device.fail("control", line).startswith(f"LS_requested_max_frequency={value}: expected")


@pytest.mark.conformance("text6.reconf.LS_table")
def test_a_reconfiguration_names_its_table(device: Device) -> None:
    with device.create() as tap:
        assert device.fail("control", f"LS_session={tap.session}&LS_op=reconf") == "LS_table is missing\n"


@pytest.mark.conformance("text6.constrain")
def test_a_new_bandwidth_holds_at_once(server: BackgroundServer, device: Device, clock: MovableClock) -> None:
    with device.create() as tap:
        device.add(tap.session)
        assert device.control(tap.session, op="constrain", requested_max_bandwidth="0.8") == OK
        clock.advance(2)
        server.update("a", x="1" * 1000)
        assert tap.read_line() == "1,1|" + "1" * 1000
        server.update("a", x="2")
        clock.advance(5)
        server.update("a", x="3")
        clock.advance(6)
        assert tap.read_line() == "1,1|3"


@pytest.mark.parametrize(
    "wish",
    [
        row("text6.constrain.LS_requested_max_bandwidth.omitted", {}),
        row("text6.constrain.LS_requested_max_bandwidth.0", {"requested_max_bandwidth": 0}),
    ],
)
def test_a_bandwidth_that_is_omitted_or_zero_lifts_the_limit(
    server: BackgroundServer, device: Device, clock: MovableClock, wish: dict[str, object]
) -> None:
    with device.create(requested_max_bandwidth=0.8) as tap:
        device.add(tap.session)
        clock.advance(2)
        server.update("a", x="1" * 1000)
        assert tap.read_line() == "1,1|" + "1" * 1000
        server.update("a", x="2")
        assert device.control(tap.session, op="constrain", **wish) == OK
        # No time has passed.
        assert tap.read_line() == "1,1|2"


@pytest.mark.conformance("text6.constrain.LS_requested_max_bandwidth.invalid")
def test_a_wrong_new_bandwidth_is_http_error_500_naming_it(device: Device) -> None:
    with device.create() as tap:
        for value in ("-1", "fast", "unlimited"):
            line = params(session=tap.session, op="constrain", requested_max_bandwidth=value)
            assert device.fail("control", line).startswith(f"LS_requested_max_bandwidth={value}: expected")


@pytest.mark.conformance("text6.force_rebind")
def test_a_forced_rebind_ends_the_stream_with_loop_and_loses_nothing(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, mode="RAW")
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"
        assert device.control(tap.session, op="force_rebind") == OK
        assert tap.read_rest() == "LOOP\r\n"
        # Nobody is there to be told.
        assert device.control(tap.session, op="force_rebind") == OK
        for value in ("2", "3"):
            server.update("a", x=value)
        with device.bind(tap.session) as again:
            assert again.read(2) == ["1,1|2", "1,1|3"]


@pytest.mark.conformance("text6.destroy")
def test_a_destroyed_session_ends_its_stream_with_31_and_is_forgotten(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session)
        assert device.control(tap.session, op="destroy") == OK
        assert tap.read_rest() == "END 31\r\n"
        assert device.control(tap.session, op="destroy") == SYNC_ERROR
        assert device.ask("bind_session", params(session=tap.session)) == SYNC_ERROR
        assert server.adapter.history[-1] == ("unsubscribe", "a")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        row("text6.destroy.LS_cause_code", -12, -12),
        row("text6.destroy.LS_cause_code.0", 0, 0),
        row("text6.destroy.LS_cause_code.positive", 17, 0),
    ],
)
def test_a_cause_of_the_clients_own_is_told_if_it_is_not_positive(device: Device, given: int, told: int) -> None:
    with device.create() as tap:
        assert device.control(tap.session, op="destroy", cause_code=given) == OK
        assert tap.read_rest() == f"END {told}\r\n"


@pytest.mark.conformance("text6.destroy.LS_cause_code.invalid")
def test_a_cause_is_a_whole_number(device: Device) -> None:
    with device.create() as tap:
        for value in ("because", "1.5"):
            line = params(session=tap.session, op="destroy", cause_code=value)
            assert device.fail("control", line).startswith(f"LS_cause_code={value}: expected")
        assert device.control(tap.session, op="constrain") == OK


@pytest.mark.parametrize("operation", [row(f"text6.{operation}.LS_session", operation) for operation in OPERATIONS])
def test_every_operation_names_its_session_and_an_unknown_one_is_a_sync_error(device: Device, operation: str) -> None:
    line = table(op=operation)
    assert device.fail("control", line) == "LS_session is missing\n"
    for session in ("", "nonsense"):
        assert device.ask("control", f"LS_session={session}&{line}") == SYNC_ERROR


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("text6.batch")
def test_requests_of_all_kinds_in_one_body_are_answered_in_order_one_block_each(
    server: BackgroundServer, device: Device
) -> None:
    with device.create() as tap, device.create() as other:
        mine = f"LS_session={tap.session}&"
        answer = device.ask(
            "control",
            f"{mine}{table(1)}",
            f"{mine}{table(2, data_adapter='NONE')}",
            f"{mine}LS_op=delete&LS_table=9",
            f"LS_session=nonsense&{table(3)}",
            f"{mine}LS_op=constrain",
            f"LS_session={other.session}&LS_op=destroy",
            f"{mine}{table(4, id='')}",
            f"{mine}{table(2, id='b')}",
        )
        assert answer == (
            OK
            + error(17, "LS_data_adapter: NONE is not a data adapter of set TEST; it has DEFAULT HAND PLAIN")
            + error(19, "LS_table: Subscription 9 not found")
            + SYNC_ERROR
            + OK
            + OK
            + error(21, "LS_id is empty")
            + OK
        )
        assert other.read_rest() == "END 31\r\n"
        server.update("b", x="1")
        assert tap.read_line() == "2,1|1"


@pytest.mark.conformance("text6.batch.500")
def test_a_request_that_is_http_error_500_replaces_all_answers_and_ends_the_processing(
    server: BackgroundServer, device: Device
) -> None:
    with device.create() as tap:
        mine = f"LS_session={tap.session}&"
        text = device.fail(
            "control", f"{mine}{table(1)}", f"{mine}LS_op=explode", f"{mine}{table(2, id='b')}", f"{mine}LS_op=destroy"
        )
        assert text.startswith("LS_op=explode: expected one of")
        # What came before it is done, what came behind is not.
        assert server.adapter.history == [("subscribe", "a")]
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"


@pytest.mark.conformance("text6.batch.last-line")
def test_a_line_end_behind_the_last_request_does_no_harm(device: Device) -> None:
    with device.create() as tap:
        assert device.ask("control", f"LS_session={tap.session}&{table(1)}", "") == OK


@pytest.mark.conformance("text6.batch.separator")
def test_a_bare_line_end_does_not_separate_requests(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        for end in ("\r", "\n"):
            device.fail("control", f"LS_session={tap.session}&{table(1)}{end}LS_session={tap.session}&{table(2)}")
        assert server.adapter.history == []


@pytest.mark.conformance("text6.batch.large")
def test_a_large_batch_has_all_its_answers(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        lines = [f"LS_session={tap.session}&{table(number, id=f'i{number}')}" for number in range(1, 301)]
        assert device.ask("control", *lines) == OK * 300
        server.update("i300", x="1")
        assert tap.read_line() == "300,1|1"


@pytest.mark.conformance("text6.batch.limit")
@pytest.mark.config({"limits.request_limit": 1000})
def test_a_batch_longer_than_the_request_limit_is_refused_whole(server: BackgroundServer, device: Device) -> None:
    with (
        device.create() as tap,
        device.send("control", "\r\n".join([f"LS_session={tap.session}&{table()}"] * 20)) as http,
    ):
        assert http.read_head() == 413
        assert server.adapter.history == []


@pytest.mark.conformance("text6.batch.GET")
def test_a_get_is_one_request(device: Device) -> None:
    by_query = Device(device.exchange, method="GET")
    with device.create() as tap:
        line = f"LS_session={tap.session}&{table(1)}"
        by_query.fail("control", f"{line}%0D%0A{line}")
        assert by_query.ask("control", line) == OK


@pytest.mark.conformance("text6.batch.messages")
def test_messages_go_in_batches_too_and_a_synchronous_one_is_awaited(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        mine = f"LS_session={tap.session}&"
        answer = device.ask(
            "send_message",
            f"{mine}LS_message=1",
            f"{mine}LS_message=refuse+with+code",
            f"{mine}LS_message=3&LS_sequence=s&LS_msg_prog=1",
            f"{mine}LS_message=4&LS_sequence=s&LS_msg_prog=1",
        )
        assert answer == (
            OK + error(-3, "refused, on purpose") + OK + error(33, "LS_msg_prog: Message number 1 is already enqueued")
        )
        assert tap.read_line() == "MSG,s,1,DONE"
        assert heard(server) == ["1", "3"]
