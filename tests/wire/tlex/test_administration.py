from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penstock.wire.tlex.administration import (
    MAX_SCOPE,
    AccountRequest,
    AuthorizationRequest,
    TokenRequest,
    parse_account_request,
    parse_authorization_request,
    parse_token_request,
)
from penstock.wire.tlex.errors import BadRequest
from penstock.wire.tlex.vocabulary import Role

ROLES = ", ".join(Role)


def test_requests_are_parsed_and_unknown_fields_ignored() -> None:
    assert parse_account_request(b'{"name": "Delft", "more": 1}') == AccountRequest(name="Delft")
    assert parse_token_request(b'{"authorization": "1"}') == TokenRequest(authorization="1")
    whole = b'{"role": "TLC_SYSTEM", "domain": "Test", "account": "2", "tlcIdentifiers": ["NLZH0023"]}'
    assert parse_authorization_request(whole) == AuthorizationRequest(
        role=Role.TLC_SYSTEM, domain="test", account="2", tlc_identifiers=("NLZH0023",)
    )
    assert parse_authorization_request(b'{"role": "TLC_SYSTEM"}') == AuthorizationRequest(role=Role.TLC_SYSTEM)


@pytest.mark.parametrize(
    ("parse", "body", "message"),
    [
        (parse_account_request, b"{}", "name: missing"),
        (parse_account_request, b'{"name": ""}', "name: Expected `str` of length >= 1"),
        (parse_account_request, b"nonsense", "The body is not JSON: "),
        (parse_authorization_request, b"{}", "role: missing"),
        (parse_authorization_request, b'{"role": "KING"}', f"role: Invalid enum value 'KING', allowed: {ROLES}"),
        (
            parse_authorization_request,
            b'{"role": "TLC_ADMIN", "tlcIdentifiers": ["short"]}',
            "tlcIdentifiers[",
        ),
        (
            parse_authorization_request,
            b'{"role": "TLC_ADMIN", "tlcIdentifiers": ["NLZH0023", "NLZH0023"]}',
            "tlcIdentifiers[1]: 'NLZH0023' is given twice",
        ),
        (
            parse_authorization_request,
            json.dumps({"role": "TLC_ADMIN", "tlcIdentifiers": ["NLZH0023"] * (MAX_SCOPE + 1)}).encode(),
            f"tlcIdentifiers: {MAX_SCOPE + 1} identifiers, allowed: 0 to {MAX_SCOPE}",
        ),
        (parse_token_request, b"{}", "authorization: missing"),
    ],
)
def test_the_error_names_the_field_and_what_is_allowed(
    parse: Callable[[bytes], object], body: bytes, message: str
) -> None:
    with pytest.raises(BadRequest) as bad:
        parse(body)
    assert str(bad.value).startswith(message)
