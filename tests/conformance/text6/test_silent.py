from __future__ import annotations

from itertools import pairwise

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import row
from tests.conformance.text6.phrases import OK, Device, Tap, error
from tests.support.background import BackgroundServer

COMMAND = {"mode": "COMMAND", "schema": "key command x"}


def start(device: Device, tap: Tap, number: int = 1) -> None:
    assert device.control(tap.session, op="start", table=number) == OK


def expect_silence(server: BackgroundServer, device: Device, tap: Tap) -> None:
    """Whatever was to come has come: the next line is one that is asked for now."""
    assert device.add(tap.session, 99, id="bell") == OK
    server.update("bell", x="ding")
    assert tap.read_line() == "99,1|ding"
    assert device.control(tap.session, op="delete", table=99) == OK


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        row("text6.add_silent.RAW", {"mode": "RAW"}, ["1,1|1", "1,1|2", "1,1|2"]),
        row("text6.add_silent.MERGE", {"mode": "MERGE"}, ["1,1|2"]),
        row("text6.add_silent.MERGE.buffer", {"mode": "MERGE", "requested_buffer_size": 0}, ["1,1|1", "1,1|2"]),
        row(
            "text6.add_silent.MERGE.unfiltered",
            {"mode": "MERGE", "requested_max_frequency": "unfiltered"},
            ["1,1|1", "1,1|2", "1,1|2"],
        ),
        row("text6.add_silent.DISTINCT", {"mode": "DISTINCT"}, ["1,1|1", "1,1|2", "1,1|2"]),
        row("text6.add_silent.DISTINCT.buffer", {"mode": "DISTINCT", "requested_buffer_size": 1}, ["1,1|2"]),
    ],
)
def test_a_silent_table_sends_nothing_before_its_start_then_what_it_has_gathered(
    server: BackgroundServer, device: Device, wish: dict[str, object], expected: list[str]
) -> None:
    with device.create() as tap:
        assert device.add(tap.session, 1, op="add_silent", **wish) == OK
        assert server.adapter.history == [("subscribe", "a")]
        for value in ("1", "2", "2"):
            server.update("a", x=value)
        expect_silence(server, device, tap)
        start(device, tap)
        # A value that is not sent again, for it has not changed.
        assert tap.read(len(expected)) == [expected[0], *_unchanged(expected)]
        server.update("a", x="3")
        assert tap.read_line() == "1,1|3"


def _unchanged(lines: list[str]) -> list[str]:
    """The lines behind the first, with values left out that are those of the line before."""
    return ["1,1|" if line == before else line for before, line in pairwise(lines)]


