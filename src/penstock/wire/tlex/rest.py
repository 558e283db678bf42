"""The JSON of the REST side: requests for sessions, sessions, registered controllers, errors; names as specified.

No HTTP and no rights: the door knows who may use which identifier. Specification: 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, TypeVar

from msgspec import UNSET, DecodeError, Meta, Struct, UnsetType, ValidationError
from msgspec.json import Decoder
from msgspec.structs import replace

from penstock.wire.tlex.errors import BadRequest
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType, TlcType

# The identifier of a controller: eight ASCII characters, case-sensitive. The length is checked as well, because `$`
# also matches before a final line feed.
Identifier = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{8}$", min_length=8, max_length=8, examples=["NLZH0023"])]
DomainName = Annotated[str, Meta(min_length=1, examples=["test"])]

# Number and duplicates are checked in code, so that the error can say how many there are and which is duplicated.
Identifiers = Annotated[tuple[Identifier, ...], Meta(extra_json_schema={"minItems": 1, "uniqueItems": True})]

# How many characters of the library's error are quoted: it may contain a value of any length.
MAX_COMPLAINT = 120

# In one session, unless configured otherwise.
MAX_IDENTIFIERS = 100

T = TypeVar("T")


class RequestDetails(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is asked for: a list of identifiers in a multiplex session, one in all others."""

    security_mode: SecurityMode
    tlc_identifier: Identifier | UnsetType = UNSET
    tlc_identifiers: Identifiers | UnsetType = UNSET

    @property
    def identifiers(self) -> tuple[str, ...]:
        """One or several, in the order of the request."""
        if self.tlc_identifiers is not UNSET:
            return self.tlc_identifiers
        return () if self.tlc_identifier is UNSET else (self.tlc_identifier,)


class SessionRequest(Struct, frozen=True, kw_only=True):
    """The body of POST /sessions. Domains are case-insensitive; here they are in lower case."""

    domain: DomainName
    type: SessionType
    protocol: Protocol
    details: RequestDetails


class ListenerBody(Struct, frozen=True, kw_only=True):
    """Where to connect to, and until when."""

    host: str
    port: int
    expiration: Annotated[datetime, Meta(tz=True)]


class SessionDetails(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was requested, and what the server adds. The throughput limit is in KB (1024 bytes) per second."""

    security_mode: SecurityMode
    tlc_identifier: str | UnsetType = UNSET
    tlc_identifiers: tuple[str, ...] | UnsetType = UNSET
    listener: ListenerBody
    keep_alive_timeout: timedelta
    clock_diff_limit: timedelta
    clock_diff_limit_duration: timedelta
    payload_rate_limit: int
    payload_rate_limit_duration: timedelta
    payload_throughput_limit: int
    payload_throughput_limit_duration: timedelta


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """The answer to POST, GET and PUT. The token is a secret until it is used."""

    token: str
    domain: str
    type: SessionType
    protocol: Protocol
    details: SessionDetails


class TlcRequest(Struct, frozen=True, kw_only=True):
    """The body of POST /tlcs and PUT /tlcs/{uuid}.

    A new controller is by default one of streams, in the domain of the authorization. One that changes stays what it is
    where nothing is said.
    """

    identifier: Identifier
    type: TlcType | UnsetType = UNSET
    domain: DomainName | UnsetType = UNSET


class ErrorBody(Struct, frozen=True, kw_only=True):
    """The answer to a refused request."""

    message: str
    status: int


_REQUEST = Decoder(SessionRequest)
_DETAILS = Decoder(RequestDetails)
_TLC = Decoder(TlcRequest)

_PLACE = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")

_ALLOWED = {
    "type": ", ".join([each.value for each in SessionType]),
    "protocol": ", ".join([each.value for each in Protocol]),
    "securityMode": ", ".join([each.value for each in SecurityMode]),
}
_ALLOWED_OF_TLC = {"type": ", ".join([each.value for each in TlcType])}


def parse_session_request(body: bytes, max_identifiers: int = MAX_IDENTIFIERS) -> SessionRequest:
    """The body of POST /sessions; unknown fields are ignored. Raises BadRequest, naming the field."""
    request = parse(_REQUEST, body)
    request = replace(request, domain=request.domain.lower())
    if request.protocol is not Protocol.MULTIPLEX and request.type is not SessionType.TLC:
        raise BadRequest(
            f"protocol: {request.protocol.value!r} is only for type {SessionType.TLC.value!r}; "
            f"type {request.type.value!r} must have {Protocol.MULTIPLEX.value!r}"
        )
    _check_identifiers(request.details, request.protocol, "details.", max_identifiers)
    return request


def parse_details(body: bytes, protocol: Protocol, max_identifiers: int = MAX_IDENTIFIERS) -> RequestDetails:
    """The body of PUT /sessions/{token}, for a session of this protocol. Raises BadRequest, naming the field."""
    details = parse(_DETAILS, body)
    _check_identifiers(details, protocol, "", max_identifiers)
    return details


def parse_tlc_request(body: bytes) -> TlcRequest:
    """The body of POST /tlcs. Raises BadRequest, naming the field."""
    request = parse(_TLC, body, _ALLOWED_OF_TLC)
    return request if request.domain is UNSET else replace(request, domain=request.domain.lower())


def _check_identifiers(details: RequestDetails, protocol: Protocol, path: str, most: int) -> None:
    one, several = f"{path}tlcIdentifier", f"{path}tlcIdentifiers"
    wanted, other = (several, one) if protocol is Protocol.MULTIPLEX else (one, several)
    given = {one: details.tlc_identifier is not UNSET, several: details.tlc_identifiers is not UNSET}
    if given[other]:
        raise BadRequest(f"{other}: not allowed with protocol {protocol.value!r}, which has {wanted}")
    if not given[wanted]:
        raise BadRequest(f"{wanted}: missing")
    identifiers = details.identifiers
    if not 0 < len(identifiers) <= most:
        raise BadRequest(f"{wanted}: {len(identifiers)} identifiers, allowed: 1 to {most}")
    seen: set[str] = set()
    for index, identifier in enumerate(identifiers):
        if identifier in seen:
            raise BadRequest(f"{wanted}[{index}]: {identifier!r} is given twice")
        seen.add(identifier)


def parse(decoder: Decoder[T], body: bytes, allowed: Mapping[str, str] = _ALLOWED) -> T:
    """What a body contains. Raises BadRequest, naming the field and the `allowed` values of fields that have few."""
    try:
        return decoder.decode(body)
    except ValidationError as error:
        raise BadRequest(_described(str(error), allowed)) from None
    except (DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The body is not JSON: {error}") from None
    except RecursionError:
        raise BadRequest("The body is nested too deeply") from None


def _described(text: str, values: Mapping[str, str]) -> str:
    """The error of the library after the name of the field, with the allowed values."""
    place = _PLACE.fullmatch(text)
    message, path = (place[1], place[2]) if place else (text, "")
    missing = _MISSING.fullmatch(message)
    if missing:
        return f"{path}.{missing[1]}: missing" if path else f"{missing[1]}: missing"
    if len(message) > MAX_COMPLAINT:
        message = message[:MAX_COMPLAINT] + "..."
    allowed = values.get(path.rpartition(".")[2])
    if allowed is not None:
        message = f"{message}, allowed: {allowed}"
    return f"{path}: {message}" if path else message
