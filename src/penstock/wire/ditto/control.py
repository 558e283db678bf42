"""The lines on a WebSocket that are not JSON: which live signals a client wants to be sent, and a new token.

`START-SEND-EVENTS?namespaces=a,b&filter=gt(attributes/x,1)`; the answer is the name with `:ACK`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import unquote_plus

from penstock.wire.ditto.errors import UNKNOWN_SIGNAL, DittoError
from penstock.wire.ditto.fields import Fields, parse_fields
from penstock.wire.ditto.rql import Query, parse_rql


class Signals(StrEnum):
    """What the server can send unasked."""

    EVENTS = "EVENTS"
    MESSAGES = "MESSAGES"
    LIVE_COMMANDS = "LIVE-COMMANDS"
    LIVE_EVENTS = "LIVE-EVENTS"
    POLICY_ANNOUNCEMENTS = "POLICY-ANNOUNCEMENTS"


@dataclass(frozen=True, slots=True)
class StartSending:
    """Send these from now on. No namespaces means all of them. Send `acknowledgement` first."""

    signals: Signals
    namespaces: tuple[str, ...] = ()
    filter: Query | None = None
    extra_fields: Fields | None = None

    @property
    def acknowledgement(self) -> str:
        return f"START-SEND-{self.signals}:ACK"

    def wants(self, namespace: str) -> bool:
        return not self.namespaces or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class StopSending:
    """Stop sending these. Send `acknowledgement`, even if nothing was being sent."""

    signals: Signals

    @property
    def acknowledgement(self) -> str:
        return f"STOP-SEND-{self.signals}:ACK"


@dataclass(frozen=True, slots=True)
class RenewToken:
    """Go on with this token; it must be of the same subject. There is no acknowledgement."""

    token: str = field(repr=False)


ControlLine = StartSending | StopSending | RenewToken

_TOKEN = "JWT-TOKEN"
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parse_control(text: str) -> ControlLine | None:
    """What a line asks for; None if it is not such a line, and then probably an envelope.

    Raises the error to answer with, instead of the acknowledgement, when its parameters are invalid.
    """
    if text.startswith(_TOKEN):
        return RenewToken(_parameters(text).get("jwtToken", ""))
    for signals in Signals:
        if text.startswith(f"START-SEND-{signals}"):
            return _start(signals, _parameters(text))
        if text.startswith(f"STOP-SEND-{signals}"):
            return StopSending(signals)
    return None


def _start(signals: Signals, parameters: dict[str, str]) -> StartSending:
    namespaces, expression, extra = (parameters.get(name) for name in ("namespaces", "filter", "extraFields"))
    return StartSending(
        signals,
        tuple(namespaces.split(",")) if namespaces else (),
        parse_rql(expression) if expression else None,
        parse_fields(extra) if extra else None,
    )


def _parameters(text: str) -> dict[str, str]:
    name, question, query = text.partition("?")
    if not question or not query:
        return {}
    parameters: dict[str, str] = {}
    for pair in query.split("&"):
        key, equals, value = pair.partition("=")
        if not equals:
            # Not quoted: it could be a token.
            raise _invalid(name, "A parameter has no '='.")
        key = _decoded(key, name)
        if key in parameters:
            raise _invalid(name, f"Parameter '{key[:60]}' is given twice.")
        parameters[key] = _decoded(value, name)
    return parameters


def _decoded(text: str, name: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise _invalid(name, "A parameter is not URL encoded: after '%' two hexadecimal digits are expected.")
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise _invalid(name, "A parameter is not URL encoded: its bytes are not UTF-8.") from None


def _invalid(name: str, description: str) -> DittoError:
    return UNKNOWN_SIGNAL.of(name[:60], description=description)
