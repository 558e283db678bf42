from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlex.errors import BadRequest
from penstock.wire.tlex.rest import (
    ErrorBody,
    ListenerBody,
    RequestDetails,
    SessionAnswer,
    SessionDetails,
    SessionRequest,
    TlcRequest,
    parse_details,
    parse_session_request,
    parse_tlc_request,
)
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType, Tlc, TlcType
from tests.wire.tlex.cases import TOKEN

# The examples of sections 5.2.1.1.3.3, 5.2.1.4.3 and 5.2.2.1.3, with the braces that the text has lost.
POST_BODY = b"""{
    "domain": "test",
    "type": "Broker",
    "protocol": "TCPStreaming_Multiplex",
    "details": {
        "securityMode": "NONE",
        "tlcIdentifiers": ["NLZH0023", "NLZH0024", "NLZH0025"]
    }
}"""
POST_ANSWER = """{
    "token": "cXXrqTkreh0vLbuuYKKQQGAU1MTGGGBC1N1izwYaqu8",
    "domain": "test",
    "type": "Broker",
    "protocol": "TCPStreaming_Multiplex",
    "details": {
        "securityMode": "NONE",
        "tlcIdentifiers": ["NLZH0023", "NLZH0024", "NLZH0025"],
        "listener": {
            "host": "n11.tlex.eu",
            "port": 40344,
            "expiration": "2016-11-17T16:07:56Z"
        },
        "keepAliveTimeout": "PT5S",
        "clockDiffLimit": "PT3S",
        "clockDiffLimitDuration": "PT60S",
        "payloadRateLimit": 1200,
        "payloadRateLimitDuration": "PT5S",
        "payloadThroughputLimit": 120,
        "payloadThroughputLimitDuration": "PT5S"
    }
}"""
PUT_BODY = b"""{
    "securityMode": "NONE",
    "tlcIdentifiers": ["NLZH0023", "NLZH0026"]
}"""
TLC_ANSWER = """{
    "uuid": "4aa1ace8-32b0-42b6-925a-7d7a33e97859",
    "identifier": "tlc_0001",
    "type": "TCPStreaming",
    "domain": "test",
    "account": "80b142ab-88e8-4600-9a86-8807c19b1b2a"
}"""

LIMITS: dict[str, Any] = {
    "keep_alive_timeout": timedelta(seconds=5),
    "clock_diff_limit": timedelta(seconds=3),
    "clock_diff_limit_duration": timedelta(seconds=60),
    "payload_rate_limit": 1200,
    "payload_rate_limit_duration": timedelta(seconds=5),
    "payload_throughput_limit": 120,
    "payload_throughput_limit_duration": timedelta(seconds=5),
}
LISTENER = ListenerBody(host="n11.tlex.eu", port=40344, expiration=datetime(2016, 11, 17, 16, 7, 56, tzinfo=UTC))


def same_text(answer: object, text: str) -> bool:
    """Equal in everything, the order of fields too, but for spaces."""
    return json.dumps(json.loads(msgspec.json.encode(answer))) == json.dumps(json.loads(text))


def body(**changes: Any) -> bytes:
    """The example with other values; a name with a double underscore is one of the details, None takes a field away."""
    content = json.loads(POST_BODY)
    for name, value in changes.items():
        place = content
        if name.startswith("details__"):
            place, name = content["details"], name.removeprefix("details__")
        if value is None:
            del place[name]
        else:
            place[name] = value
    return json.dumps(content).encode()


def test_the_example_of_a_request_for_a_session_is_read() -> None:
    assert parse_session_request(POST_BODY) == SessionRequest(
        domain="test",
        type=SessionType.BROKER,
        protocol=Protocol.MULTIPLEX,
        details=RequestDetails(security_mode=SecurityMode.NONE, tlc_identifiers=("NLZH0023", "NLZH0024", "NLZH0025")),
    )


def test_the_example_of_an_update_is_read() -> None:
    details = parse_details(PUT_BODY, Protocol.MULTIPLEX)
    assert details.identifiers == ("NLZH0023", "NLZH0026")
    assert details.security_mode is SecurityMode.NONE


def test_the_example_of_a_session_is_written_with_its_names_and_their_order() -> None:
    session = SessionAnswer(
        token=TOKEN,
        domain="test",
        type=SessionType.BROKER,
        protocol=Protocol.MULTIPLEX,
        details=SessionDetails(
            security_mode=SecurityMode.NONE,
            tlc_identifiers=("NLZH0023", "NLZH0024", "NLZH0025"),
            listener=LISTENER,
            **LIMITS,
        ),
    )
    assert same_text(session, POST_ANSWER)
    # As a client reads it.
    assert msgspec.json.decode(POST_ANSWER, type=SessionAnswer) == session


