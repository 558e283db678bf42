from __future__ import annotations

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import row, without
from tests.conformance.text6.conftest import StrictMetadata
from tests.conformance.text6.phrases import OK, Device, creation, error, table
from tests.support.background import BackgroundServer
from tests.support.raw import params

INVALID = {
    "LS_requested_max_bandwidth": ("-1", "fast", "1e3", "", "unlimited"),
    "LS_content_length": ("-1", "long", "1.5", ""),
    "LS_keepalive_millis": ("-1", "soon", "1.5", ""),
    "LS_report_info": ("yes", "1", ""),
    "LS_polling": ("yes", "1", ""),
    "LS_polling_millis": ("-1", "soon", ""),
    "LS_idle_millis": ("-1", "soon", ""),
}


@pytest.mark.conformance("text6.create.LS_op2")
def test_a_creation_says_so(device: Device) -> None:
    line = creation(polling=True)
    assert device.ask("create_session", line).startswith("OK\r\nSessionId:")
    assert device.fail("create_session", without(line, "LS_op2")).startswith(
        "LS_op2 is missing; expected LS_op2=create"
    )
    text = device.fail("create_session", line.replace("LS_op2=create", "LS_op2=make"))
    assert text == "LS_op2=make: expected create\n"


@pytest.mark.conformance("text6.create.LS_cid")
def test_any_client_identifier_is_welcome(device: Device) -> None:
    line = without(creation(polling=True), "LS_cid")
    for cid in ("", "&LS_cid=mgQkwtwdysogQz2BJ4Ji%20k0j2Bg", "&LS_cid=", "&LS_cid=anything"):
        assert device.ask("create_session", line + cid).startswith("OK\r\n")


@pytest.mark.conformance("text6.create.LS_user")
def test_the_metadata_adapter_gets_the_user_name_or_none(strict: tuple[Device, StrictMetadata]) -> None:
    device, metadata = strict
    for wish in ({}, {"user": ""}, {"user": "Zoë"}):
        device.create(**wish).http.close()
    assert [user for user, _ in metadata.credentials] == [None, "", "Zoë"]


@pytest.mark.conformance("text6.create.LS_password")
def test_the_metadata_adapter_gets_the_password_or_none(strict: tuple[Device, StrictMetadata]) -> None:
    device, metadata = strict
    for wish in ({}, {"password": ""}, {"password": "s3 c&=ret"}):
        device.create(user="u", **wish).http.close()
    assert metadata.credentials == [("u", None), ("u", ""), ("u", "s3 c&=ret")]


@pytest.mark.conformance("text6.create.LS_adapter_set")
def test_the_adapter_set_is_the_one_named(server: BackgroundServer, device: Device) -> None:
    with device.create(adapter_set="WELCOME") as tap:
        assert device.add(tap.session, data_adapter="STOCKS", id="item1", schema="stock_name", snapshot=True) == OK
        assert tap.read_line().startswith("1,1|")
    expected = error(2, "LS_adapter_set: Requested Adapter Set not available: DEFAULT")
    for line in (without(creation(), "LS_adapter_set"), creation(adapter_set="")):
        assert device.ask("create_session", line) == expected


@pytest.mark.conformance("text6.create.LS_requested_max_bandwidth")
def test_a_bandwidth_asked_for_is_obeyed(server: BackgroundServer, device: Device, clock: MovableClock) -> None:
    # 0.8 kbit/s are 100 bytes a second: after 1,000 bytes the session is held for 10 seconds.
    with device.create(requested_max_bandwidth="0.80") as tap:
        assert tap["MaxBandwidth"] == "0"
        device.add(tap.session)
        clock.advance(2)
        server.update("a", x="1" * 1000)
        assert tap.read_line() == "1,1|" + "1" * 1000
        for value in ("2", "3"):
            server.update("a", x=value)
        clock.advance(5)
        server.update("a", x="4")
        clock.advance(6)
        assert tap.read_line() == "1,1|4"


@pytest.mark.conformance("text6.create.LS_requested_max_bandwidth.0")
def test_a_bandwidth_of_zero_is_no_limit(server: BackgroundServer, device: Device, clock: MovableClock) -> None:
    with device.create(requested_max_bandwidth=0) as tap:
        device.add(tap.session)
        for value in ("1" * 100_000, "2", "3"):
            server.update("a", x=value)
            assert tap.read_line() == f"1,1|{value}"


