from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from penstock.testing.ditto_reader import read_item
from penstock.wire.ditto.envelope import (
    Envelope,
    UnreadableMessage,
    boolean_header,
    duration_header,
    parse_envelope,
    text_header,
)
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.kinds import Action
from penstock.wire.ditto.topic import Criterion, thing_topic

from .values import OBJECTS, TEXT, VALUES

MODIFY = thing_topic("a", "b", Criterion.COMMANDS, Action.MODIFY)
MESSAGE = {"topic": "a/b/things/twin/commands/modify", "path": "/attributes/x"}


def test_a_message_has_all_members_of_the_protocol() -> None:
    text = (
        b'{"topic":"a/b/things/twin/events/modified","headers":{"correlation-id":"c"},"path":"/attributes/x",'
        b'"fields":"thingId","value":1,"extra":{"attributes":{}},"metadata":{"m":1},"status":200,"revision":7,'
        b'"timestamp":"2024-01-01T00:00:00.123Z"}'
    )
    envelope = parse_envelope(text)
    assert envelope == Envelope(
        thing_topic("a", "b", Criterion.EVENTS, Action.MODIFIED),
        "/attributes/x",
        {"correlation-id": "c"},
        1,
        "thingId",
        200,
        7,
        "2024-01-01T00:00:00.123Z",
        {"attributes": {}},
        {"m": 1},
    )
    assert envelope.to_bytes() == text
    assert envelope.pointer == ("attributes", "x")


def test_headers_may_be_missing_and_their_names_have_no_case() -> None:
    assert parse_envelope(json.dumps(MESSAGE)).headers == {}
    assert parse_envelope(json.dumps({**MESSAGE, "headers": None})).headers == {}
    given_headers = {"Content-Type": "x", "version": 2, "Correlation-ID": "c", "gone": None}
    envelope = parse_envelope(json.dumps({**MESSAGE, "headers": given_headers}))
    assert envelope.headers == {"content-type": "x", "version": 2, "correlation-id": "c"}


def test_a_value_that_is_null_is_not_one_that_is_missing() -> None:
    assert parse_envelope(json.dumps(MESSAGE)).value is UNSET
    assert parse_envelope(json.dumps({**MESSAGE, "value": None})).value is None
    assert b'"value":null' in Envelope(MODIFY, value=None).to_bytes()
    assert b"value" not in Envelope(MODIFY).to_bytes()


def test_members_nobody_knows_are_ignored() -> None:
    assert parse_envelope(json.dumps({**MESSAGE, "foo": [1]})) == parse_envelope(json.dumps(MESSAGE))


