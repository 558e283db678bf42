"""How the hub's reasons are told to clients: the status, and the field by its name."""

from __future__ import annotations

import msgspec
import pytest

from penstock.doors.tlex.errors import STATUSES, RestRefusal, bad_request, translated, unauthorized
from penstock.exchange.refusals import HubReason, HubRefusal, going_down, unknown

FIELD = "details.tlcIdentifiers"

# What the hub says, and what a client is told whose identifiers are in FIELD.
TRANSLATIONS: list[tuple[HubRefusal, int, str]] = [
    (HubRefusal(HubReason.GRANTED_ROLE, "no"), 403, "HTTP 403 Forbidden: role: no"),
    (HubRefusal(HubReason.GRANTED_ACCOUNT, "no"), 403, "HTTP 403 Forbidden: account: no"),
    (HubRefusal(HubReason.GRANTED_POLICY, "no"), 403, "HTTP 403 Forbidden: payloadPolicy: no"),
    (HubRefusal(HubReason.GRANTED_SCOPE, "no"), 403, f"HTTP 403 Forbidden: {FIELD}: no"),
    (HubRefusal(HubReason.OWN, "no"), 400, "HTTP 400 Bad Request: no"),
    (HubRefusal(HubReason.ROLE, "no"), 403, "HTTP 403 Forbidden: no"),
    (HubRefusal(HubReason.SESSION_TYPE, "no"), 403, "HTTP 403 Forbidden: type: no"),
    (HubRefusal(HubReason.DOMAIN, "no"), 403, "HTTP 403 Forbidden: domain: no"),
    (HubRefusal(HubReason.NOT_AUTHORIZED, "no", 0), 403, f"HTTP 403 Forbidden: {FIELD}[0]: no"),
    (HubRefusal(HubReason.TOO_MANY, "no"), 400, f"HTTP 400 Bad Request: {FIELD}: no"),
    (HubRefusal(HubReason.NOT_REGISTERED, "no", 7), 400, f"HTTP 400 Bad Request: {FIELD}[7]: no"),
    (HubRefusal(HubReason.TLC_TYPE, "no"), 400, f"HTTP 400 Bad Request: {FIELD}: no"),
    (HubRefusal(HubReason.IN_USE, "no", 0), 400, f"HTTP 400 Bad Request: {FIELD}[0]: no"),
    (HubRefusal(HubReason.SINGLEPLEX, "no"), 400, "HTTP 400 Bad Request: no"),
    (HubRefusal(HubReason.LEAVING, "no"), 400, "HTTP 400 Bad Request: no"),
    (HubRefusal(HubReason.SECURITY, "no"), 400, "HTTP 400 Bad Request: securityMode: no"),
    (unknown(), 404, "HTTP 404 Not Found"),
    (
        going_down(),
        503,
        "HTTP 503 Service Unavailable: The server is shutting down; try again in a moment",
    ),
]


@pytest.mark.parametrize(("refusal", "code", "message"), TRANSLATIONS)
def test_every_reason_of_the_hub_has_a_status_and_names_its_field(refusal: HubRefusal, code: int, message: str) -> None:
    assert msgspec.to_builtins(translated(refusal, FIELD).body()) == {"message": message, "status": code}


def test_no_reason_of_the_hub_is_without_a_status() -> None:
    assert set(STATUSES) == set(HubReason) == {refusal.reason for refusal, _, _ in TRANSLATIONS}


BODIES = [
    (unauthorized(), 401, "HTTP 401 Unauthorized"),
    (bad_request("details: no"), 400, "HTTP 400 Bad Request: details: no"),
]


@pytest.mark.parametrize(("refusal", "code", "message"), BODIES)
def test_a_refusal_is_answered_in_the_documented_shape(refusal: RestRefusal, code: int, message: str) -> None:
    assert msgspec.to_builtins(refusal.body()) == {"message": message, "status": code}
