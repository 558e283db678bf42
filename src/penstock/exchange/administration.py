"""What an administrator may grant: which roles, to whom, where, for which controllers. Never more than they have.

An administrator may see, change and withdraw an authorization if they might have granted it. Where authorizations are
kept is in `store`; what a role allows is in `rights`.
"""

from __future__ import annotations

from penstock.exchange.authorization import Authorization, Role
from penstock.exchange.refusals import HubReason, HubRefusal, unknown
from penstock.exchange.rights import Right, require, require_domain, require_identifier

# Roles by who grants them. Administrators of a category grant the roles of their own.
GRANTS: dict[Role, tuple[Role, ...]] = {
    Role.PLATFORM_ADMIN: tuple(Role),
    Role.DOMAIN_ADMIN: tuple([role for role in Role if role is not Role.PLATFORM_ADMIN]),
    Role.TLC_ADMIN: (Role.TLC_ADMIN, Role.TLC_SYSTEM, Role.TLC_ANALYST),
    Role.BROKER_ADMIN: (Role.BROKER_ADMIN, Role.BROKER_SYSTEM, Role.BROKER_ANALYST),
    Role.MONITOR_ADMIN: (Role.MONITOR_ADMIN, Role.MONITOR_SYSTEM),
}

# They grant to any account; others only to their own.
_OF_ALL_ACCOUNTS = (Role.PLATFORM_ADMIN, Role.DOMAIN_ADMIN)


def require_grant(grantor: Authorization, wanted: Authorization, identifiers: tuple[str, ...]) -> None:
    """Raises HubRefusal unless `grantor` may grant `wanted`, whose controllers are in the order of the request."""
    require(grantor, Right.GRANT)
    roles = GRANTS[grantor.role]
    if wanted.role not in roles:
        text = f"{wanted.role.value!r} cannot be granted by role {grantor.role.value}; allowed: {', '.join(roles)}"
        raise HubRefusal(HubReason.GRANTED_ROLE, text)
    require_domain(grantor, wanted.domain)
    if grantor.role not in _OF_ALL_ACCOUNTS and wanted.account != grantor.account:
        text = f"{wanted.account!r:.60} is not the account of the authorization, which is {grantor.account!r}"
        raise HubRefusal(HubReason.GRANTED_ACCOUNT, text)
    if grantor.identifiers and not identifiers:
        text = "missing, because the authorization of the request is for some controllers only"
        raise HubRefusal(HubReason.GRANTED_SCOPE, text)
    if not grantor.policy.includes(wanted.policy):
        text = "allows payload types that the authorization of the request does not"
        raise HubRefusal(HubReason.GRANTED_POLICY, text)
    for position, identifier in enumerate(identifiers):
        require_identifier(grantor, identifier, position)


def may_manage(grantor: Authorization, other: Authorization) -> bool:
    """Whether an authorization may be seen, and its tokens made and revoked."""
    try:
        require_grant(grantor, other, tuple(other.identifiers))
    except HubRefusal:
        return False
    return True


def manageable(grantor: Authorization, other: Authorization | None) -> Authorization:
    """Raises HubRefusal: one of others is as unknown as one that does not exist."""
    require(grantor, Right.GRANT)
    if other is None or not may_manage(grantor, other):
        raise unknown()
    return other


def require_other(own: str, changed: str, what: str) -> None:
    """Raises HubRefusal for what the request itself depends on: administrators must not lock themselves out."""
    if own == changed:
        raise HubRefusal(HubReason.OWN, f"The {what} of the request itself cannot be changed or deleted by it")
