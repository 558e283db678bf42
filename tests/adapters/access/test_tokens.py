from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from penstock.adapters.access.settings import AccessError
from penstock.adapters.access.tokens import MAX_TOKEN_CHARACTERS, Bearer, TokenChecker, looks_like_token
from tests.adapters.access.world import (
    AUDIENCE,
    HOUR,
    ISSUER,
    claims,
    client,
    ec_key,
    key_set,
    public,
    rsa_key,
    signed,
)

SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    """Settings with a key set of one RSA and one EC key."""
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(public(rsa_key(), kid="rsa"), public(ec_key(), kid="ec")))
    return {"keys": str(path), "audience": AUDIENCE, "issuer": ISSUER}


@pytest.fixture
def secret_table(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "secret").write_bytes(SECRET + b"\n")
    return {"secret_file": str(tmp_path / "secret"), "audience": AUDIENCE, "issuer": ISSUER}


def identify(table: dict[str, Any], token: str, now: Callable[[], float] = time.time) -> Bearer | None:
    async def ask() -> Bearer | None:
        tokens = TokenChecker(table, Path(), now)
        await tokens.load()
        return await tokens.identify(token)

    return asyncio.run(ask())


# -- good ones --------------------------------------------------------------------------------------------------------


def test_a_token_signed_by_rs256_names_user_and_roles(table: dict[str, Any]) -> None:
    bearer = identify(table, signed(rsa_key(), "RS256", "rsa"))
    assert bearer is not None
    assert (bearer.user, bearer.roles) == ("alice", frozenset({"trader"}))


def test_a_token_signed_by_es256_names_user_and_roles(table: dict[str, Any]) -> None:
    bearer = identify(table, signed(ec_key(), "ES256", "ec", sub="bob", roles=None))
    assert bearer is not None
    assert (bearer.user, bearer.roles) == ("bob", frozenset())


def test_a_token_signed_by_hs256_is_good_where_there_is_a_secret(secret_table: dict[str, Any]) -> None:
    assert identify(secret_table, signed(SECRET, "HS256")) is not None
    assert identify(secret_table, signed(SECRET, "HS256", "any")) is not None
    assert identify(secret_table, signed(SECRET[::-1], "HS256")) is None


def test_a_secret_in_a_key_set_is_used_only_on_request(tmp_path: Path) -> None:
    secret = base64.urlsafe_b64encode(SECRET).decode().rstrip("=")
    path = tmp_path / "keys.json"
    path.write_bytes(key_set({"kty": "oct", "k": secret, "kid": "s"}, public(ec_key(), kid="ec")))
    table = {"keys": str(path), "audience": AUDIENCE}
    token = signed(SECRET, "HS256", "s")
    assert identify(table, token) is None
    assert identify(table | {"algorithms": ["HS256", "ES256"]}, token) is not None


def test_a_token_without_key_identifier_is_good_if_there_is_one_key_of_its_algorithm(table: dict[str, Any]) -> None:
    assert identify(table, signed(rsa_key(), "RS256")) is not None
    Path(table["keys"]).write_bytes(key_set(public(rsa_key(), kid="one"), public(rsa_key(1), kid="two")))
    assert identify(table, signed(rsa_key(), "RS256")) is None
    assert identify(table, signed(rsa_key(), "RS256", "one")) is not None


def test_a_session_may_last_until_the_token_expires(table: dict[str, Any]) -> None:
    expiry = int(time.time()) + HOUR
    token = signed(ec_key(), "ES256", "ec", exp=expiry)
    exact = identify(table | {"leeway_seconds": 0}, token, lambda: expiry - 5.5)
    assert exact is not None
    assert exact.time_to_live == 5.5
    lenient = identify(table | {"leeway_seconds": 60}, token, lambda: expiry - 5.5)
    assert lenient is not None
    assert lenient.time_to_live == 65.5


