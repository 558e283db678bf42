from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import row
from tests.conformance.test_session_error import FOREIGN, UNKNOWN
from tests.conformance.text6.phrases import OK, SYNC_ERROR, Device
from tests.conformance.text6.test_create import INVALID
from tests.support.background import BackgroundServer
from tests.support.raw import params

TOTAL = 300


@pytest.mark.conformance("text6.bind.LS_session")
def test_a_binding_restarts_the_flow_of_the_named_session(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session)
        assert device.control(tap.session, op="force_rebind") == OK
        assert tap.read_rest() == "LOOP\r\n"
        server.update("a", x="meanwhile")
        with device.bind(tap.session) as again:
            assert again.names == ["SessionId", "KeepaliveMillis", "MaxBandwidth"]
            assert again.session == tap.session
            assert again.read_line() == "1,1|meanwhile"
            server.update("a", x="now")
            assert again.read_line() == "1,1|now"


@pytest.mark.conformance("text6.bind.LS_session.missing")
def test_a_binding_without_session_is_http_error_500_naming_it(device: Device) -> None:
    assert device.fail("bind_session", "") == "LS_session is missing\n"
    assert device.fail("bind_session", "LS_polling=true") == "LS_session is missing\n"


@pytest.mark.conformance("text6.bind.LS_session.unknown")
def test_a_binding_of_a_session_that_is_not_there_is_a_sync_error(device: Device) -> None:
    for session in ("", "nonsense", UNKNOWN, FOREIGN):
        assert device.ask("bind_session", params(session=session)) == SYNC_ERROR


@pytest.mark.conformance("text6.bind.LS_requested_max_bandwidth")
def test_a_binding_changes_the_bandwidth(server: BackgroundServer, device: Device, clock: MovableClock) -> None:
    with device.create() as tap:
        device.add(tap.session)
        with device.rebind(tap, requested_max_bandwidth=0.8) as again:
            clock.advance(2)
            server.update("a", x="1" * 1000)
            assert again.read_line() == "1,1|" + "1" * 1000
            server.update("a", x="2")
            clock.advance(5)
            server.update("a", x="3")
            clock.advance(6)
            assert again.read_line() == "1,1|3"


