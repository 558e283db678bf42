"""The status of an acknowledgement is passed on as that of an answer, so it is one of HTTP."""

from __future__ import annotations

import json

import pytest

from penstock.wire.ditto.acks import parse_acknowledgement
from penstock.wire.ditto.envelope import Envelope, parse_envelope
from penstock.wire.ditto.errors import DittoError


def acknowledgement(status: int) -> Envelope:
    message = {"topic": "ns/a/things/twin/acks/my:label", "path": "/", "headers": {}, "status": status}
    return parse_envelope(json.dumps(message))


@pytest.mark.parametrize("status", [-1, 0, 99, 600, 99_999])
def test_one_that_http_does_not_have_is_refused(status: int) -> None:
    with pytest.raises(DittoError) as refused:
        parse_acknowledgement(acknowledgement(status))
    assert (refused.value.status, refused.value.code) == (400, "json.invalid")


@pytest.mark.parametrize("status", [100, 204, 599])
def test_all_others_are_taken(status: int) -> None:
    assert parse_acknowledgement(acknowledgement(status)).status == status
