"""Rows as Python sees them. Times are milliseconds since 1970; domains are in lower case.

Authorizations are those that the rules know (`exchange.authorization`); a controller has its record in
`wire.tlex.vocabulary`, the one that is also shown to clients.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Account:
    """An organisation."""

    uuid: str
    name: str


@dataclass(frozen=True, slots=True)
class Domain:
    """Where sessions find each other. Its name is in lower case."""

    uuid: str
    name: str


@dataclass(frozen=True, slots=True)
class SessionTemplate:
    """Defaults of requests for sessions in a domain. `fields` is JSON."""

    uuid: str
    domain: str
    name: str
    fields: str


@dataclass(frozen=True, slots=True)
class StoredToken:
    """One of the tokens of an authorization. `revoked` is None as long as it is good."""

    uuid: str
    authorization: str
    created: int
    revoked: int | None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that has just been made: the only time that its secret is seen."""

    uuid: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SessionLog:
    """A session that has ended. `id` is public. The token is given to be written; only a hash of it is kept."""

    id: str
    account: str
    domain: str
    type: str
    protocol: str
    identifiers: tuple[str, ...]
    created: int
    connected: int | None
    ended: int
    end_reason: str
    token: str = field(default="", repr=False, compare=False)