@pytest.mark.conformance("text6.bind.LS_requested_max_bandwidth.omitted")
def test_a_binding_that_omits_the_bandwidth_lifts_the_limit(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    for wish in ({}, {"requested_max_bandwidth": 0}):
        with device.create(requested_max_bandwidth=0.8) as tap:
            device.add(tap.session)
            clock.advance(2)
            server.update("a", x="1" * 1000)
            assert tap.read_line() == "1,1|" + "1" * 1000
            server.update("a", x="2")
            with device.rebind(tap, **wish) as again:
                # No time has passed.
                assert again.read_line() == "1,1|2"
                server.update("a", x="3")
                assert again.read_line() == "1,1|3"


@pytest.mark.parametrize(
    ("version", "length"),
    [
        row("text6.create.LS_content_length", "1.1", 1500),
        row("text6.create.LS_content_length.http-1.0", "1.0", 1500),
        row("text6.bind.LS_content_length", "1.1", 2221),
        row("text6.bind.LS_content_length.http-1.0", "1.0", 2221),
    ],
)
def test_a_stream_asks_to_rebind_before_its_length_is_passed_and_nothing_is_lost(
    server: BackgroundServer, device: Device, version: str, length: int
) -> None:
    device = Device(device.exchange, version=version)
    with device.create(content_length=length, report_info=True) as tap:
        session = tap.session
        head = sum(len(line) + 2 for line in tap.header) + 2
        device.add(session, mode="RAW")
        for number in range(TOTAL):
            server.update("a", x=f"{number:03}" + "." * (number % 17))
        bodies = [" " * head + tap.read_rest()]
    while "\r\n1,1|299" not in bodies[-1]:
        # The last connection would not end if it were a stream.
        poll = len(bodies) > 1
        bodies.append(device.ask("bind_session", params(session=session, content_length=length, polling=poll)))
    assert all(len(body) <= length for body in bodies)
    assert all(len(body) > length - 150 for body in bodies[:2]), "a stream goes on as long as it may"
    assert all(body.endswith("\r\nLOOP\r\n") for body in bodies), "a body ends with a whole line"
    updates = [line for line in "".join(bodies).split("\r\n") if line.strip().startswith("1,1|")]
    assert [line.strip() for line in updates] == [f"1,1|{number:03}" + "." * (number % 17) for number in range(TOTAL)]


@pytest.mark.conformance("text6.create.LS_content_length.too-low")
def test_a_length_that_is_too_low_is_raised_to_the_configured_one(server: BackgroundServer, device: Device) -> None:
    for asked in (1, 999):
        with device.create(content_length=asked) as tap:
            device.add(tap.session, mode="RAW", id=f"i{asked}")
            for number in range(100):
                server.update(f"i{asked}", x=f"{number:03}")
            head = sum(len(line) + 2 for line in tap.header) + 2
            assert 850 < head + len(tap.read_rest()) <= 1000


@pytest.mark.conformance("text6.bind.LS_keepalive_millis")
def test_a_binding_has_a_keepalive_time_of_its_own(device: Device, clock: MovableClock) -> None:
    with device.create(keepalive_millis=20_000) as tap, device.rebind(tap, keepalive_millis=3000) as again:
        assert again["KeepaliveMillis"] == "3000"
        clock.advance(3)
        assert again.read_line() == "PROBE"


@pytest.mark.conformance("text6.bind.LS_report_info")
def test_a_binding_reports_the_request_limit_on_request(device: Device) -> None:
    with device.create() as tap, device.rebind(tap, report_info=True) as again:
        assert again.names == ["SessionId", "KeepaliveMillis", "MaxBandwidth", "RequestLimit"]


@pytest.mark.conformance("text6.bind.LS_polling")
def test_a_stream_goes_on_as_polls_and_as_a_stream_again(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session)
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"
        with device.rebind(tap, polling=True) as poll:
            assert poll.read_rest() == "LOOP\r\n"
        server.update("a", x="2")
        with device.bind(tap.session, polling=True) as poll:
            assert poll.read_rest() == "1,1|2\r\nLOOP\r\n"
        with device.bind(tap.session) as stream:
            server.update("a", x="3")
            assert stream.read_line() == "1,1|3"


@pytest.mark.conformance("text6.bind.LS_polling_millis")
def test_every_poll_tells_when_the_next_will_come(device: Device, clock: MovableClock) -> None:
    with device.create() as tap, device.rebind(tap, polling=True, polling_millis=8000) as poll:
        assert poll.read_rest() == "LOOP 8000\r\n"
        clock.advance(17.9)
        with device.bind(tap.session, polling=True, polling_millis=0) as again:
            assert again.read_rest() == "LOOP\r\n"
        clock.advance(10.1)
        assert device.ask("bind_session", params(session=tap.session)) == SYNC_ERROR


@pytest.mark.conformance("text6.bind.LS_idle_millis")
def test_a_poll_that_waits_in_vain_is_empty(device: Device, clock: MovableClock) -> None:
    with device.create() as tap, device.rebind(tap, polling=True, idle_millis=4000, polling_millis=500) as poll:
        assert poll["KeepaliveMillis"] == "4000"
        clock.advance(4)
        assert poll.read_rest() == "LOOP 500\r\n"


@pytest.mark.parametrize("name", [row(f"text6.bind.{name}.invalid", name) for name in INVALID])
def test_a_wrong_parameter_of_a_binding_is_http_error_500_naming_it_and_the_stream_stays(
    server: BackgroundServer, device: Device, name: str
) -> None:
    with device.create() as tap:
        device.add(tap.session)
        for value in INVALID[name]:
            text = device.fail("bind_session", f"LS_session={tap.session}&{name}={value}")
            assert text.startswith(f"{name}={value}: expected" if value else name)
        server.update("a", x="1")
        assert tap.read_line() == "1,1|1"


@pytest.mark.conformance("text6.bind.elsewhere")
def test_a_session_bound_elsewhere_ends_its_old_connection_with_40(server: BackgroundServer, device: Device) -> None:
    with device.create() as tap:
        device.add(tap.session)
        with device.bind(tap.session) as again:
            assert tap.read_rest() == "END 40\r\n"
            server.update("a", x="1")
            assert again.read_line() == "1,1|1"


@pytest.mark.conformance("text6.answer.END")
def test_a_binding_of_a_session_closed_meanwhile_is_answered_with_end_and_the_cause(
    device: Device, clock: MovableClock
) -> None:
    for wish, cause in (({}, 31), ({"cause_code": -5}, -5), ({"cause_code": 0}, 0)):
        with device.create(polling=True) as tap:
            assert device.control(tap.session, op="destroy", **wish) == OK
            line = params(session=tap.session)
            assert device.ask("bind_session", line) == f"END\r\n{cause}\r\n"
            # What is over for anything else.
            assert device.control(tap.session, op="constrain") == SYNC_ERROR
            assert device.message(tap.session, message="m") == SYNC_ERROR
            clock.advance(10.1)
            assert device.ask("bind_session", line) == SYNC_ERROR