@pytest.mark.conformance("text6.create.LS_keepalive_millis")
def test_a_stream_is_never_silent_for_longer_than_asked_for(device: Device, clock: MovableClock) -> None:
    with device.create(keepalive_millis=2000) as tap:
        assert tap["KeepaliveMillis"] == "2000"
        for _ in range(3):
            clock.advance(2)
            assert tap.read_line() == "PROBE"


@pytest.mark.conformance("text6.create.LS_keepalive_millis.range")
def test_the_keepalive_time_stays_in_the_configured_range(device: Device) -> None:
    for asked, granted in ((0, "1000"), (999, "1000"), (1001, "1001"), (10**9, "30000")):
        with device.create(keepalive_millis=asked) as tap:
            assert tap["KeepaliveMillis"] == granted
    with device.send("create_session", without(creation(), "LS_keepalive_millis")) as http:
        http.read_head()
        lines = [http.read_line() for _ in range(3)]
        assert lines[2] == "KeepaliveMillis:5000"


@pytest.mark.conformance("text6.create.LS_report_info")
def test_limits_and_name_are_reported_on_request_only(device: Device) -> None:
    plain = ["SessionId", "KeepaliveMillis", "MaxBandwidth"]
    for wish in ({}, {"report_info": False}):
        with device.create(**wish) as tap:
            assert tap.names == plain
    with device.create(report_info=True) as tap:
        assert tap.names == [*plain, "RequestLimit", "ServerName"]


@pytest.mark.conformance("text6.create.LS_polling")
def test_a_poll_ends_at_once_and_the_session_stays(server: BackgroundServer, device: Device) -> None:
    answer = device.ask("create_session", creation(polling=True))
    header, _, rest = answer.partition("\r\n\r\n")
    assert rest == "LOOP\r\n"
    session = header.split("SessionId:")[1].split("\r\n")[0]
    assert device.add(session, snapshot=True) == OK
    server.update("a", x="1")
    with device.bind(session, polling=True) as tap:
        assert tap.read_rest() == "1,1|1\r\nLOOP\r\n"


@pytest.mark.conformance("text6.create.LS_polling_millis")
def test_a_session_outlives_the_pause_between_polls_that_is_told(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create(polling=True, polling_millis=4000) as tap:
        assert tap.read_rest() == "LOOP 4000\r\n"
        # 4 seconds are asked for, the configured 10 come on top.
        clock.advance(13.9)
        with device.bind(tap.session, polling=True, polling_millis=10**6) as again:
            # More than the server grants.
            assert again.read_rest() == "LOOP 15000\r\n"
        clock.advance(25.1)
        assert device.ask("bind_session", params(session=tap.session)) == "SYNC ERROR\r\n"


@pytest.mark.conformance("text6.create.LS_idle_millis")
def test_a_poll_waits_for_its_first_update_as_long_as_asked_for(
    server: BackgroundServer, device: Device, clock: MovableClock
) -> None:
    with device.create(polling=True, idle_millis=3000) as tap:
        assert tap["KeepaliveMillis"] == "3000"
        clock.advance(2.9)
        assert device.add(tap.session) == OK
        server.update("a", x="1")
        assert tap.read_rest() == "1,1|1\r\nLOOP\r\n"
        with device.bind(tap.session, polling=True, idle_millis=10**9) as again:
            assert again["KeepaliveMillis"] == "30000"
            clock.advance(30)
            assert again.read_rest() == "LOOP\r\n"


@pytest.mark.parametrize("name", [row(f"text6.create.{name}.invalid", name) for name in INVALID])
def test_a_wrong_parameter_of_a_creation_is_http_error_500_naming_it(device: Device, name: str) -> None:
    for value in INVALID[name]:
        line = f"{without(creation(), name)}&{name}={value}"
        assert device.fail("create_session", line).startswith(f"{name}={value}: expected" if value else name)


@pytest.mark.conformance("text6.create.lines")
def test_a_creation_is_one_line(server: BackgroundServer, device: Device) -> None:
    text = device.fail("create_session", creation(), table())
    assert text == "create_session takes one line of parameters, found 2\n"
    assert server.call(len, server.server.kernel.sessions) == 0
