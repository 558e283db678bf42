from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.exchange.administration import GRANTS, manageable, may_manage, require_grant, require_other
from penstock.exchange.authorization import Authorization, Role
from penstock.exchange.refusals import HubReason, HubRefusal
from penstock.exchange.rights import RIGHTS, Right

A, B = "NLZH000A", "NLZH000B"


def of(role: Role, account: str = "ours", domain: str = "test", identifiers: tuple[str, ...] = ()) -> Authorization:
    return Authorization(f"{role.value}-{account}", account, domain, role, frozenset(identifiers))


def refusal(grantor: Authorization, wanted: Authorization, identifiers: tuple[str, ...] = ()) -> HubRefusal:
    with pytest.raises(HubRefusal) as refused:
        require_grant(grantor, wanted, identifiers)
    return refused.value


def test_roles_that_grant_are_those_with_the_right_to() -> None:
    assert set(GRANTS) == {role for role, rights in RIGHTS.items() if Right.GRANT in rights}


@pytest.mark.parametrize("granted", Role)
@pytest.mark.parametrize("role", Role)
def test_a_role_grants_those_of_its_own_category_or_below(role: Role, granted: Role) -> None:
    category = role.value.removesuffix("_ADMIN")
    allowed = {
        Role.PLATFORM_ADMIN: True,
        Role.DOMAIN_ADMIN: granted is not Role.PLATFORM_ADMIN,
    }.get(role, role.value.endswith("_ADMIN") and granted.value.startswith(f"{category}_"))
    assert may_manage(of(role), of(granted)) == allowed
    if not allowed:
        reason = HubReason.GRANTED_ROLE if role in GRANTS else HubReason.ROLE
        assert refusal(of(role), of(granted)).reason is reason


def test_the_refusal_of_a_role_names_those_that_are_allowed() -> None:
    text = "'TLC_ADMIN' cannot be granted by role MONITOR_ADMIN; allowed: MONITOR_ADMIN, MONITOR_SYSTEM"
    assert refusal(of(Role.MONITOR_ADMIN), of(Role.TLC_ADMIN)).text == text


def test_only_administrators_of_domain_and_platform_grant_to_other_accounts() -> None:
    theirs = of(Role.BROKER_SYSTEM, "theirs")
    assert may_manage(of(Role.PLATFORM_ADMIN), theirs)
    assert may_manage(of(Role.DOMAIN_ADMIN), theirs)
    assert refusal(of(Role.BROKER_ADMIN), theirs).reason is HubReason.GRANTED_ACCOUNT


def test_only_administrators_of_the_platform_grant_in_other_domains() -> None:
    elsewhere = of(Role.BROKER_SYSTEM, domain="other")
    assert may_manage(of(Role.PLATFORM_ADMIN), elsewhere)
    for role in (Role.DOMAIN_ADMIN, Role.BROKER_ADMIN):
        assert refusal(of(role), elsewhere).reason is HubReason.DOMAIN


def test_who_is_restricted_to_controllers_grants_no_others() -> None:
    admin = of(Role.TLC_ADMIN, identifiers=(A,))
    require_grant(admin, of(Role.TLC_SYSTEM), (A,))
    foreign = refusal(admin, of(Role.TLC_SYSTEM), (A, B))
    assert (foreign.reason, foreign.position) == (HubReason.NOT_AUTHORIZED, 1)
    assert refusal(admin, of(Role.TLC_SYSTEM)).reason is HubReason.GRANTED_SCOPE
    assert not may_manage(admin, of(Role.TLC_SYSTEM))


def test_authorizations_of_others_are_as_unknown_as_those_that_do_not_exist() -> None:
    admin = of(Role.BROKER_ADMIN)
    own = of(Role.BROKER_SYSTEM)
    assert manageable(admin, own) is own
    for other in (None, replace(own, account="theirs"), replace(own, domain="other"), of(Role.TLC_SYSTEM)):
        with pytest.raises(HubRefusal) as refused:
            manageable(admin, other)
        assert refused.value.reason is HubReason.UNKNOWN
    with pytest.raises(HubRefusal) as refused:
        manageable(of(Role.BROKER_SYSTEM), own)
    assert refused.value.reason is HubReason.ROLE


def test_nobody_changes_what_the_request_itself_depends_on() -> None:
    require_other("1", "2", "token")
    with pytest.raises(HubRefusal, match=r"^The token of the request itself") as refused:
        require_other("1", "1", "token")
    assert refused.value.reason is HubReason.OWN
