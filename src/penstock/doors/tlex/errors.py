"""Why a request of a client is refused: an HTTP status and a text that names the field.

What can be wrong with bytes or JSON is in `wire.tlex.errors`; why connections end is in `wire.tlex.reasons`.
"""

from __future__ import annotations

from http import HTTPStatus

from penstock.wire.tlex.rest import ErrorBody


class Refusal(Exception):
    """Nothing has changed."""

    def __init__(self, status: HTTPStatus, text: str = "") -> None:
        super().__init__(text or status.phrase)
        self.status = status
        self.text = text

    def body(self) -> ErrorBody:
        """What the client is answered."""
        message = f"HTTP {self.status.value} {self.status.phrase}"
        return ErrorBody(message=f"{message}: {self.text}" if self.text else message, status=self.status.value)


def bad_request(text: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, text)


def forbidden(text: str) -> Refusal:
    return Refusal(HTTPStatus.FORBIDDEN, text)


def unauthorized() -> Refusal:
    """No token, an unknown one, or a revoked one."""
    return Refusal(HTTPStatus.UNAUTHORIZED)


def not_found() -> Refusal:
    """Also for what belongs to others: who guesses a token must not learn that it exists."""
    return Refusal(HTTPStatus.NOT_FOUND)


def going_down() -> Refusal:
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "The server is going down; try again in a moment")
