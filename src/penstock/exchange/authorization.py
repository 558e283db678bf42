"""Who makes a request: an account with a role in a domain. A role is for one category of sessions, or for all.

What a role allows is a table in `rights`. Who has which is kept in `store`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The roles that an account may have in a domain."""

    PLATFORM_ADMIN = "PLATFORM_ADMIN"
    DOMAIN_ADMIN = "DOMAIN_ADMIN"
    TLC_ADMIN = "TLC_ADMIN"
    TLC_SYSTEM = "TLC_SYSTEM"
    TLC_ANALYST = "TLC_ANALYST"
    BROKER_ADMIN = "BROKER_ADMIN"
    BROKER_SYSTEM = "BROKER_SYSTEM"
    BROKER_ANALYST = "BROKER_ANALYST"
    MONITOR_ADMIN = "MONITOR_ADMIN"
    MONITOR_SYSTEM = "MONITOR_SYSTEM"


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