@given(
    st.dictionaries(
        TEXT.map(str.lower).filter(lambda name: name != "correlation-id"),
        VALUES.filter(lambda v: v is not None),
        max_size=3,
    ),
    VALUES,
    st.none() | OBJECTS,
    st.none() | st.integers(0, 2**63 - 1),
)
def test_what_is_written_is_read(headers: Any, value: Any, extra: Any, revision: int | None) -> None:
    headers = {name: inner for name, inner in headers.items() if name == name.lower()}
    envelope = Envelope(MODIFY, "/attributes/x", headers, value, revision=revision, extra=extra)
    assert parse_envelope(envelope.to_bytes()).to_bytes() == envelope.to_bytes()
    assert read_item(envelope.to_json()).to_bytes() == envelope.to_bytes()


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("{", "json.invalid", "Failed to parse JSON string '{'!"),
        ("HELLO", "json.invalid", "Failed to parse JSON string 'HELLO'!"),
        ("[]", "json.invalid", "Value <[]> for </> is not of type <JsonObject>!"),
        ("{}", "json.field.missing", "JSON did not include required </topic> field!"),
        ('{"topic":null}', "json.field.missing", "JSON did not include required </topic> field!"),
        ('{"topic":5}', "json.invalid", "Value <5> for </topic> is not of type <String>!"),
        ('{"topic":"x"}', "protocoladapter:unknown.topicpath", "The topic path 'x' is not supported."),
        ('{"topic":"a/b/things/twin/errors","headers":[]}', "json.invalid", "Value <[]> for </headers> is not of type"),
        (
            '{"topic":"a/b/things/twin/errors","headers":{"correlation-id":{}}}',
            "json.invalid",
            "Value <{}> for </headers/correlation-id> is not of type <String>!",
        ),
    ],
)
def test_what_cannot_be_read_is_answered_on_the_topic_of_unknown_messages(text: str, code: str, message: str) -> None:
    with pytest.raises(UnreadableMessage) as caught:
        parse_envelope(text)
    answer = caught.value.answer()
    assert str(answer.topic) == "unknown/unknown/things/twin/errors"
    assert answer.status == 400
    assert json.loads(answer.to_bytes())["value"]["error"] == code
    assert json.loads(answer.to_bytes())["value"]["message"].startswith(message)


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ({}, "json.field.missing"),
        ({"path": 1}, "json.invalid"),
        ({"path": "/", "fields": 1}, "json.invalid"),
        ({"path": "/", "status": "200"}, "json.invalid"),
        ({"path": "/", "revision": 1.5}, "json.invalid"),
        ({"path": "/", "timestamp": "now"}, "json.invalid"),
        ({"path": "/", "extra": []}, "json.invalid"),
        ({"path": "/", "metadata": "m"}, "json.invalid"),
    ],
)
def test_an_error_goes_to_the_entity_and_has_the_correlation_id_when_these_are_known(member: Any, code: str) -> None:
    message = {"topic": "a/b/things/twin/commands/modify", "headers": {"correlation-id": "c"}, **member}
    with pytest.raises(UnreadableMessage) as caught:
        parse_envelope(json.dumps(message))
    answer = json.loads(caught.value.answer().to_bytes())
    assert answer["topic"] == "a/b/things/twin/errors"
    assert answer["headers"] == {"correlation-id": "c", "content-type": "application/json"}
    assert (answer["status"], answer["path"], answer["value"]["error"]) == (400, "/", code)


def test_the_correlation_id_is_known_even_if_the_topic_is_not() -> None:
    with pytest.raises(UnreadableMessage) as caught:
        parse_envelope('{"topic":"x","headers":{"correlation-id":"c"}}')
    assert caught.value.headers == {"correlation-id": "c"}


@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_message_or_refused(text: bytes) -> None:
    answer: dict[str, Any] = {"status": 400}
    try:
        parse_envelope(text)
    except UnreadableMessage as refused:
        answer = json.loads(refused.answer().to_bytes())
    assert answer["status"] == 400


@pytest.mark.parametrize(
    ("value", "meant"), [(True, True), (False, False), ("true", True), ("false", False), (None, True)]
)
def test_a_boolean_header_may_be_a_text(value: Any, meant: bool) -> None:
    assert boolean_header({"response-required": value}, "response-required", True) is meant


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, 15.0), (10, 10.0), ("10", 10.0), ("10s", 10.0), ("500ms", 0.5), ("1m", 60.0)]
)
def test_a_time_may_be_in_seconds_milliseconds_and_minutes(value: Any, seconds: float) -> None:
    assert duration_header({"timeout": value}, "timeout", 15.0) == seconds


@pytest.mark.parametrize("value", [0, "0ms", -1, 1.5, 61, "2m", "1h", "soon", "", "999999999999", [], True])
def test_a_time_that_is_none_or_too_long_is_error_400(value: Any) -> None:
    with pytest.raises(DittoError) as caught:
        duration_header({"timeout": value}, "timeout", 15.0)
    assert (caught.value.status, caught.value.code) == (400, "header.invalid")
    assert "'timeout'" in caught.value.message


def test_headers_of_other_types_are_error_400() -> None:
    with pytest.raises(DittoError, match="The value '5' of the header 'response-required' is not a valid boolean"):
        _ = Envelope(MODIFY, headers={"response-required": 5}).response_required
    with pytest.raises(DittoError, match="is not a valid text"):
        text_header({"if-equal": []}, "if-equal")
    assert text_header({"at-historical-revision": 5}, "at-historical-revision") == "5"
