from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, select

from penstock.exchange.authorization import Authorization, Role
from penstock.store import schema
from penstock.store.errors import AlreadyExists, BadName, NoSuchRecord
from penstock.store.records import Account, SessionLog
from penstock.store.store import Store
from penstock.wire.tlex.vocabulary import Tlc, TlcType

NOON = 1_700_000_000_000


@pytest.fixture
def account(store: Store) -> Account:
    return store.add_account("City of Delft")


# -- accounts ---------------------------------------------------------------------------------------------------------


def test_accounts_are_found_by_name_and_listed_by_it(store: Store, account: Account) -> None:
    other = store.add_account("Breda")
    assert store.account("City of Delft") == account
    assert store.accounts() == [other, account]


def test_the_name_of_an_account_is_its_own(store: Store, account: Account) -> None:
    with pytest.raises(AlreadyExists, match="'City of Delft' exists already"):
        store.add_account("City of Delft")
    assert store.accounts() == [account]


def test_an_account_that_does_not_exist_is_named(store: Store) -> None:
    with pytest.raises(NoSuchRecord, match="'nobody'"):
        store.account("nobody")
    with pytest.raises(NoSuchRecord, match="nobody"):
        store.remove_account("nobody")
    with pytest.raises(NoSuchRecord, match="nobody"):
        store.authorize("nobody", "test", Role.TLC_ADMIN)
    with pytest.raises(NoSuchRecord, match="nobody"):
        store.add_tlc("test", "NLZH0001", TlcType.VLOG, "nobody")


def test_an_account_takes_its_authorizations_and_tokens_along(store: Store, account: Account) -> None:
    authorization = store.authorize(account.uuid, "test", Role.TLC_ADMIN, ["NLZH0001"])
    token = store.add_token(authorization.uuid, NOON)
    store.remove_account(account.uuid)
    assert store.find(token.secret) is None
    assert store.authorizations(account.uuid) == []
    assert store.accounts() == []


def test_an_account_that_owns_controllers_cannot_go(store: Store, account: Account) -> None:
    tlc = store.add_tlc("test", "NLZH0001", TlcType.TCP_STREAMING, account.uuid)
    with pytest.raises(AlreadyExists, match="still owns controllers"):
        store.remove_account(account.uuid)
    assert store.accounts() == [account]
    store.remove_tlc(tlc.uuid)
    store.remove_account(account.uuid)


@pytest.mark.parametrize("text", ["", " ", " Delft", "Delft\n", "a\0b", "\ud800", "x" * 256])
def test_what_is_no_name_is_refused(store: Store, account: Account, text: str) -> None:
    with pytest.raises(BadName, match=r"name: .* is not 1 to 255 printable characters"):
        store.add_account(text)
    with pytest.raises(BadName, match="domain: "):
        store.authorize(account.uuid, text, Role.TLC_ADMIN)
    with pytest.raises(BadName, match="domain: "):
        store.add_tlc(text, "NLZH0001", TlcType.VLOG, account.uuid)
    assert store.accounts() == [account]


def test_a_domain_that_is_too_long_in_lower_case_is_refused(store: Store, account: Account) -> None:
    # Each of these is two characters in lower case.
    text = "\u0130" * 200
    with pytest.raises(BadName, match="domain: "):
        store.authorize(account.uuid, text, Role.TLC_ADMIN)
    with pytest.raises(BadName, match="domain: "):
        store.add_tlc(text, "NLZH0001", TlcType.VLOG, account.uuid)


@pytest.mark.parametrize("text", ["", "NLZH001", "NLZH00001", "NLZH001\n", "NLZH 001", "NLZH00é1", "NLZH00\u0661"])
def test_what_is_no_identifier_is_refused(store: Store, account: Account, text: str) -> None:
    with pytest.raises(BadName, match=r"identifier: .* is not 8 characters of A-Z"):
        store.add_tlc("test", text, TlcType.VLOG, account.uuid)
    with pytest.raises(BadName, match="identifier: "):
        store.authorize(account.uuid, "test", Role.TLC_ADMIN, ["NLZH0001", text])
    assert not store.tlcs()
    assert not store.authorizations(account.uuid)


@pytest.mark.parametrize("text", ["x", "é", "Stadt Köln, Amt für Verkehr", "x" * 255])
def test_names_are_any_text(store: Store, text: str) -> None:
    assert store.account(store.add_account(text).name).name == text


