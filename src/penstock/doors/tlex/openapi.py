"""The OpenAPI document of the REST side: from a table of operations and the types of `wire.tlex.rest`.

What the operations do is in `rest`; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock import __version__
from penstock.wire.tlex.administration import (
    AccountBody,
    AccountRequest,
    AuthorizationBody,
    AuthorizationRequest,
    DomainBody,
    DomainRequest,
    NewTokenBody,
    PolicyBody,
    TokenBody,
    TokenRequest,
)
from penstock.wire.tlex.rest import (
    ErrorBody,
    ListenerBody,
    RequestDetails,
    SessionAnswer,
    SessionRequest,
    TlcRequest,
)
from penstock.wire.tlex.templates import TemplateBody, TemplateDetails, TemplateRequest
from penstock.wire.tlex.vocabulary import Protocol, Role, SecurityMode, SessionType, Tlc

HEADER = "X-Authorization"

# Larger ones are not times, and databases cannot store them.
MAX_MILLIS = 2**53


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


REFUSALS = {
    400: "The request is invalid; the message names the field",
    401: "The token is missing, unknown or revoked",
    403: "The token does not allow this: its role, its domain or its controllers",
    404: "It does not exist, or belongs to another account",
    413: "The body is too large",
    503: "The server is shutting down, or its database does not answer; try again in a moment",
}

# Authentication and authorization are always checked.
ALWAYS = (401, 403, 503)


@dataclass(frozen=True, slots=True)
class ApiOperation:
    method: str
    path: str
    summary: str
    status: int
    answer: Any
    # Besides those that are always possible.
    refusals: tuple[int, ...]
    body: Any = None
    # Name, schema and what it is.
    query: tuple[tuple[str, dict[str, Any], str], ...] = ()
    # Bodies by what they are an example of.
    examples: Mapping[str, object] = field(default_factory=dict)
    # Paths by which the result can be read, changed and deleted, and the field of it that is their parameter.
    leads_to: tuple[str, str] | None = None


def _choice(values: type[SessionType] | type[Protocol]) -> dict[str, Any]:
    return {"type": "string", "enum": [each.value for each in values]}


_TIME = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_MILLIS}, {"type": "string", "format": "date-time"}]}

_IDENTIFIERS = ("NLZH0023", "NLZH0024")

# The kinds of sessions that can be requested: by type and protocol.
SESSION_EXAMPLES = {
    f"{type_.value}_{protocol.value.rpartition('_')[2]}": SessionRequest(
        domain="test",
        type=type_,
        protocol=protocol,
        details=RequestDetails(security_mode=SecurityMode.NONE, tlc_identifiers=_IDENTIFIERS)
        if protocol is Protocol.MULTIPLEX
        else RequestDetails(security_mode=SecurityMode.NONE, tlc_identifier=_IDENTIFIERS[0]),
    )
    for type_ in SessionType
    for protocol in Protocol
    if type_ is SessionType.TLC or protocol is Protocol.MULTIPLEX
}

_TEXT = {"type": "string"}

GRANT_EXAMPLES = {
    "Broker": AuthorizationRequest(role=Role.BROKER_SYSTEM),
    "Controllers": AuthorizationRequest(role=Role.TLC_SYSTEM, tlc_identifiers=_IDENTIFIERS),
    "Policy": AuthorizationRequest(role=Role.BROKER_SYSTEM, payload_policy=PolicyBody(send=(2,), receive=(2, 3))),
}
TOKEN_EXAMPLES = {"Token": TokenRequest(authorization="660f9500-f39c-52e5-b827-556766551111")}

TEMPLATE_EXAMPLES = {
    "Broker": TemplateRequest(
        name="north",
        type=SessionType.BROKER,
        protocol=Protocol.MULTIPLEX,
        details=TemplateDetails(security_mode=SecurityMode.NONE, tlc_identifiers=_IDENTIFIERS),
    )
}

OPERATIONS = (
    ApiOperation(
        "post",
        "/sessions",
        "Create a session",
        200,
        SessionAnswer,
        (400, 413),
        SessionRequest,
        query=(("template", _TEXT, "A session template of the domain, for fields that the body does not have."),),
        examples=SESSION_EXAMPLES,
        leads_to=("/sessions/{token}", "token"),
    ),
    ApiOperation(
        "get",
        "/sessions",
        "The active sessions of the account",
        200,
        list[SessionAnswer],
        (400,),
        query=(
            ("type", _choice(SessionType), "Only those of this type."),
            ("protocol", _choice(Protocol), "Only those with this protocol."),
        ),
    ),
    ApiOperation("get", "/sessions/{token}", "One active session", 200, SessionAnswer, (404,)),
    ApiOperation(
        "put",
        "/sessions/{token}",
        "Replace the controllers of a session, with immediate effect",
        200,
        SessionAnswer,
        (400, 404, 413),
        RequestDetails,
        examples={
            "Multiplex": RequestDetails(security_mode=SecurityMode.NONE, tlc_identifiers=("NLZH0023", "NLZH0026"))
        },
    ),
    ApiOperation("delete", "/sessions/{token}", "End a session", 204, None, (404,)),
    ApiOperation("get", "/tlcs", "The registered controllers", 200, list[Tlc], ()),
    ApiOperation(
        "post",
        "/tlcs",
        "Register a controller",
        201,
        Tlc,
        (400, 413),
        TlcRequest,
        examples={"TCPStreaming": TlcRequest(identifier="NLZH0026")},
        leads_to=("/tlcs/{uuid}", "uuid"),
    ),
    ApiOperation("get", "/tlcs/{uuid}", "One registered controller", 200, Tlc, (404,)),
    ApiOperation(
        "put",
        "/tlcs/{uuid}",
        "Change a controller of the account; sessions lose it",
        200,
        Tlc,
        (400, 404, 413),
        TlcRequest,
        examples={"Renamed": TlcRequest(identifier="NLZH0027")},
    ),
    ApiOperation("delete", "/tlcs/{uuid}", "Unregister a controller of the account", 204, None, (404,)),
    ApiOperation(
        "get",
        "/sessionlogs",
        "Sessions that have ended",
        200,
        list[SessionLogEntry],
        (400,),
        query=(
            ("from", _TIME, "Sessions that existed at this time or later; by default a day before `until`."),
            ("until", _TIME, "Sessions that existed at this time or earlier; by default now."),
        ),
    ),
    ApiOperation("get", "/sessionlogs/{token}", "One session that has ended", 200, SessionLogEntry, (404,)),
    ApiOperation("get", "/accounts", "All accounts", 200, list[AccountBody], ()),
    ApiOperation(
        "post",
        "/accounts",
        "Add an account",
        201,
        AccountBody,
        (400, 413),
        AccountRequest,
        examples={"Account": AccountRequest(name="Delft")},
        leads_to=("/accounts/{uuid}", "uuid"),
    ),
    ApiOperation("get", "/accounts/{uuid}", "One account", 200, AccountBody, (404,)),
    ApiOperation(
        "put",
        "/accounts/{uuid}",
        "Rename an account",
        200,
        AccountBody,
        (400, 404, 413),
        AccountRequest,
        examples={"Account": AccountRequest(name="Delft")},
    ),
    ApiOperation(
        "delete",
        "/accounts/{uuid}",
        "Remove an account without controllers, with its authorizations and tokens",
        204,
        None,
        (400, 404),
    ),
    ApiOperation("get", "/domains", "All domains", 200, list[DomainBody], ()),
    ApiOperation(
        "post",
        "/domains",
        "Add a domain",
        201,
        DomainBody,
        (400, 413),
        DomainRequest,
        examples={"Domain": DomainRequest(name="acceptance")},
        leads_to=("/domains/{uuid}", "uuid"),
    ),
    ApiOperation("get", "/domains/{uuid}", "One domain", 200, DomainBody, (404,)),
    ApiOperation(
        "put",
        "/domains/{uuid}",
        "Rename a domain; its sessions end",
        200,
        DomainBody,
        (400, 404, 413),
        DomainRequest,
        examples={"Domain": DomainRequest(name="acceptance")},
    ),
    ApiOperation("delete", "/domains/{uuid}", "Remove a domain that nothing is in", 204, None, (400, 404)),
    ApiOperation("get", "/sessiontemplates", "The session templates of the domain", 200, list[TemplateBody], ()),
    ApiOperation(
        "post",
        "/sessiontemplates",
        "Add a session template",
        201,
        TemplateBody,
        (400, 413),
        TemplateRequest,
        examples=TEMPLATE_EXAMPLES,
        leads_to=("/sessiontemplates/{uuid}", "uuid"),
    ),
    ApiOperation("get", "/sessiontemplates/{uuid}", "One session template", 200, TemplateBody, (404,)),
    ApiOperation(
        "put",
        "/sessiontemplates/{uuid}",
        "Change a session template; sessions stay as they are",
        200,
        TemplateBody,
        (400, 404, 413),
        TemplateRequest,
        examples=TEMPLATE_EXAMPLES,
    ),
    ApiOperation("delete", "/sessiontemplates/{uuid}", "Remove a session template", 204, None, (404,)),
    ApiOperation(
        "get",
        "/authorizations",
        "The authorizations that the client may grant",
        200,
        list[AuthorizationBody],
        (),
        query=(
            ("domain", _TEXT, "Only those of this domain."),
            ("account", _TEXT, "Only those of the account with this UUID."),
        ),
    ),
    ApiOperation(
        "post",
        "/authorizations",
        "Grant a role in a domain to an account",
        201,
        AuthorizationBody,
        (400, 413),
        AuthorizationRequest,
        examples=GRANT_EXAMPLES,
        leads_to=("/authorizations/{uuid}", "uuid"),
    ),
    ApiOperation("get", "/authorizations/{uuid}", "One authorization", 200, AuthorizationBody, (404,)),
    ApiOperation(
        "put",
        "/authorizations/{uuid}",
        "Change an authorization; sessions that were requested with it end",
        200,
        AuthorizationBody,
        (400, 404, 413),
        AuthorizationRequest,
        examples=GRANT_EXAMPLES,
    ),
    ApiOperation("delete", "/authorizations/{uuid}", "Withdraw it, with its tokens", 204, None, (400, 404)),
    ApiOperation(
        "get",
        "/authorizationtokens",
        "Tokens of these authorizations, without their secrets",
        200,
        list[TokenBody],
        (),
        query=(("authorization", _TEXT, "Only those of the authorization with this UUID."),),
    ),
    ApiOperation(
        "post",
        "/authorizationtokens",
        "Create a token; its secret is only in this answer",
        201,
        NewTokenBody,
        (400, 413),
        TokenRequest,
        examples=TOKEN_EXAMPLES,
        leads_to=("/authorizationtokens/{uuid}", "uuid"),
    ),
    ApiOperation("get", "/authorizationtokens/{uuid}", "One token, without its secret", 200, TokenBody, (404,)),
    ApiOperation(
        "put",
        "/authorizationtokens/{uuid}",
        "Give a token another authorization; sessions that were requested with it end",
        200,
        TokenBody,
        (400, 404, 413),
        TokenRequest,
        examples=TOKEN_EXAMPLES,
    ),
    ApiOperation("delete", "/authorizationtokens/{uuid}", "Revoke a token", 204, None, (400, 404)),
)


def _asks_for(name: str, **values: str) -> dict[str, Any]:
    """A request for a session with one of the two fields for identifiers, and fixed values of others."""
    fixed = {key: {"const": value} for key, value in values.items()}
    return {"properties": {**fixed, "details": {"required": [name]}}}


# Types that the description calls otherwise than the code does. Clients are made from it, so that the names must stay.
PUBLISHED = {SessionAnswer.__name__: "Session", ListenerBody.__name__: "Listener"}

# What types cannot express: a session is for one controller, if it is the controller's own, or for several.
ALTERNATIVES = {
    RequestDetails.__name__: [{"required": ["tlcIdentifier"]}, {"required": ["tlcIdentifiers"]}],
    SessionRequest.__name__: [
        _asks_for("tlcIdentifier", type=SessionType.TLC.value, protocol=Protocol.SINGLEPLEX.value),
        _asks_for("tlcIdentifier", type=SessionType.TLC.value, protocol=Protocol.VLOG.value),
        _asks_for("tlcIdentifiers", protocol=Protocol.MULTIPLEX.value),
    ],
}


def document() -> dict[str, Any]:
    """The whole document, as JSON values."""
    types = [each for one in OPERATIONS for each in (one.answer, one.body) if each is not None] + [ErrorBody]
    made = msgspec.json.encode(msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}"))
    for name, published in PUBLISHED.items():
        # As a key, a title, or the end of a reference.
        made = re.sub(rf'\b{name}"'.encode(), f'{published}"'.encode(), made)
    schemas, components = msgspec.json.decode(made)
    for name, alternatives in ALTERNATIVES.items():
        components[name]["oneOf"] = alternatives
    by_type = {repr(type_): schema for type_, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method] = _operation(one, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TLEX",
            "version": __version__,
            "description": "Sessions, controllers, rights; see docs/tlex.md.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": HEADER}},
        },
    }


def _operation(one: ApiOperation, schemas: dict[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {str(one.status): {"description": one.summary}}
    if one.answer is not None:
        answers[str(one.status)]["content"] = _json(schemas[repr(one.answer)])
    if one.leads_to is not None:
        answers[str(one.status)]["links"] = _links(*one.leads_to)
    for status in sorted({*ALWAYS, *one.refusals}):
        answers[str(status)] = {"description": REFUSALS[status], "content": _json(schemas[repr(ErrorBody)])}
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
        content = _json(schemas[repr(one.body)])
        examples = {name: {"value": msgspec.to_builtins(value)} for name, value in one.examples.items()}
        content["application/json"]["examples"] = examples
        found["requestBody"] = {"required": True, "content": content}
    return found


def _links(path: str, name: str) -> dict[str, Any]:
    return {
        _identity(one): {"operationId": _identity(one), "parameters": {name: f"$response.body#/{name}"}}
        for one in OPERATIONS
        if one.path == path
    }


def _identity(one: ApiOperation) -> str:
    return "_".join([one.method, *one.path.replace("{", "").replace("}", "").strip("/").split("/")])


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
