"""How a refused request is answered: an HTTP status, and a text that names the field.

Two tables translate the hub's reasons (`exchange.refusals`). What can be wrong with bytes or JSON is in
`wire.tlex.errors`; the texts with which connections end are in `messages`.
"""

from __future__ import annotations

from http import HTTPStatus

from penstock.exchange.refusals import HubReason, HubRefusal
from penstock.wire.tlex.rest import ErrorBody

STATUSES: dict[HubReason, HTTPStatus] = {
    HubReason.ROLE: HTTPStatus.FORBIDDEN,
    HubReason.SESSION_TYPE: HTTPStatus.FORBIDDEN,
    HubReason.DOMAIN: HTTPStatus.FORBIDDEN,
    HubReason.NOT_AUTHORIZED: HTTPStatus.FORBIDDEN,
    HubReason.GRANTED_ROLE: HTTPStatus.FORBIDDEN,
    HubReason.GRANTED_ACCOUNT: HTTPStatus.FORBIDDEN,
    HubReason.GRANTED_SCOPE: HTTPStatus.FORBIDDEN,
    HubReason.GRANTED_POLICY: HTTPStatus.FORBIDDEN,
    HubReason.OWN: HTTPStatus.BAD_REQUEST,
    HubReason.TOO_MANY: HTTPStatus.BAD_REQUEST,
    HubReason.NOT_REGISTERED: HTTPStatus.BAD_REQUEST,
    HubReason.TLC_TYPE: HTTPStatus.BAD_REQUEST,
    HubReason.IN_USE: HTTPStatus.BAD_REQUEST,
    HubReason.SINGLEPLEX: HTTPStatus.BAD_REQUEST,
    HubReason.LEAVING: HTTPStatus.BAD_REQUEST,
    HubReason.SECURITY: HTTPStatus.BAD_REQUEST,
    HubReason.UNKNOWN: HTTPStatus.NOT_FOUND,
    HubReason.GOING_DOWN: HTTPStatus.SERVICE_UNAVAILABLE,
}

# The field that a reason is about, where it is always the same.
_FIELDS = {
    HubReason.SESSION_TYPE: "type",
    HubReason.DOMAIN: "domain",
    HubReason.SECURITY: "securityMode",
    HubReason.GRANTED_ROLE: "role",
    HubReason.GRANTED_ACCOUNT: "account",
    HubReason.GRANTED_POLICY: "payloadPolicy",
}

# About identifiers, whose field depends on the request.
_OF_IDENTIFIERS = {
    HubReason.GRANTED_SCOPE,
    HubReason.NOT_AUTHORIZED,
    HubReason.TOO_MANY,
    HubReason.NOT_REGISTERED,
    HubReason.TLC_TYPE,
    HubReason.IN_USE,
}


class RestRefusal(Exception):
    """A refused request, which has changed nothing."""

    def __init__(self, status: HTTPStatus, text: str = "") -> None:
        super().__init__(text or status.phrase)
        self.status = status
        self.text = text

    def body(self) -> ErrorBody:
        """What the client is answered."""
        message = f"HTTP {self.status.value} {self.status.phrase}"
        return ErrorBody(message=f"{message}: {self.text}" if self.text else message, status=self.status.value)


def translated(refusal: HubRefusal, identifiers: str = "") -> RestRefusal:
    """The hub's refusal of a request whose identifiers are in a field of this name."""
    field = identifiers if refusal.reason in _OF_IDENTIFIERS else _FIELDS.get(refusal.reason, "")
    place = field if refusal.position is None else f"{field}[{refusal.position}]"
    return RestRefusal(STATUSES[refusal.reason], f"{place}: {refusal.text}" if place else refusal.text)


def bad_request(text: str) -> RestRefusal:
    return RestRefusal(HTTPStatus.BAD_REQUEST, text)


def unauthorized() -> RestRefusal:
    """No token, an unknown one, or a revoked one."""
    return RestRefusal(HTTPStatus.UNAUTHORIZED)
