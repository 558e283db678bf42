from __future__ import annotations

import pytest

from tests.conformance.text6.conftest import StrictMetadata
from tests.conformance.text6.phrases import Device, creation
from tests.support.raw import Exchange


@pytest.mark.conformance("text6.header.block")
@pytest.mark.config({"session.noop_padding": 0})
def test_the_header_is_ok_then_lines_in_their_order_then_an_empty_line(device: Device) -> None:
    answer = device.ask("create_session", creation(polling=True, report_info=True))
    session = answer.split("SessionId:")[1].split("\r\n")[0]
    assert answer == (
        f"OK\r\nSessionId:{session}\r\nKeepaliveMillis:0\r\nMaxBandwidth:0\r\n"
        "RequestLimit:50000\r\nServerName:Penstock\r\n\r\nLOOP\r\n"
    )


@pytest.mark.conformance("text6.header.SessionId")
def test_a_session_has_an_identifier_of_its_own_that_a_binding_repeats(device: Device) -> None:
    with device.create() as tap, device.create() as other:
        assert tap.session != other.session
        with device.rebind(tap) as again:
            assert again.session == tap.session


@pytest.mark.conformance("text6.header.ControlAddress")
@pytest.mark.config({"stream.control_link_address": "push7.example.com"})
def test_the_configured_address_for_control_connections_is_told(device: Device) -> None:
    with device.create() as tap:
        assert tap.names == ["SessionId", "ControlAddress", "KeepaliveMillis", "MaxBandwidth"]
        assert tap["ControlAddress"] == "push7.example.com"
        with device.rebind(tap) as again:
            assert again["ControlAddress"] == "push7.example.com"


@pytest.mark.conformance("text6.header.ControlAddress.none")
def test_without_a_configured_address_none_is_told(device: Device) -> None:
    with device.create() as tap:
        assert "ControlAddress" not in tap.names


@pytest.mark.conformance("text6.header.KeepaliveMillis")
def test_the_longest_silence_is_told_for_streams_and_polls(device: Device) -> None:
    with device.create(keepalive_millis=7000, idle_millis=100) as tap:
        assert tap["KeepaliveMillis"] == "7000"
    with device.create(polling=True, idle_millis=250, keepalive_millis=7000) as tap:
        assert tap["KeepaliveMillis"] == "250"


@pytest.mark.conformance("text6.header.MaxBandwidth")
def test_a_limit_of_the_server_is_told_whatever_the_client_asks_for(strict: tuple[Device, StrictMetadata]) -> None:
    device, _ = strict
    for wish in ({}, {"requested_max_bandwidth": 3}, {"requested_max_bandwidth": 300}):
        with device.create(user="limited", **wish) as tap:
            assert tap["MaxBandwidth"] == "40.5"
    with device.create(user="limited and unmanaged") as tap:
        assert tap["MaxBandwidth"] == "40.5"


@pytest.mark.conformance("text6.header.MaxBandwidth.0")
def test_without_a_limit_of_the_server_the_bandwidth_is_0(strict: tuple[Device, StrictMetadata]) -> None:
    device, _ = strict
    for wish in ({}, {"requested_max_bandwidth": 3}):
        with device.create(**wish) as tap:
            assert tap["MaxBandwidth"] == "0"
            with device.rebind(tap, **wish) as again:
                assert again["MaxBandwidth"] == "0"


@pytest.mark.conformance("text6.header.MaxBandwidth.-1")
def test_where_the_client_may_not_limit_it_the_bandwidth_is_minus_1(strict: tuple[Device, StrictMetadata]) -> None:
    device, _ = strict
    with device.create(user="unmanaged", requested_max_bandwidth=3) as tap:
        assert tap["MaxBandwidth"] == "-1"
        with device.rebind(tap, requested_max_bandwidth=3) as again:
            assert again["MaxBandwidth"] == "-1"


@pytest.mark.conformance("text6.header.RequestLimit")
@pytest.mark.config({"limits.request_limit": 12345})
def test_the_request_limit_is_told_on_request_with_every_connection(device: Device) -> None:
    with device.create(report_info=True) as tap:
        assert tap["RequestLimit"] == "12345"
        with device.rebind(tap, report_info=True) as again:
            assert again["RequestLimit"] == "12345"
            with device.rebind(again) as third:
                assert "RequestLimit" not in third.names


@pytest.mark.conformance("text6.header.ServerName")
@pytest.mark.config({"server.name": "Gate 7, Süd"})
def test_the_server_name_is_told_on_request_but_not_to_a_binding(device: Device) -> None:
    with device.create(report_info=True) as tap:
        assert tap["ServerName"] == "Gate 7, S\\u00FCd"
        with device.rebind(tap, report_info=True) as again:
            assert "ServerName" not in again.names
    with device.create() as tap:
        assert "ServerName" not in tap.names


@pytest.mark.conformance("text6.header.Preamble")
def test_streams_begin_with_filling_inside_their_header_and_polls_do_not(device: Device) -> None:
    with device.create() as tap:
        assert sum(len(line) + 2 for line in tap.preamble) >= 2048
        with device.rebind(tap) as again:
            assert again.preamble == tap.preamble
    with device.create(polling=True) as tap:
        assert tap.preamble == []
    with device.create(content_length=4095) as tap:
        assert tap.preamble == []


@pytest.mark.conformance("text6.header.Preamble.none")
@pytest.mark.config({"session.noop_padding": 0})
def test_the_filling_can_be_turned_off(exchange: Exchange, device: Device) -> None:
    with device.create() as tap:
        assert tap.preamble == []