def test_a_singleplex_session_has_one_identifier_and_no_list() -> None:
    request = parse_session_request(
        body(
            type="TLC",
            protocol="TCPStreaming_Singleplex",
            details={"securityMode": "TLSv1.2", "tlcIdentifier": "tlc_0001"},
        )
    )
    assert request.details.identifiers == ("tlc_0001",)
    details = SessionDetails(security_mode=SecurityMode.TLS, tlc_identifier="tlc_0001", listener=LISTENER, **LIMITS)
    written = json.loads(msgspec.json.encode(details))
    assert list(written)[:3] == ["securityMode", "tlcIdentifier", "listener"]
    assert written["securityMode"] == "TLSv1.2"
    assert "tlcIdentifiers" not in written


def test_the_example_of_a_controller_is_written_with_its_names_and_their_order() -> None:
    tlc = Tlc(
        uuid="4aa1ace8-32b0-42b6-925a-7d7a33e97859",
        identifier="tlc_0001",
        type=TlcType.TCP_STREAMING,
        domain="test",
        account="80b142ab-88e8-4600-9a86-8807c19b1b2a",
    )
    assert same_text(tlc, TLC_ANSWER)


def test_an_error_is_written_as_documented() -> None:
    error = ErrorBody(message="HTTP 401 Unauthorized", status=401)
    assert same_text(error, '{"message":"HTTP 401 Unauthorized","status":401}')


def test_tls_may_be_written_with_an_underscore() -> None:
    for name in ("TLSv1.2", "TLSv1_2"):
        assert parse_session_request(body(details__securityMode=name)).details.security_mode is SecurityMode.TLS


def test_a_domain_is_the_same_in_upper_case() -> None:
    assert parse_session_request(body(domain="TesT")).domain == "test"


def test_fields_that_are_not_known_are_ignored() -> None:
    assert parse_session_request(body(more=[1], details__more={})) == parse_session_request(POST_BODY)


@pytest.mark.parametrize(("type_", "allowed"), [("TLC", True), ("Broker", False), ("Monitor", False)])
def test_only_controllers_have_singleplex_sessions(type_: str, allowed: bool) -> None:
    data = body(
        type=type_,
        protocol="TCPStreaming_Singleplex",
        details={"securityMode": "NONE", "tlcIdentifier": "tlc_0001"},
    )
    if allowed:
        assert parse_session_request(data).protocol is Protocol.SINGLEPLEX
    else:
        with pytest.raises(BadRequest, match=r"^protocol: 'TCPStreaming_Singleplex' is only for type 'TLC'; "):
            parse_session_request(data)


ALLOWED_TYPES = "allowed: TLC, Broker, Monitor"
ALLOWED_PROTOCOLS = "allowed: TCPStreaming_Singleplex, TCPStreaming_Multiplex, VLOG"
ALLOWED_MODES = "allowed: NONE, TLSv1.2"

