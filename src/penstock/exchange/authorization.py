"""Who makes a request: an account with a role in a domain. A role is for one category of sessions, or for all.

What a role allows is a table in `rights`. Who has which is kept in `store`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.exchange.payload_policy import EVERYTHING, PayloadPolicy
from penstock.wire.tlex.vocabulary import Role

__all__ = ["Authorization", "Role"]


@dataclass(frozen=True, slots=True)
class Authorization:
    """The role of an account in a domain, and the token that proves it."""

    uuid: str
    account: str
    domain: str
    role: Role
    # The controllers it is restricted to; none: all of the domain.
    identifiers: frozenset[str] = frozenset()
    # The UUID of the token, which may be revoked; the secret itself is not kept.
    token: str = ""
    # The types of payloads that its sessions may send and receive.
    policy: PayloadPolicy = EVERYTHING