@pytest.mark.conformance("text6.add_silent.COMMAND")
def test_a_silent_table_in_command_mode_gathers_key_by_key(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        assert device.add(tap.session, 1, op="add_silent", **COMMAND) == OK
        for key, command, value in (("k", "ADD", "1"), ("l", "ADD", "1"), ("k", "UPDATE", "2"), ("l", "DELETE", None)):
            server.update("a", key=key, command=command, x=value)
        expect_silence(server, device, tap)
        start(device, tap)
        assert tap.read_line() == "1,1|k|ADD|2"
        server.update("a", key="k", command="UPDATE", x="3")
        assert tap.read_line() == "1,1||UPDATE|3"


@pytest.mark.conformance("text6.add_silent.COMMAND.unfiltered")
def test_a_silent_table_in_unfiltered_command_mode_gathers_every_event(
    server: BackgroundServer, device: Device
) -> None:
    with device.create() as tap:
        assert device.add(tap.session, 1, op="add_silent", requested_max_frequency="unfiltered", **COMMAND) == OK
        for command in ("ADD", "UPDATE", "DELETE"):
            server.update("a", key="k", command=command, x=command[0])
        expect_silence(server, device, tap)
        start(device, tap)
        assert tap.read(3) == ["1,1|k|ADD|A", "1,1||UPDATE|U", "1,1||DELETE|D"]


@pytest.mark.conformance("text6.add_silent.snapshot")
def test_a_silent_table_gathers_its_snapshot_and_the_end_of_it(server: BackgroundServer, device: Device) -> None:
    with device.create() as other, device.create() as tap:
        device.add(other.session, mode="DISTINCT")
        for value in ("1", "2"):
            server.update("a", x=value)
        assert other.read(2) == ["1,1|1", "1,1|2"]
        assert device.add(tap.session, 1, op="add_silent", mode="DISTINCT", snapshot=True) == OK
        server.update("a", x="3")
        expect_silence(server, device, tap)
        start(device, tap)
        assert tap.read(4) == ["1,1|1", "1,1|2", "1,1,EOS", "1,1|3"]


@pytest.mark.conformance("text6.add_silent.frequency")
def test_a_started_table_keeps_its_frequency_limit(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, op="add_silent", requested_max_frequency=0.5)
        server.update("a", x="1")
        start(device, tap)
        assert tap.read_line() == "1,1|1"
        server.update("a", x="2")
        clock.advance(1.9)
        server.update("a", x="3")
        clock.advance(0.1)
        assert tap.read_line() == "1,1|3"


@pytest.mark.conformance("text6.add_silent.OV")
@pytest.mark.config({"session.max_buffer_size": 3})
def test_losses_of_a_silent_table_are_told_after_its_start(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, op="add_silent", mode="RAW")
        for number in range(8):
            server.update("a", x=str(number))
        start(device, tap)
        assert tap.read(4) == ["1,1,OV5", "1,1|5", "1,1|6", "1,1|7"]


@pytest.mark.conformance("text6.add_silent.reconf")
def test_a_silent_table_is_reconfigured_in_silence(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, op="add_silent", mode="DISTINCT")
        server.update("a", x="1")
        server.update("a", x="2")
        assert device.control(tap.session, op="reconf", table=1, requested_max_frequency=0.5) == OK
        expect_silence(server, device, tap)
        clock.advance(3)
        expect_silence(server, device, tap)
        start(device, tap)
        assert tap.read_line() == "1,1|1"
        clock.advance(1.9)
        expect_silence(server, device, tap)
        clock.advance(0.1)
        assert tap.read_line() == "1,1|2"


@pytest.mark.conformance("text6.add_silent.delete")
def test_a_silent_table_that_is_deleted_is_never_heard_of(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        for number, wish in enumerate(({}, {"mode": "RAW"}, COMMAND), start=1):
            device.add(tap.session, number, op="add_silent", id=f"i{number}", **wish)
            server.update(f"i{number}", x="1", key="k", command="ADD")
            assert device.control(tap.session, op="delete", table=number) == OK
            assert device.control(tap.session, op="start", table=number) == error(
                19, f"LS_table: Subscription {number} not found"
            )
            assert server.adapter.history[-1] == ("unsubscribe", f"i{number}")
        expect_silence(server, device, tap)


@pytest.mark.conformance("text6.add_silent.rebind")
def test_a_silent_table_stays_silent_across_bindings(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, op="add_silent", mode="RAW")
        device.add(tap.session, 2, op="add_silent", id="b")
        server.update("a", x="1")
        with device.rebind(tap) as again:
            server.update("a", x="2")
            server.update("b", x="1")
            expect_silence(server, device, again)
            assert device.control(tap.session, op="force_rebind") == OK
            assert again.read_rest() == "LOOP\r\n"
        # Nobody is bound when it starts.
        start(device, tap)
        with device.bind(tap.session) as third:
            assert third.read(2) == ["1,1|1", "1,1|2"]
            start(device, tap, 2)
            assert third.read_line() == "2,1|1"


@pytest.mark.conformance("text6.add_silent.polling")
def test_a_silent_table_does_not_end_a_poll(server: BackgroundServer, device: Device, clock: MovableClock) -> None:
    with device.create(polling=True) as tap:
        device.add(tap.session, 1, op="add_silent")
        with device.bind(tap.session, polling=True, idle_millis=5000) as poll:
            server.update("a", x="1")
            start(device, tap)
            assert poll.read_rest() == "1,1|1\r\nLOOP\r\n"
        device.control(tap.session, op="delete", table=1)
        device.add(tap.session, 2, op="add_silent")
        with device.bind(tap.session, polling=True, idle_millis=5000) as poll:
            server.update("a", x="2")
            clock.advance(5)
            assert poll.read_rest() == "LOOP\r\n"


@pytest.mark.conformance("text6.start")
def test_a_table_starts_once_and_other_parameters_mean_nothing(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, op="add_silent")
        server.update("a", x="1")
        assert device.add(tap.session, 1, op="start", id="", mode="SIDEWAYS") == OK
        assert tap.read_line() == "1,1|1"
        start(device, tap)
        expect_silence(server, device, tap)
        # Of a table that was never silent.
        device.add(tap.session, 2, id="b")
        server.update("b", x="1")
        start(device, tap, 2)
        assert tap.read_line() == "2,1|1"
        expect_silence(server, device, tap)


@pytest.mark.conformance("text6.start.LS_table")
def test_a_start_names_its_table(device: Device) -> None:
    with device.create() as tap:
        assert device.fail("control", f"LS_session={tap.session}&LS_op=start") == "LS_table is missing\n"
        assert device.control(tap.session, op="start", table=7) == error(19, "LS_table: Subscription 7 not found")


@pytest.mark.conformance("text6.add_silent.number")
def test_a_silent_table_has_its_number(device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session, 1, op="add_silent")
        line = f"LS_session={tap.session}&LS_op=add&LS_table=1&LS_id=a&LS_schema=x&LS_mode=MERGE"
        assert device.fail("control", line) == "LS_table: Subscription number 1 is in use\n"
