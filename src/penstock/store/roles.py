"""Roles: what an account may be in a domain. A role is for one category of sessions, or above them all.

What a role allows is a table of each door, not of the database.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
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