def test_leeway_forgives_clocks_that_differ(table: dict[str, Any]) -> None:
    now = int(time.time())
    for changes in ({"exp": now - 300}, {"nbf": now + 300}, {"iat": now + 300}):
        token = signed(ec_key(), "ES256", "ec", **changes)
        assert identify(table | {"leeway_seconds": 0}, token) is None
        assert identify(table | {"leeway_seconds": 600}, token) is not None


def test_several_audiences_may_be_ours_and_the_tokens(table: dict[str, Any]) -> None:
    several = table | {"audience": ["penstock", "feeds"]}
    assert identify(several, signed(ec_key(), "ES256", "ec", aud="feeds")) is not None
    assert identify(table, signed(ec_key(), "ES256", "ec", aud=["other", "penstock"])) is not None
    assert identify(several, signed(ec_key(), "ES256", "ec", aud=["other"])) is None


def test_any_issuer_will_do_where_none_is_named(table: dict[str, Any]) -> None:
    del table["issuer"]
    assert identify(table, signed(ec_key(), "ES256", "ec", iss="anybody")) is not None


@pytest.mark.parametrize(
    ("claim", "found", "roles"),
    [
        ("roles", {"roles": []}, set()),
        ("scope", {"scope": "read write"}, {"read", "write"}),
        ("https://login.example/roles", {"https://login.example/roles": ["x"]}, {"x"}),
        (["realm_access", "roles"], {"realm_access": {"roles": ["x"]}}, {"x"}),
        (["realm_access", "roles"], {"realm_access": ["roles"]}, set()),
        ("none", {}, set()),
    ],
)
def test_roles_come_from_the_claim_that_the_settings_name(
    table: dict[str, Any], claim: object, found: dict[str, object], roles: set[str]
) -> None:
    bearer = identify(table | {"roles_claim": claim}, signed(ec_key(), "ES256", "ec", **({"roles": None} | found)))
    assert bearer is not None
    assert bearer.roles == roles


def test_the_name_comes_from_the_claim_that_the_settings_name(table: dict[str, Any]) -> None:
    bearer = identify(table | {"user_claim": "email"}, signed(ec_key(), "ES256", "ec", email="a@b.example"))
    assert bearer is not None
    assert bearer.user == "a@b.example"


# -- bad ones ---------------------------------------------------------------------------------------------------------


def encoded(part: object) -> str:
    return base64.urlsafe_b64encode(part if isinstance(part, bytes) else json.dumps(part).encode()).decode().rstrip("=")


