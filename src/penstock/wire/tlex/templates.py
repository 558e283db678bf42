"""The JSON of session templates, and how one fills what a request for a session does not say.

No HTTP and no rights: who may change a template is in `exchange.rights`. Read next: docs/tlex.md.
"""

from __future__ import annotations

import json
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.json import Decoder
from msgspec.structs import replace

from penstock.wire.tlex.rest import DomainName, Identifier, Identifiers, parse
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType


class TemplateDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """Any of the details of a request."""

    security_mode: SecurityMode | UnsetType = UNSET
    tlc_identifier: Identifier | UnsetType = UNSET
    tlc_identifiers: Identifiers | UnsetType = UNSET


class TemplateFields(Struct, frozen=True, kw_only=True):
    """What is kept: any of the fields of a request, except its domain."""

    type: SessionType | UnsetType = UNSET
    protocol: Protocol | UnsetType = UNSET
    details: TemplateDetails | UnsetType = UNSET


class TemplateRequest(Struct, frozen=True, kw_only=True):
    """The body of POST /sessiontemplates and PUT /sessiontemplates/{uuid}. By default the client's domain."""

    name: Annotated[str, Meta(min_length=1, max_length=255, examples=["north"])]
    domain: DomainName | UnsetType = UNSET
    type: SessionType | UnsetType = UNSET
    protocol: Protocol | UnsetType = UNSET
    details: TemplateDetails | UnsetType = UNSET

    @property
    def fields(self) -> TemplateFields:
        return TemplateFields(type=self.type, protocol=self.protocol, details=self.details)


class TemplateBody(Struct, frozen=True, kw_only=True):
    """A session template."""

    uuid: str
    domain: str
    name: str
    type: SessionType | UnsetType = UNSET
    protocol: Protocol | UnsetType = UNSET
    details: TemplateDetails | UnsetType = UNSET


_REQUEST = Decoder(TemplateRequest)
_FIELDS = Decoder(TemplateFields)


def parse_template_request(body: bytes) -> TemplateRequest:
    """Raises BadRequest, naming the field."""
    request = parse(_REQUEST, body)
    return request if request.domain is UNSET else replace(request, domain=request.domain.lower())


def parse_fields(text: str) -> TemplateFields:
    """What the database has kept."""
    return _FIELDS.decode(text)


def filled(body: bytes, domain: str, fields: str) -> bytes:
    """A request for a session with the fields of a template where it has none. What is no object stays as it is."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(given, dict):
        return body
    template = json.loads(fields)
    whole = {"domain": domain, **template, **given}
    details, defaults = given.get("details", {}), template.get("details", {})
    if isinstance(details, dict):
        if not details.keys().isdisjoint(("tlcIdentifier", "tlcIdentifiers")):
            # A request has one of the two.
            defaults = {name: value for name, value in defaults.items() if not name.startswith("tlcIdentifier")}
        whole["details"] = {**defaults, **details}
    return json.dumps(whole).encode()
