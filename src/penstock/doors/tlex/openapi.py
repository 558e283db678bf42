"""The OpenAPI document of the REST side: from a table of operations and the types of `wire.tlex.rest`.

What the operations do is in `rest`; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from penstock import __version__
from penstock.wire.tlex.rest import ErrorBody, Protocol, RequestDetails, Session, SessionRequest, SessionType, Tlc

HEADER = "X-Authorization"


class TlcRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of POST /tlcs. Without a domain it is that of the authorization."""

    identifier: str
    type: str = "TCPStreaming"
    domain: str | msgspec.UnsetType = msgspec.UNSET


class SessionLogEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that has ended; times are milliseconds since 1970, `connected` is null if it never was."""

    id: str
    account: str
    domain: str
    type: str
    protocol: str
    tlc_identifiers: tuple[str, ...]
    created: int
    connected: int | None
    ended: int
    end_reason: str


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    summary: str
    status: int
    answer: Any
    refusals: tuple[int, ...]
    body: Any = None
    # Name, schema and what it is.
    query: tuple[tuple[str, dict[str, Any], str], ...] = ()


def _choice(values: type[SessionType] | type[Protocol]) -> dict[str, Any]:
    return {"type": "string", "enum": [each.value for each in values]}


_TIME = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "format": "date-time"}]}

OPERATIONS = (
    Operation("post", "/sessions", "Create a session", 200, Session, (400, 401, 403, 413, 503), SessionRequest),
    Operation(
        "get",
        "/sessions",
        "The active sessions of one's account",
        200,
        list[Session],
        (400, 401, 403),
        query=(
            ("type", _choice(SessionType), "Only those of this type."),
            ("protocol", _choice(Protocol), "Only those with this protocol."),
        ),
    ),
    Operation("get", "/sessions/{token}", "One active session", 200, Session, (401, 403, 404)),
    Operation(
        "put",
        "/sessions/{token}",
        "Other controllers for a session, at once",
        200,
        Session,
        (400, 401, 403, 404, 413),
        RequestDetails,
    ),
    Operation("delete", "/sessions/{token}", "End a session", 204, None, (401, 403, 404)),
    Operation("get", "/tlcs", "The registered controllers", 200, list[Tlc], (401, 403)),
    Operation("post", "/tlcs", "Register a controller", 201, Tlc, (400, 401, 403, 413), TlcRequest),
    Operation("get", "/tlcs/{uuid}", "One registered controller", 200, Tlc, (401, 403, 404)),
    Operation("delete", "/tlcs/{uuid}", "Unregister a controller of one's account", 204, None, (401, 403, 404)),
    Operation(
        "get",
        "/sessionlogs",
        "Sessions that have ended",
        200,
        list[SessionLogEntry],
        (400, 401, 403),
        query=(
            ("from", _TIME, "Those that were there at this time or later; by default a day before `until`."),
            ("until", _TIME, "Those that were there at this time or earlier; by default now."),
        ),
    ),
)


def document() -> dict[str, Any]:
    """The whole of it, as JSON values."""
    types = [each for one in OPERATIONS for each in (one.answer, one.body) if each is not None] + [ErrorBody]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    by_type = {repr(type_): schema for type_, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method] = _operation(one, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "TLEX", "version": __version__, "description": "Sessions and controllers; see docs/tlex.md."},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": HEADER}},
        },
    }


def _operation(one: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {str(one.status): {"description": one.summary}}
    if one.answer is not None:
        answers[str(one.status)]["content"] = _json(schemas[repr(one.answer)])
    for status in one.refusals:
        answers[str(status)] = {"description": "Refused", "content": _json(schemas[repr(ErrorBody)])}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("token", "uuid")
        if f"{{{name}}}" in one.path
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": about}
        for name, schema, about in one.query
    ]
    found: dict[str, Any] = {"summary": one.summary, "operationId": _identity(one), "responses": answers}
    if parameters:
        found["parameters"] = parameters
    if one.body is not None:
        found["requestBody"] = {"required": True, "content": _json(schemas[repr(one.body)])}
    return found


def _identity(one: Operation) -> str:
    return "_".join([one.method, *one.path.replace("{", "").replace("}", "").strip("/").split("/")])


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
