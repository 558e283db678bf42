"""Who asks: an account with a role in a domain. A role is for one category of sessions, or above them all.

What a role allows is a table in `rights`. Who has which is kept in `store`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What an account may be in a domain."""

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
    """What an account may be in a domain, and the token by which this was found."""

    uuid: str
    account: str
    domain: str
    role: Role
    # The controllers it is restricted to; none: all of the domain.
    identifiers: frozenset[str] = frozenset()
    # Of the token, which may be revoked; its secret is nowhere.
    token: str = ""
