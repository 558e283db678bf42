from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.control import RenewToken, Signals, StartSending, StopSending, parse_control
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.fields import parse_fields
from penstock.wire.ditto.rql import parse_rql


@pytest.mark.parametrize(
    ("text", "signals"),
    [
        ("START-SEND-EVENTS", Signals.EVENTS),
        ("START-SEND-MESSAGES", Signals.MESSAGES),
        ("START-SEND-LIVE-COMMANDS", Signals.LIVE_COMMANDS),
        ("START-SEND-LIVE-EVENTS", Signals.LIVE_EVENTS),
        ("START-SEND-POLICY-ANNOUNCEMENTS", Signals.POLICY_ANNOUNCEMENTS),
    ],
)
def test_each_kind_of_signal_is_started_and_stopped_and_acknowledged(text: str, signals: Signals) -> None:
    start = parse_control(text)
    assert start == StartSending(signals)
    assert isinstance(start, StartSending)
    assert start.acknowledgement == f"{text}:ACK"
    stop = parse_control(text.replace("START", "STOP"))
    assert stop == StopSending(signals)
    assert isinstance(stop, StopSending)
    assert stop.acknowledgement == f"{text.replace('START', 'STOP')}:ACK"


def test_the_acknowledgement_has_no_parameters() -> None:
    start = parse_control("START-SEND-EVENTS?filter=" + quote('like(thingId,"a*")'))
    assert isinstance(start, StartSending)
    assert start.acknowledgement == "START-SEND-EVENTS:ACK"


def test_parameters_are_decoded() -> None:
    text = (
        "START-SEND-EVENTS?namespaces=org.eclipse,demo&filter=eq(attributes%2Fcolour,'deep+red')"
        "&extraFields=attributes/x%2CthingId&correlation-id=c"
    )
    start = parse_control(text)
    assert start == StartSending(
        Signals.EVENTS,
        ("org.eclipse", "demo"),
        parse_rql("eq(attributes/colour,'deep red')"),
        parse_fields("attributes/x,thingId"),
    )
    assert isinstance(start, StartSending)
    assert start.wants("demo")
    assert not start.wants("other")


@pytest.mark.parametrize("text", ["START-SEND-EVENTS?", "START-SEND-EVENTS?namespaces=&filter=&extraFields="])
def test_empty_parameters_restrict_nothing(text: str) -> None:
    start = parse_control(text)
    assert start == StartSending(Signals.EVENTS)
    assert isinstance(start, StartSending)
    assert start.wants("anything")


def test_a_line_is_known_by_how_it_begins() -> None:
    assert parse_control("STOP-SEND-EVENTS and whatever") == StopSending(Signals.EVENTS)


def test_a_token_is_renewed_and_not_shown() -> None:
    renew = parse_control("JWT-TOKEN?jwtToken=abc.def.ghi")
    assert renew == RenewToken("abc.def.ghi")
    assert "abc" not in repr(renew)
    assert parse_control("JWT-TOKEN") == RenewToken("")


@pytest.mark.parametrize("text", ["", "{}", "HELLO", "start-send-events", " START-SEND-EVENTS", "START-SEND-"])
def test_anything_else_is_no_control_line(text: str) -> None:
    assert parse_control(text) is None


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("filter=eq(", "rql.expression.invalid"),
        ("extraFields=a(", "json.fieldselector.invalid"),
        ("filter", "protocoladapter:unknown.signal"),
        ("filter=%zz", "protocoladapter:unknown.signal"),
        ("filter=%ff", "protocoladapter:unknown.signal"),
        ("namespaces=a&namespaces=b", "protocoladapter:unknown.signal"),
    ],
)
def test_bad_parameters_are_error_400(query: str, code: str) -> None:
    with pytest.raises(DittoError) as caught:
        parse_control(f"START-SEND-EVENTS?{query}")
    assert (caught.value.status, caught.value.code) == (400, code)


def test_an_error_about_a_token_does_not_repeat_it() -> None:
    with pytest.raises(DittoError) as caught:
        parse_control("JWT-TOKEN?secret")
    assert "secret" not in str(caught.value.as_value())


@given(st.text(max_size=40).map(lambda rest: "START-SEND-EVENTS?" + rest))
def test_any_line_is_understood_or_error_400(text: str) -> None:
    status = 0
    try:
        assert isinstance(parse_control(text), StartSending)
    except DittoError as error:
        status = error.status
    assert status in (0, 400)
