"""What each role may do: one table. The roles themselves are in `authorization`.

A type of session is for the roles of its own category. Specification: 5.1; the other roles come from the wider
interface.
"""

from __future__ import annotations

from enum import Enum, auto

from penstock.exchange.authorization import Authorization, Role
from penstock.exchange.refusals import HubReason, HubRefusal
from penstock.wire.tlex.vocabulary import SessionType, Tlc


class Right(Enum):
    # Create and change sessions.
    USE_SESSIONS = auto()
    SEE_SESSIONS = auto()
    END_SESSIONS = auto()
    SEE_TLCS = auto()
    CHANGE_TLCS = auto()
    SEE_LOGS = auto()
    # Authorizations and their tokens; which of them is in `administration`.
    GRANT = auto()
    CHANGE_ACCOUNTS = auto()
    CHANGE_DOMAINS = auto()
    # Session templates of a domain.
    CHANGE_TEMPLATES = auto()


_SYSTEM = {Right.USE_SESSIONS, Right.SEE_SESSIONS}
_ADMIN = {*_SYSTEM, Right.END_SESSIONS, Right.SEE_TLCS, Right.SEE_LOGS, Right.GRANT}
_OVERSEER = {
    Right.SEE_SESSIONS,
    Right.END_SESSIONS,
    Right.SEE_TLCS,
    Right.SEE_LOGS,
    Right.GRANT,
    Right.CHANGE_TEMPLATES,
}

RIGHTS: dict[Role, frozenset[Right]] = {
    Role.PLATFORM_ADMIN: frozenset({*_OVERSEER, Right.CHANGE_ACCOUNTS, Right.CHANGE_DOMAINS}),
    Role.DOMAIN_ADMIN: frozenset(_OVERSEER),
    Role.TLC_ADMIN: frozenset({*_ADMIN, Right.CHANGE_TLCS}),
    Role.TLC_SYSTEM: frozenset(_SYSTEM),
    Role.TLC_ANALYST: frozenset({Right.SEE_TLCS, Right.SEE_LOGS}),
    Role.BROKER_ADMIN: frozenset(_ADMIN),
    Role.BROKER_SYSTEM: frozenset({*_SYSTEM, Right.SEE_TLCS}),
    Role.BROKER_ANALYST: frozenset({Right.SEE_TLCS, Right.SEE_LOGS}),
    Role.MONITOR_ADMIN: frozenset(_ADMIN),
    Role.MONITOR_SYSTEM: frozenset({*_SYSTEM, Right.SEE_TLCS, Right.SEE_LOGS}),
}

CATEGORIES: dict[Role, SessionType] = {
    Role.TLC_ADMIN: SessionType.TLC,
    Role.TLC_SYSTEM: SessionType.TLC,
    Role.BROKER_ADMIN: SessionType.BROKER,
    Role.BROKER_SYSTEM: SessionType.BROKER,
    Role.MONITOR_ADMIN: SessionType.MONITOR,
    Role.MONITOR_SYSTEM: SessionType.MONITOR,
}


def require(authorization: Authorization, right: Right) -> None:
    """Raises HubRefusal."""
    if right not in RIGHTS[authorization.role]:
        raise HubRefusal(HubReason.ROLE, f"Not allowed for role {authorization.role.value}")


def require_type(authorization: Authorization, type: SessionType) -> None:
    """Raises HubRefusal unless a session of this type is for the role."""
    category = CATEGORIES.get(authorization.role)
    if type is not category:
        allowed = "none" if category is None else repr(category.value)
        text = f"{type.value!r} is not for role {authorization.role.value}; allowed: {allowed}"
        raise HubRefusal(HubReason.SESSION_TYPE, text)


def require_domain(authorization: Authorization, domain: str) -> None:
    """Raises HubRefusal."""
    if not covers(authorization, domain):
        raise HubRefusal(HubReason.DOMAIN, f"{domain!r:.60} is not the domain of the authorization")


def require_identifier(authorization: Authorization, identifier: str, position: int | None = None) -> None:
    """Raises HubRefusal unless the authorization is for this controller."""
    if authorization.identifiers and identifier not in authorization.identifiers:
        text = f"{identifier!r} is not one of the authorization's controllers"
        raise HubRefusal(HubReason.NOT_AUTHORIZED, text, position)


def covers(authorization: Authorization, domain: str) -> bool:
    return authorization.role is Role.PLATFORM_ADMIN or authorization.domain == domain


def may_see(authorization: Authorization, tlc: Tlc) -> bool:
    """Whether a controller is shown: those of the domain, or the ones that the authorization is restricted to."""
    allowed = authorization.identifiers
    return covers(authorization, tlc.domain) and (not allowed or tlc.identifier in allowed)


def sees_account(authorization: Authorization, account: str) -> bool:
    """Whether sessions and logs of an account are shown: the own ones, or all to administrators of the domain."""
    return authorization.account == account or sees_accounts(authorization)


def sees_accounts(authorization: Authorization) -> bool:
    """Whether those of all accounts are shown."""
    return authorization.role in (Role.PLATFORM_ADMIN, Role.DOMAIN_ADMIN)
