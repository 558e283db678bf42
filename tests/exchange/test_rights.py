from __future__ import annotations

import pytest

from penstock.exchange.authorization import Authorization, Role
from penstock.exchange.refusals import HubReason, HubRefusal
from penstock.exchange.rights import RIGHTS, Right, covers, require, require_domain, require_type, sees_account
from tests.exchange.world import BROKER, MONITOR, TLC

USE, SEE, END = Right.USE_SESSIONS, Right.SEE_SESSIONS, Right.END_SESSIONS
TLCS, CHANGE, LOGS = Right.SEE_TLCS, Right.CHANGE_TLCS, Right.SEE_LOGS
GRANT, ACCOUNTS = Right.GRANT, Right.CHANGE_ACCOUNTS
DOMAINS, TEMPLATES = Right.CHANGE_DOMAINS, Right.CHANGE_TEMPLATES

ALLOWED = [
    (Role.PLATFORM_ADMIN, {SEE, END, TLCS, LOGS, GRANT, ACCOUNTS, DOMAINS, TEMPLATES}),
    (Role.DOMAIN_ADMIN, {SEE, END, TLCS, LOGS, GRANT, TEMPLATES}),
    (Role.TLC_ADMIN, {USE, SEE, END, TLCS, CHANGE, LOGS, GRANT}),
    (Role.TLC_SYSTEM, {USE, SEE}),
    (Role.TLC_ANALYST, {TLCS, LOGS}),
    (Role.BROKER_ADMIN, {USE, SEE, END, TLCS, LOGS, GRANT}),
    (Role.BROKER_SYSTEM, {USE, SEE, TLCS}),
    (Role.BROKER_ANALYST, {TLCS, LOGS}),
    (Role.MONITOR_ADMIN, {USE, SEE, END, TLCS, LOGS, GRANT}),
    (Role.MONITOR_SYSTEM, {USE, SEE, TLCS, LOGS}),
]


def of(role: Role, domain: str = "test") -> Authorization:
    return Authorization("1", "ours", domain, role)


def test_every_role_is_in_the_table() -> None:
    assert set(RIGHTS) == set(Role) == {role for role, _ in ALLOWED}


@pytest.mark.parametrize(("role", "allowed"), ALLOWED)
def test_a_role_may_do_what_the_table_says_and_nothing_else(role: Role, allowed: set[Right]) -> None:
    for right in Right:
        if right in allowed:
            require(of(role), right)
        else:
            with pytest.raises(HubRefusal, match=role.value) as refused:
                require(of(role), right)
            assert refused.value.reason is HubReason.ROLE


@pytest.mark.parametrize("role", Role)
def test_a_type_of_session_is_for_its_own_category_of_roles(role: Role) -> None:
    for type in (TLC, BROKER, MONITOR):
        if role.value in (f"{type.name}_ADMIN", f"{type.name}_SYSTEM"):
            require_type(of(role), type)
        else:
            with pytest.raises(HubRefusal, match=f"^'{type.value}' is not for role {role.value}; allowed: ") as refused:
                require_type(of(role), type)
            assert refused.value.reason is HubReason.SESSION_TYPE


@pytest.mark.parametrize("role", Role)
def test_only_who_looks_after_the_platform_is_not_bound_to_a_domain(role: Role) -> None:
    require_domain(of(role), "test")
    assert covers(of(role), "other") == (role is Role.PLATFORM_ADMIN)
    if role is not Role.PLATFORM_ADMIN:
        with pytest.raises(HubRefusal, match=r"^'other' is not the domain of the authorization$") as refused:
            require_domain(of(role), "other")
        assert refused.value.reason is HubReason.DOMAIN


@pytest.mark.parametrize("role", Role)
def test_other_accounts_are_seen_by_those_who_look_after_a_domain(role: Role) -> None:
    assert sees_account(of(role), "ours")
    assert sees_account(of(role), "theirs") == (role in (Role.PLATFORM_ADMIN, Role.DOMAIN_ADMIN))