def pem_as_secret() -> bytes:
    return (
        rsa_key().public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def hs256_with(secret: bytes, header: dict[str, Any]) -> str:
    """By hand: the library refuses to sign with what looks like a public key."""
    import hashlib
    import hmac

    content = f"{encoded({'alg': 'HS256', 'typ': 'JWT'} | header)}.{encoded(claims())}"
    return f"{content}.{encoded(hmac.digest(secret, content.encode(), hashlib.sha256))}"


def tampered(token: str) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{encoded(claims(sub='root'))}.{signature}"


def good(**changes: object) -> str:
    return signed(ec_key(), "ES256", "ec", **changes)


def crossed() -> str:
    """The content of one good token with the signature of another."""
    return f"{good().rpartition('.')[0]}.{good(sub='bob').rpartition('.')[2]}"


BAD: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "a word": lambda: "password",
    "two dots": lambda: "..",
    "not base64": lambda: "eyJ!.eyJ!.!",
    "not ASCII": lambda: "eyJ€.eyJ.x",
    "header is no object": lambda: f"{encoded([])}.{encoded({})}.x",
    "header nested deeply": lambda: f"{encoded(b'[' * 5_000)}.{encoded({})}.x",
    "no algorithm": lambda: f"{encoded({'typ': 'JWT'})}.{encoded(claims())}.",
    "algorithm none": lambda: jwt.encode(claims(), "", "none"),
    "algorithm None": lambda: f"{encoded({'alg': 'None'})}.{encoded(claims())}.",
    "algorithm is a list": lambda: f"{encoded({'alg': ['ES256']})}.{encoded(claims())}.",
    "without signature": lambda: good().rpartition(".")[0] + ".",
    "signature of another token": crossed,
    "tampered with": lambda: tampered(good()),
    "cut off": lambda: good()[:-8],
    "one part more": lambda: good() + ".x",
    "HS256 with the public key as secret": lambda: hs256_with(pem_as_secret(), {"kid": "rsa"}),
    "HS256 with the public key, unnamed": lambda: hs256_with(pem_as_secret(), {}),
    "HS256 with the key set as secret": lambda: hs256_with(key_set(public(rsa_key(), kid="rsa")), {"kid": "rsa"}),
    "HS256 with an empty secret": lambda: hs256_with(b"", {"kid": "rsa"}),
    "ES256 under the identifier of an RSA key": lambda: signed(ec_key(), "ES256", "rsa"),
    "RS256 under the identifier of an EC key": lambda: signed(rsa_key(), "RS256", "ec"),
    "RS512": lambda: signed(rsa_key(), "RS512", "rsa"),
    "PS256": lambda: signed(rsa_key(), "PS256", "rsa"),
    "another key under a known identifier": lambda: signed(ec_key(1), "ES256", "ec"),
    "unknown identifier": lambda: signed(ec_key(), "ES256", "other"),
    "identifier is a number": lambda: f"{encoded({'alg': 'ES256', 'kid': 7})}.{encoded(claims())}.x",
    "identifier is a path": lambda: signed(ec_key(), "ES256", "../../dev/null"),
    "own key in the header": lambda: jwt.encode(claims(), ec_key(1), "ES256", {"jwk": public(ec_key(1))}),
    "critical header": lambda: jwt.encode(claims(), ec_key(), "ES256", {"kid": "ec", "crit": ["exp"], "exp": 1}),
    "expired": lambda: good(exp=int(time.time()) - HOUR),
    "without expiry": lambda: good(exp=None),
    "expiry is text": lambda: good(exp="tomorrow"),
    "expiry is infinite": lambda: good(exp=float("inf")),
    "expiry is a list": lambda: good(exp=[1]),
    "not yet valid": lambda: good(nbf=int(time.time()) + HOUR),
    "made in the future": lambda: good(iat=int(time.time()) + HOUR),
    "for another audience": lambda: good(aud="bank"),
    "for an audience that begins like ours": lambda: good(aud="penstock2"),
    "for nobody in particular": lambda: good(aud=None),
    "audience is an object": lambda: good(aud={"penstock": 1}),
    "of another issuer": lambda: good(iss="https://login.example.evil"),
    "of no issuer": lambda: good(iss=None),
    "without a name": lambda: good(sub=None),
    "empty name": lambda: good(sub=""),
    "name of two lines": lambda: good(sub="alice\nbob"),
    "endless name": lambda: good(sub="x" * 256),
    "roles are a number": lambda: good(roles=7),
    "roles are an object": lambda: good(roles={"admin": True}),
    "a role is a number": lambda: good(roles=["x", 7]),
    "too long": lambda: good(padding="x" * MAX_TOKEN_CHARACTERS),
}


