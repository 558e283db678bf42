from __future__ import annotations

import json

import pytest

from penstock.wire.tlex.errors import BadRequest
from penstock.wire.tlex.templates import filled, parse_fields, parse_template_request
from penstock.wire.tlex.vocabulary import SessionType

FIELDS = json.dumps({"type": "Broker", "details": {"securityMode": "NONE", "tlcIdentifiers": ["NLZH0023"]}})


def fill(given: object) -> object:
    return json.loads(filled(json.dumps(given).encode(), "test", FIELDS))


def test_a_template_fills_what_a_request_does_not_say() -> None:
    assert fill({}) == {"domain": "test", **json.loads(FIELDS)}
    assert fill({"type": "TLC", "domain": "other", "details": {"securityMode": "TLSv1.2"}}) == {
        "domain": "other",
        "type": "TLC",
        "details": {"securityMode": "TLSv1.2", "tlcIdentifiers": ["NLZH0023"]},
    }


def test_identifiers_of_the_request_replace_those_of_the_template() -> None:
    whole = fill({"details": {"tlcIdentifier": "NLZH0024"}})
    assert isinstance(whole, dict)
    assert whole["details"] == {"securityMode": "NONE", "tlcIdentifier": "NLZH0024"}


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff", b"[" * 100_000, b"1"])
def test_what_is_no_object_stays_as_it_is(body: bytes) -> None:
    assert filled(body, "test", FIELDS) == body


def test_details_that_are_no_object_are_left_to_the_parser() -> None:
    assert fill({"details": 5}) == {"domain": "test", "type": "Broker", "details": 5}


def test_a_template_is_parsed() -> None:
    found = parse_template_request(b'{"name": "north", "domain": "Test", "type": "Broker"}')
    assert (found.name, found.domain, found.fields.type) == ("north", "test", SessionType.BROKER)
    assert parse_fields(FIELDS).type is SessionType.BROKER
    for body, message in ((b"{}", "name: missing"), (b'{"name": "x", "type": "King"}', "type: ")):
        with pytest.raises(BadRequest, match=message):
            parse_template_request(body)