# -- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("identifiers", [(), ("NLZH0001", "NLZH0002")])
def test_a_token_leads_to_what_it_allows(
    store: Store, account: Account, role: Role, identifiers: tuple[str, ...]
) -> None:
    made = store.authorize(account.uuid, "Test", role, identifiers)
    token = store.add_token(made.uuid, NOON)
    assert made == Authorization(made.uuid, account.uuid, "test", role, frozenset(identifiers))
    assert store.find(token.secret) == replace(made, token=token.uuid)
    assert store.authorizations(account.uuid) == [made]


def test_a_token_has_43_characters_and_is_never_the_same(store: Store, account: Account) -> None:
    authorization = store.authorize(account.uuid, "test", Role.BROKER_SYSTEM)
    secrets = {store.add_token(authorization.uuid, NOON).secret for _ in range(20)}
    assert len(secrets) == 20
    assert {len(each) for each in secrets} == {43}


def test_the_secret_of_a_token_is_nowhere_in_the_database(store: Store, account: Account, url: str) -> None:
    authorization = store.authorize(account.uuid, "test", Role.BROKER_SYSTEM)
    token = store.add_token(authorization.uuid, NOON)
    engine = create_engine(url)
    with engine.connect() as connection:
        everything = [
            str(value) + repr(value)
            for table in schema.metadata.sorted_tables
            for row in connection.execute(select(table))
            for value in row
        ]
    engine.dispose()
    assert any(token.uuid in each for each in everything)
    assert not any(token.secret in each for each in everything)
    assert token.secret not in repr(token)


@pytest.mark.parametrize(
    "secret", ["", "x" * 43, "x" * 100_000, "\0", "é", "\ud800", "' OR 1=1 --"], ids=lambda text: ascii(text)[:12]
)
def test_what_is_no_token_leads_nowhere(store: Store, account: Account, secret: str) -> None:
    store.add_token(store.authorize(account.uuid, "test", Role.BROKER_SYSTEM).uuid, NOON)
    assert store.find(secret) is None


def test_a_revoked_token_leads_nowhere_and_others_still_do(store: Store, account: Account) -> None:
    authorization = store.authorize(account.uuid, "test", Role.BROKER_SYSTEM)
    first, second = store.add_token(authorization.uuid, NOON), store.add_token(authorization.uuid, NOON + 1)
    store.revoke(first.uuid, NOON + 5)
    store.revoke(first.uuid, NOON + 9)
    assert store.find(first.secret) is None
    assert store.find(second.secret) is not None
    assert [(each.uuid, each.created, each.revoked) for each in store.tokens(authorization.uuid)] == [
        (first.uuid, NOON, NOON + 5),
        (second.uuid, NOON + 1, None),
    ]
    assert set(store.good_tokens([first.uuid, second.uuid, "unknown"])) == {second.uuid}
    assert store.good_tokens([]) == {}


def test_tokens_that_do_not_exist_are_named(store: Store) -> None:
    with pytest.raises(NoSuchRecord, match="Token nothing"):
        store.revoke("nothing", NOON)
    with pytest.raises(NoSuchRecord, match="Authorization nothing"):
        store.add_token("nothing", NOON)


# -- controllers ------------------------------------------------------------------------------------------------------


def test_controllers_are_listed_by_domain_and_identifier(store: Store, account: Account) -> None:
    third = store.add_tlc("test", "NLZH0001", TlcType.TCP_STREAMING, account.uuid)
    second = store.add_tlc("Breda", "NLZH0002", TlcType.VLOG, account.uuid)
    first = store.add_tlc("breda", "NLZH0001", TlcType.TCP_STREAMING, account.uuid)
    assert second == Tlc(
        uuid=second.uuid, identifier="NLZH0002", type=TlcType.VLOG, domain="breda", account=account.uuid
    )
    assert store.tlcs() == [first, second, third]


def test_an_identifier_is_registered_once_in_a_domain_and_case_matters(store: Store, account: Account) -> None:
    store.add_tlc("test", "NLZH0001", TlcType.TCP_STREAMING, account.uuid)
    with pytest.raises(AlreadyExists, match="Controller 'NLZH0001' in domain 'test' exists already"):
        store.add_tlc("TEST", "NLZH0001", TlcType.VLOG, account.uuid)
    store.add_tlc("test", "nlzh0001", TlcType.TCP_STREAMING, account.uuid)
    assert len(store.tlcs()) == 2


