from __future__ import annotations

import pytest

from penstock.exchange.authorization import Authorization, Role
from penstock.store.domains import DomainStore
from penstock.store.errors import AlreadyExists, BadName, NoSuchAccount, NoSuchRecord
from penstock.store.records import SessionLog
from penstock.store.store import Store
from penstock.wire.tlex.vocabulary import TlcType


def names(store: Store) -> list[str]:
    return [each.name for each in DomainStore(store).all()]


def test_a_domain_comes_into_being_when_it_is_first_named(store: Store) -> None:
    account = store.add_account("ours").uuid
    store.authorize(account, "One", Role.TLC_ADMIN)
    store.add_tlc("two", "NLZH0001", TlcType.TCP_STREAMING, account)
    store.add_tlc("one", "NLZH0001", TlcType.TCP_STREAMING, account)
    DomainStore(store).add("Three")
    assert names(store) == ["one", "three", "two"]


def test_names_are_unique_and_checked(store: Store) -> None:
    domains = DomainStore(store)
    one, two = domains.add("one"), domains.add("two")
    assert domains.get(one.uuid) == one
    with pytest.raises(AlreadyExists, match="'one' exists already"):
        domains.add("ONE")
    with pytest.raises(AlreadyExists, match="'one' exists already"):
        domains.rename(two.uuid, "one")
    with pytest.raises(BadName, match="name: "):
        domains.add(" ")
    for missing in (lambda: domains.rename("none", "x"), lambda: domains.remove("none")):
        with pytest.raises(NoSuchRecord):
            missing()
    assert domains.get("none") is None


def test_what_is_in_a_domain_is_renamed_with_it_and_keeps_it(store: Store) -> None:
    domains = DomainStore(store)
    account = store.add_account("ours").uuid
    granted = store.authorize(account, "old", Role.TLC_ADMIN)
    tlc = store.add_tlc("old", "NLZH0001", TlcType.TCP_STREAMING, account)
    (domain,) = domains.all()
    assert domains.rename(domain.uuid, "New").name == "new"
    assert [each.domain for each in store.authorizations()] == [each.domain for each in store.tlcs()] == ["new"]
    with pytest.raises(AlreadyExists, match="still has controllers"):
        domains.remove(domain.uuid)
    store.remove_tlc(tlc.uuid)
    with pytest.raises(AlreadyExists, match="still has authorizations"):
        domains.remove(domain.uuid)
    store.remove_authorization(granted.uuid)
    domains.remove(domain.uuid)
    assert names(store) == []


def test_whether_an_authorization_or_its_account_is_missing_can_be_told(store: Store) -> None:
    granted = store.authorize(store.add_account("ours").uuid, "test", Role.TLC_ADMIN, ["NLZH0001"])
    assert store.authorizations() == [granted]
    with pytest.raises(NoSuchAccount):
        store.change_authorization(Authorization(granted.uuid, "nobody", "test", Role.TLC_ADMIN))
    store.remove_authorization(granted.uuid)
    with pytest.raises(NoSuchRecord) as gone:
        store.change_authorization(granted)
    assert not isinstance(gone.value, NoSuchAccount)


def test_a_past_session_is_found_by_its_token_which_is_not_kept(store: Store) -> None:
    entry = SessionLog("id", "a", "test", "TLC", "p", ("NLZH0001",), 1, None, 2, "CLIENT_DISCONNECT", "secret")
    store.log_sessions([entry])
    for key in ("id", "secret"):
        found = store.session_log(key)
        assert found == entry
        assert found.token == ""
    assert store.session_log("other") is None
