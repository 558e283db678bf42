"""The JSON of accounts, domains, authorizations and their tokens, which administrators manage; names as published.

No HTTP and no rights: who may grant what is in `exchange.administration`. TLEX-BROKER-SYSTEM has none of it: names and
fields are those of the interface that administrators use. Read next: docs/tlex.md.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.json import Decoder
from msgspec.structs import replace

from penstock.wire.tlex.errors import BadRequest
from penstock.wire.tlex.rest import DomainName, Identifier, parse
from penstock.wire.tlex.vocabulary import Role

# Controllers of one authorization; more are not worth a list.
MAX_SCOPE = 10_000

# None of them: all of the domain.
TlcScope = Annotated[tuple[Identifier, ...], Meta(extra_json_schema={"uniqueItems": True})]
Uuid = Annotated[str, Meta(max_length=36, pattern="^[0-9A-Za-z-]+$", examples=["80b142ab-88e8-4600-9a86-8807c19b1b2a"])]


# Types that clients may use; higher ones are reserved for the protocol.
PayloadTypes = tuple[Annotated[int, Meta(ge=0, le=0xEF)], ...]


class PolicyBody(Struct, frozen=True, kw_only=True):
    """The payload types that sessions may send and receive. What is not named is not limited."""

    send: PayloadTypes | UnsetType = UNSET
    receive: PayloadTypes | UnsetType = UNSET


class AccountRequest(Struct, frozen=True, kw_only=True):
    """The body of POST /accounts and PUT /accounts/{uuid}. Which names are allowed is checked by the database."""

    name: Annotated[str, Meta(min_length=1, max_length=255, examples=["Delft"])]


class AccountBody(Struct, frozen=True, kw_only=True):
    """An organisation."""

    uuid: str
    name: str


class DomainRequest(Struct, frozen=True, kw_only=True):
    """The body of POST /domains and PUT /domains/{uuid}. Names are case-insensitive."""

    name: Annotated[str, Meta(min_length=1, max_length=255, examples=["test"])]


class DomainBody(Struct, frozen=True, kw_only=True):
    """A domain; its name is in lower case."""

    uuid: str
    name: str


class AuthorizationRequest(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The body of POST /authorizations and PUT /authorizations/{uuid}.

    Domain and account are by default those of the client, or of the authorization that is changed.
    """

    role: Role
    domain: DomainName | UnsetType = UNSET
    account: Uuid | UnsetType = UNSET
    tlc_identifiers: TlcScope = ()
    payload_policy: PolicyBody | UnsetType = UNSET


class AuthorizationBody(Struct, frozen=True, kw_only=True, rename="camel"):
    """The role of an account in a domain; without identifiers it is for all controllers of the domain."""

    uuid: str
    domain: str
    account: str
    role: Role
    tlc_identifiers: tuple[str, ...]
    payload_policy: PolicyBody | UnsetType = UNSET


class TokenRequest(Struct, frozen=True, kw_only=True):
    """The body of POST /authorizationtokens and PUT /authorizationtokens/{uuid}."""

    authorization: Uuid


class TokenBody(Struct, frozen=True, kw_only=True):
    """A token without its secret, which is not kept. `created` is in milliseconds since 1970."""

    uuid: str
    authorization: str
    created: int


class NewTokenBody(Struct, frozen=True, kw_only=True):
    """A token that has just been made: the only answer that contains the secret."""

    uuid: str
    token: str
    authorization: str
    created: int


_ACCOUNT = Decoder(AccountRequest)
_DOMAIN = Decoder(DomainRequest)
_AUTHORIZATION = Decoder(AuthorizationRequest)
_TOKEN = Decoder(TokenRequest)

_ROLES = {"role": ", ".join(Role)}


def parse_account_request(body: bytes) -> AccountRequest:
    """Raises BadRequest, naming the field."""
    return parse(_ACCOUNT, body, {})


def parse_domain_request(body: bytes) -> DomainRequest:
    """Raises BadRequest, naming the field."""
    return parse(_DOMAIN, body, {})


def parse_authorization_request(body: bytes) -> AuthorizationRequest:
    """Raises BadRequest, naming the field."""
    request = parse(_AUTHORIZATION, body, _ROLES)
    identifiers = request.tlc_identifiers
    if len(identifiers) > MAX_SCOPE:
        raise BadRequest(f"tlcIdentifiers: {len(identifiers)} identifiers, allowed: 0 to {MAX_SCOPE}")
    seen: set[str] = set()
    for index, identifier in enumerate(identifiers):
        if identifier in seen:
            raise BadRequest(f"tlcIdentifiers[{index}]: {identifier!r} is given twice")
        seen.add(identifier)
    return request if request.domain is UNSET else replace(request, domain=request.domain.lower())


def parse_token_request(body: bytes) -> TokenRequest:
    """Raises BadRequest, naming the field."""
    return parse(_TOKEN, body, {})