@pytest.mark.parametrize("name", BAD)
def test_a_token_that_is_not_valid_names_nobody(
    table: dict[str, Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = BAD[name]()
    with caplog.at_level(logging.DEBUG):
        assert identify(table, token) is None
    # The log says why, without the token or a part of it.
    refused = [record for record in caplog.records if record.getMessage() == "token refused"]
    assert [(record.levelname, bool(record.__dict__["fields"]["reason"])) for record in refused] == [("DEBUG", True)]
    logged = "".join(str(record.__dict__) for record in caplog.records)
    for part in token.split("."):
        assert len(part) < 8 or part not in logged


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        # Before any key is looked for: such a token must not make the server read its keys again.
        ("algorithm none", "signed by an algorithm that is not allowed"),
        ("HS256 with the public key as secret", "signed by an algorithm that is not allowed"),
        ("unknown identifier", "signed with an unknown key"),
        ("another key under a known identifier", "InvalidSignatureError"),
        ("expired", "ExpiredSignatureError"),
        ("for another audience", "InvalidAudienceError"),
        ("too long", "longer than 8192 characters"),
    ],
)
def test_the_log_says_which_check_a_token_failed(
    table: dict[str, Any], name: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        identify(table, BAD[name]())
    refused = [record for record in caplog.records if record.getMessage() == "token refused"]
    assert [record.__dict__["fields"] for record in refused] == [{"reason": reason}]


def test_the_good_token_of_these_tests_is_good(table: dict[str, Any]) -> None:
    assert identify(table, good()) is not None


def test_a_public_key_is_no_secret_even_where_secrets_are_allowed(table: dict[str, Any]) -> None:
    everything = table | {"algorithms": ["RS256", "ES256", "HS256"]}
    for token in (hs256_with(pem_as_secret(), {"kid": "rsa"}), hs256_with(pem_as_secret(), {})):
        assert identify(everything, token) is None


def test_a_rotated_key_is_found_without_a_restart(table: dict[str, Any]) -> None:
    path = Path(table["keys"])

    async def play() -> None:
        tokens = TokenChecker(table, Path())
        await tokens.load()
        await asyncio.to_thread(path.write_bytes, key_set(public(ec_key(1), kid="new")))
        assert await tokens.identify(signed(ec_key(1), "ES256", "new")) is not None
        assert await tokens.identify(signed(ec_key(), "ES256", "ec")) is None

    asyncio.run(play())


# -- around them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer  abc "}, "abc"),
        ({"authorization": "Basic abc"}, None),
        ({"authorization": "Bearer"}, None),
        ({"authorization": ""}, None),
        ({}, None),
    ],
)
def test_a_token_may_come_in_a_header_where_that_is_allowed(
    table: dict[str, Any], headers: dict[str, str], token: str | None
) -> None:
    assert TokenChecker(table | {"header": True}, Path()).of_header(client(**headers)) == token
    assert TokenChecker(table, Path()).of_header(client(**headers)) is None


def test_a_token_is_told_from_a_password_by_its_form() -> None:
    assert looks_like_token(good())
    for password in ("", "eyJ", "a.b.c", "eyJ.b", "tall order", "eyJ.b.c.d"):
        assert not looks_like_token(password)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"audience": None}, "tokens: audience is missing: expected the name, or a list of the names, that tokens"),
        ({"audience": ""}, 'tokens: audience = "": expected the name'),
        ({"audience": []}, "tokens: audience = []: expected the name"),
        ({"keys": None}, "tokens: expected keys or secret_file, and not both"),
        ({"secret_file": "secret"}, "tokens: expected keys or secret_file, and not both"),
        (
            {"keys": None, "secret_file": "secret", "algorithms": ["RS256"]},
            'tokens: algorithms with secret_file: expected none, or ["HS256"]',
        ),
        ({"algorithms": ["none"]}, 'tokens: algorithms = ["none"]: expected a list of "RS256", "ES256", "HS256"'),
        ({"algorithms": []}, "tokens: algorithms = []: expected a list of"),
        (
            {"keys": "http://login.example/k"},
            "tokens: keys = http://login.example/k: expected a path, or a URL with https",
        ),
        ({"leeway_seconds": -1}, "tokens: leeway_seconds = -1: expected a number from 0 to 600"),
        ({"refresh_seconds": 1}, "tokens: refresh_seconds = 1: expected a number from 10 to 86400"),
        ({"key": "x"}, "tokens: key: unknown key; allowed here: keys, secret_file, algorithms, audience, "),
        ({"header": 1}, "tokens: header = 1: expected true or false"),
    ],
)
def test_wrong_settings_are_told_in_one_line(table: dict[str, Any], changes: dict[str, Any], line: str) -> None:
    with pytest.raises(AccessError) as raised:
        TokenChecker({key: value for key, value in (table | changes).items() if value is not None}, Path())
    assert str(raised.value).startswith(line)