def test_a_controller_can_be_registered_again_after_it_was_removed(store: Store, account: Account) -> None:
    tlc = store.add_tlc("test", "NLZH0001", TlcType.TCP_STREAMING, account.uuid)
    store.remove_tlc(tlc.uuid)
    with pytest.raises(NoSuchRecord, match=tlc.uuid):
        store.remove_tlc(tlc.uuid)
    assert store.add_tlc("test", "NLZH0001", TlcType.TCP_STREAMING, account.uuid).uuid != tlc.uuid


# -- past sessions ----------------------------------------------------------------------------------------------------


def log(id: str, created: int, ended: int, account: str = "ours") -> SessionLog:
    return SessionLog(
        id=id,
        account=account,
        domain="test",
        type="Broker",
        protocol="TCPStreaming_Multiplex",
        identifiers=("NLZH0001", "NLZH0002"),
        created=created,
        connected=None if id == "never" else created + 1,
        ended=ended,
        end_reason="CLIENT_DISCONNECT",
    )


LOGS = [log("early", 100, 200), log("long", 150, 900), log("never", 400, 405), log("theirs", 400, 410, "theirs")]

RANGES = [
    (0, 1_000, ["early", "long", "never", "theirs"]),
    (0, 99, []),
    (0, 100, ["early"]),
    (200, 200, ["early", "long"]),
    (201, 399, ["long"]),
    (405, 405, ["long", "never", "theirs"]),
    (901, 2_000, []),
]


@pytest.mark.parametrize(("since", "until", "expected"), RANGES)
def test_sessions_are_found_that_were_there_in_a_time(
    store: Store, since: int, until: int, expected: list[str]
) -> None:
    store.log_sessions(LOGS)
    assert [each.id for each in store.session_logs(since, until)] == expected


def test_sessions_are_logged_whole_and_found_by_account(store: Store) -> None:
    store.log_sessions([])
    store.log_sessions(LOGS)
    assert store.session_logs(0, 1_000, "ours") == LOGS[:3]
    assert store.session_logs(0, 1_000, limit=2) == LOGS[:2]


def test_old_sessions_are_forgotten(store: Store) -> None:
    store.log_sessions(LOGS)
    assert store.forget_sessions(410) == 2
    assert [each.id for each in store.session_logs(0, 1_000)] == ["long", "theirs"]


# -- the database -----------------------------------------------------------------------------------------------------


def test_everything_is_there_after_a_restart(store: Store, account: Account, url: str) -> None:
    authorization = store.authorize(account.uuid, "test", Role.BROKER_SYSTEM)
    token = store.add_token(authorization.uuid, NOON)
    store.close()
    again = Store.open(url)
    assert again.find(token.secret) == replace(authorization, token=token.uuid)
    again.close()


def test_another_process_may_change_the_database_meanwhile(store: Store, url: str) -> None:
    other = Store.open(url)
    account = other.add_account("Delft")
    token = other.add_token(other.authorize(account.uuid, "test", Role.BROKER_SYSTEM).uuid, NOON)
    assert store.find(token.secret) is not None
    other.revoke(token.uuid, NOON)
    assert store.find(token.secret) is None
    other.close()


def test_many_threads_may_write_at_once(store: Store, url: str) -> None:
    other = Store.open(url)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: (store, other)[number % 2].add_account(f"account {number}"), range(40)))
    assert len(store.accounts()) == 40
    other.close()


def test_of_many_who_want_the_same_name_one_has_it(store: Store) -> None:
    def add(_: int) -> bool:
        try:
            store.add_account("Delft")
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(add, range(16))).count(True) == 1


def test_the_version_of_a_database_tells_whether_anybody_has_written(store: Store, url: str) -> None:
    if store.version() is None:
        assert store.engine.dialect.name == "postgresql"
        return
    seen = {store.version()}
    assert {store.version(), store.version()} == seen

    account = store.add_account("ours")
    assert store.version() not in seen
    seen.add(store.version())

    other = Store.open(url)
    tlc = other.add_tlc("test", "NLZH0001", TlcType.VLOG, account.uuid)
    assert store.version() not in seen
    seen.add(store.version())
    assert store.tlcs() == [tlc]
    assert store.version() in seen

    other.remove_tlc(tlc.uuid)
    other.close()
    assert store.version() not in seen


def test_the_version_is_another_one_on_another_connection_to_the_database(store: Store) -> None:
    before = store.version()
    if before is not None:
        store.engine.dispose()
        assert store.version() != before
