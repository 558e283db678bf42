"""What the tests of access share: cheap hashes, keys and tokens, a client's facts, a server with access rules."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from argon2 import PasswordHasher
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from penstock.adapters.access import AccessMetadata
from penstock.adapters.access.users import User
from penstock.kernel.ports import ClientFacts, SessionFacts
from tests.support.background import BackgroundServer

AUDIENCE = "penstock"
ISSUER = "https://login.example"
HOUR = 3_600

# As weak as the library allows: what is tested is not how long guessing takes.
WEAK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@cache
def weak_hash(password: str) -> str:
    return WEAK.hash(password)


def write_users(path: Path, users: Mapping[str, Iterable[str]]) -> Path:
    """A file of users; the password of `alice` is `alice's password`."""
    lines = [User(name, weak_hash(password_of(name)), tuple(roles)).line() for name, roles in users.items()]
    path.write_text("\n".join(["# name:hash:roles", *lines, ""]), "utf-8")
    return path


def password_of(name: str) -> str:
    return f"{name}'s password"


def facts(user: str | None = None, *roles: str) -> SessionFacts:
    return SessionFacts("S1", user, "TEST", client(), frozenset(roles))


def client(**headers: str) -> ClientFacts:
    return ClientFacts("127.0.0.1", False, headers)


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


@cache
def ec_key(number: int = 0) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, **more: object) -> dict[str, Any]:
    """The public half, as an entry of a key set."""
    text = (
        RSAAlgorithm.to_jwk(key.public_key())
        if isinstance(key, rsa.RSAPrivateKey)
        else ECAlgorithm.to_jwk(key.public_key())
    )
    found: dict[str, Any] = json.loads(text)
    return {name: found[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in found} | more


def key_set(*entries: object) -> bytes:
    return json.dumps({"keys": list(entries)}).encode()


def claims(**changes: object) -> dict[str, Any]:
    """Claims of a good token of alice; a change to None leaves the claim out."""
    good: dict[str, Any] = {
        "sub": "alice",
        "aud": AUDIENCE,
        "iss": ISSUER,
        "exp": int(time.time()) + HOUR,
        "roles": ["trader"],
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def signed(key: Any, algorithm: str, kid: str | None = None, **changes: object) -> str:
    return jwt.encode(claims(**changes), key, algorithm, {} if kid is None else {"kid": kid})


class AccessServer(BackgroundServer):
    """Adapter set TEST decides by an access adapter."""

    def __init__(self, metadata: AccessMetadata, overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(overrides or {})
        self.metadata = metadata  # type: ignore[assignment]  # the base class knows one metadata adapter only
