"""Rows as Python sees them. Times are milliseconds since 1970; domains are in lower case.

A controller has its record in `wire.tlex.vocabulary`, the one that is also shown to clients.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.store.roles import Role


@dataclass(frozen=True, slots=True)
class Account:
    """An organisation."""

    uuid: str
    name: str


@dataclass(frozen=True, slots=True)
class Authorization:
    """What an account may be in a domain, and the token by which this was found."""

    uuid: str
    account: str
    domain: str
    role: Role
    # The controllers it is restricted to; none: all of the domain.
    identifiers: frozenset[str] = frozenset()
    # Of the token, which may be revoked; its secret is nowhere.
    token: str = ""


@dataclass(frozen=True, slots=True)
class Token:
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
    """A session that has ended. `id` is public, unlike the session's token, which is not kept."""

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