BAD: list[tuple[bytes, str]] = [
    (b"", "The body is not JSON: "),
    (b"{", "The body is not JSON: "),
    (b"domain=test", "The body is not JSON: "),
    (POST_BODY + b"}", "The body is not JSON: "),
    (b'{"domain": "\xff"}', "The body is not JSON: "),
    (b'{"domain": "\\ud800"}', "The body is not JSON: "),
    (b'{"more":' + b"[" * 100_000, "The body is nested too deeply"),
    (b"[]", "Expected `object`, got `array`"),
    (b"null", "Expected `object`, got `null`"),
    (body(domain=None), "domain: missing"),
    (body(domain=""), "domain: Expected `str` of length >= 1"),
    (body(domain=1), "domain: Expected `str`, got `int`"),
    (body(type=None), "type: missing"),
    (body(type="broker"), f"type: Invalid enum value 'broker', {ALLOWED_TYPES}"),
    (body(type="x" * 1_000), f"type: Invalid enum value '{'x' * 99}"),
    (body(protocol=None), "protocol: missing"),
    (body(protocol="vlog"), f"protocol: Invalid enum value 'vlog', {ALLOWED_PROTOCOLS}"),
    (body(protocol="VLOG"), "protocol: 'VLOG' is only for type 'TLC'; type 'Broker' must have"),
    (
        body(type="TLC", protocol="VLOG"),
        "details.tlcIdentifiers: not allowed with protocol 'VLOG', which has details.tlcIdentifier",
    ),
    (body(details=None), "details: missing"),
    (body(details=[]), "details: Expected `object`, got `array`"),
    (body(details__securityMode=None), "details.securityMode: missing"),
    (body(details__securityMode="TLS"), f"details.securityMode: Invalid enum value 'TLS', {ALLOWED_MODES}"),
    (body(details__tlcIdentifiers=None), "details.tlcIdentifiers: missing"),
    (body(details__tlcIdentifiers="NLZH0023"), "details.tlcIdentifiers: Expected `array`, got `str`"),
    (body(details__tlcIdentifiers=[]), "details.tlcIdentifiers: 0 identifiers, allowed: 1 to 100"),
    (
        body(details__tlcIdentifiers=[f"tlc_{number:04}" for number in range(101)]),
        "details.tlcIdentifiers: 101 identifiers, allowed: 1 to 100",
    ),
    (
        body(details__tlcIdentifiers=["NLZH0023", "NLZH0024", "NLZH0023"]),
        "details.tlcIdentifiers[2]: 'NLZH0023' is given twice",
    ),
    (
        body(details__tlcIdentifier="NLZH0023"),
        "details.tlcIdentifier: not allowed with protocol 'TCPStreaming_Multiplex', which has details.tlcIdentifiers",
    ),
    (
        body(type="TLC", protocol="TCPStreaming_Singleplex"),
        "details.tlcIdentifiers: not allowed with protocol 'TCPStreaming_Singleplex', which has details.tlcIdentifier",
    ),
    (
        body(type="TLC", protocol="TCPStreaming_Singleplex", details__tlcIdentifiers=None),
        "details.tlcIdentifier: missing",
    ),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_a_bad_request_is_told_by_its_field(data: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=f"^{re.escape(message)}") as caught:
        parse_session_request(data)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "identifier",
    ["", "NLZH002", "NLZH00234", "NLZH 023", "NLZH002\xe9", "NLZH0023\n", "NLZH002\n", "NLZH002\0", "٣" * 8],
)
def test_an_identifier_is_eight_letters_digits_lines_and_dashes(identifier: str) -> None:
    with pytest.raises(BadRequest, match=r"^details\.tlcIdentifiers\[1\]: Expected `str` "):
        parse_session_request(body(details__tlcIdentifiers=["aZ09_-aZ", identifier]))


def test_an_update_is_told_its_field_without_the_details() -> None:
    with pytest.raises(BadRequest, match=r"^tlcIdentifiers: 0 identifiers, allowed: 1 to 100$"):
        parse_details(b'{"securityMode": "NONE", "tlcIdentifiers": []}', Protocol.MULTIPLEX)
    with pytest.raises(BadRequest, match=r"^securityMode: missing$"):
        parse_details(b'{"tlcIdentifiers": ["NLZH0023"]}', Protocol.MULTIPLEX)


def test_the_limit_of_identifiers_can_be_another() -> None:
    assert len(parse_session_request(POST_BODY, 3).details.identifiers) == 3
    with pytest.raises(BadRequest, match=r"3 identifiers, allowed: 1 to 2$"):
        parse_session_request(POST_BODY, 2)
    with pytest.raises(BadRequest, match=r"2 identifiers, allowed: 1 to 1$"):
        parse_details(PUT_BODY, Protocol.MULTIPLEX, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from(["NONE", "TLC", "NLZH0023"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["domain", "type", "protocol", "details", "securityMode", "tlcIdentifiers"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_a_request_or_a_bad_one(data: bytes) -> None:
    try:
        request = parse_session_request(data)
    except BadRequest:
        return
    assert 1 <= len(request.details.identifiers) <= 100


def test_a_request_for_a_controller_is_read() -> None:
    assert parse_tlc_request(b'{"identifier": "NLZH0023"}') == TlcRequest(identifier="NLZH0023")
    whole = b'{"identifier": "NLZH0023", "type": "VLOG", "domain": "Test", "more": 1}'
    assert parse_tlc_request(whole) == TlcRequest(identifier="NLZH0023", type=TlcType.VLOG, domain="test")


BAD_CONTROLLERS = {
    b'{"identifier": "short"}': "identifier: Expected `str` of length >= 8",
    b'{"identifier": "NLZH 023"}': "identifier: Expected `str` matching regex",
    b'{"identifier": "NLZH0023", "type": "MIDI"}': "type: Invalid enum value 'MIDI', allowed: TCPStreaming, VLOG",
    b'{"identifier": "NLZH0023", "domain": ""}': "domain: Expected `str` of length >= 1",
    b'{"type": "VLOG"}': "identifier: missing",
    b"[]": "Expected `object`, got `array`",
    b"{": "The body is not JSON: ",
    b'{"more": ' + b"[" * 100_000: "The body is nested too deeply",
}


@pytest.mark.parametrize("body", BAD_CONTROLLERS, ids=lambda body: body[:50].decode())
def test_a_bad_request_for_a_controller_is_told_by_its_field(body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_tlc_request(body)
    assert str(caught.value).startswith(BAD_CONTROLLERS[body])
