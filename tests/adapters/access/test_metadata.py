from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters import Reason, Refusal
from penstock.adapters.access import AccessError, AccessMetadata
from penstock.adapters.access.metadata import NOT_ADMITTED
from penstock.kernel.item import Mode
from penstock.kernel.ports import Admission, DeviceFacts, PushFacts
from penstock.services.errors import StartError
from penstock.testing import Harness
from tests.adapters.access.world import (
    AUDIENCE,
    AccessServer,
    client,
    ec_key,
    facts,
    key_set,
    public,
    signed,
    write_users,
)
from tests.support.raw import Exchange, params


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return write_users(tmp_path / "users", {"alice": ["trader"], "bob": []})


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "keys.json").write_bytes(key_set(public(ec_key(), kid="ec")))
    return {"keys": str(tmp_path / "keys.json"), "audience": AUDIENCE, "header": True, "leeway_seconds": 0}


def token(**changes: object) -> str:
    return signed(ec_key(), "ES256", "ec", **changes)


def admit(
    parameters: Mapping[str, Any],
    user: str | None = None,
    password: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Admission | None:
    """What the adapter says to a client; None if it says no, for which it has one answer only."""

    async def ask() -> Admission | None:
        metadata = AccessMetadata(**parameters)
        await metadata.start()
        try:
            return await metadata.authenticate(user, password, client(**(headers or {})))
        except Refusal as refusal:
            refusals.append((refusal.reason, refusal.message, refusal.code))
            return None
        finally:
            await metadata.stop()

    refusals: list[object] = []
    admission = asyncio.run(ask())
    assert admission is not None or refusals == [(Reason.CREDENTIALS, NOT_ADMITTED, None)]
    return admission


# -- who comes in -----------------------------------------------------------------------------------------------------


def test_without_users_and_tokens_everybody_comes_in_and_is_nobody() -> None:
    for user, password in ((None, None), ("alice", None), ("alice", "anything")):
        admission = admit({}, user, password)
        assert admission == Admission()


def test_users_come_in_with_their_password_and_nobody_else_does(users: Path) -> None:
    admission = admit({"users": users}, "alice", "alice's password")
    assert admission is not None
    assert (admission.user, admission.roles, admission.time_to_live) == ("alice", frozenset({"trader"}), None)
    for user, password in (
        ("alice", "bob's password"),
        ("alice", ""),
        ("alice", None),
        ("carol", "carol's password"),
        (None, "alice's password"),
        ("", ""),
        (None, None),
        ("alice", token()),
    ):
        assert admit({"users": users}, user, password) is None


def test_somebody_without_name_and_password_comes_in_where_that_is_allowed(users: Path) -> None:
    parameters = {"users": users, "anonymous": True}
    for user, password in ((None, None), ("", "")):
        admission = admit(parameters, user, password)
        assert admission is not None
        assert (admission.user, admission.roles) == (None, frozenset())
    for user, password in (("alice", None), ("alice", ""), (None, "alice's password"), ("alice", "wrong")):
        assert admit(parameters, user, password) is None


def test_a_token_is_the_password_until_it_expires(tokens: dict[str, Any]) -> None:
    expiry = int(time.time()) + 100
    for user in (None, "", "alice"):
        admission = admit({"tokens": tokens}, user, token(exp=expiry))
        assert admission is not None
        assert (admission.user, admission.roles) == ("alice", frozenset({"trader"}))
        assert admission.time_to_live is not None
        assert 0 < admission.time_to_live <= 100
    assert admit({"tokens": tokens}, "bob", token()) is None
    assert admit({"tokens": tokens}, "alice", token(aud="bank")) is None
    assert admit({"tokens": tokens}, "alice", "alice's password") is None
    assert admit({"tokens": tokens}) is None


def test_a_token_in_the_header_will_do_where_there_is_no_password(tokens: dict[str, Any]) -> None:
    parameters = {"tokens": tokens, "anonymous": True}
    good, bad = {"authorization": f"Bearer {token()}"}, {"authorization": "Bearer x.y.z"}
    admission = admit(parameters, headers=good)
    assert admission is not None
    assert admission.user == "alice"
    assert admit(parameters, "bob", None, good) is None
    assert admit(parameters, None, "wrong", good) is None
    # Not anonymous: it wanted to be somebody.
    assert admit(parameters, headers=bad) is None
    without = {"tokens": tokens | {"header": False}}
    assert admit(without, headers=good) is None


def test_users_and_tokens_go_together(users: Path, tokens: dict[str, Any]) -> None:
    parameters = {"users": users, "tokens": tokens}
    by_password = admit(parameters, "bob", "bob's password")
    by_token = admit(parameters, None, token(sub="bob", roles=["admin"]))
    assert by_password is not None
    assert by_token is not None
    assert (by_password.user, by_password.roles) == ("bob", frozenset())
    assert (by_token.user, by_token.roles) == ("bob", frozenset({"admin"}))
    assert admit(parameters, "bob", token(sub="alice")) is None
    assert admit(parameters, "bob", "alice's password") is None


def test_rules_say_what_bandwidth_an_admitted_user_has(users: Path) -> None:
    rules = [{"roles": ["trader"], "max_bandwidth": 50, "manages_bandwidth": False}]
    alice = admit({"users": users, "rules": rules}, "alice", "alice's password")
    bob = admit({"users": users, "rules": rules}, "bob", "bob's password")
    assert alice is not None
    assert bob is not None
    assert (alice.max_bandwidth, alice.manages_bandwidth) == (50.0, False)
    assert (bob.max_bandwidth, bob.manages_bandwidth) == (None, True)


def test_checking_passwords_leaves_the_event_loop_free(tmp_path: Path) -> None:
    from penstock.adapters.access.users import User, hashed

    # A hash of full strength: a check takes long enough for the loop to turn many times.
    (tmp_path / "users").write_text(User("alice", hashed("tall order")).line())

    async def play() -> None:
        metadata = AccessMetadata(users=tmp_path / "users")
        await metadata.start()
        checks = [asyncio.create_task(metadata.authenticate("alice", "tall order", client())) for _ in range(8)]
        turns = 0
        while not all(check.done() for check in checks):
            await asyncio.sleep(0)
            turns += 1
        await metadata.stop()
        assert [(await check).user for check in checks] == ["alice"] * 8
        # On the loop each check would take one turn.
        assert turns > 100

    asyncio.run(play())


def test_neither_password_nor_token_is_logged(
    users: Path, tokens: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bad = token(aud="bank")
    # A test before may have set the level of all of ours.
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "penstock"):
        for password in ("tall order", bad):
            assert admit({"users": users, "tokens": tokens}, "alice", password) is None
        assert admit({"users": users, "tokens": tokens}, None, None, {"authorization": f"Bearer {bad}"}) is None
    logged = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert logged.count("client not admitted") >= 3
    assert "tall order" not in logged
    assert bad not in logged
    assert bad.rpartition(".")[2] not in logged


# -- what they may have -----------------------------------------------------------------------------------------------


def test_without_rules_everything_is_as_in_the_base_class(users: Path) -> None:
    metadata = AccessMetadata(users=users)
    assert metadata.items(facts("alice"), "QUOTES", "a b") == ["a", "b"]
    assert metadata.allows_mode(facts("alice"), "QUOTES", "a", Mode.RAW)
    assert metadata.max_frequency(facts("alice"), "QUOTES", "a") is None
    assert metadata.max_buffer_size(facts("alice"), "QUOTES", "a") is None
    assert metadata.snapshot_length("QUOTES", "a") == 10
    assert metadata.prefilter_frequency("QUOTES", "a") == 0.0
    with pytest.raises(Refusal, match="This adapter set accepts no messages"):
        metadata.message(facts("alice"), "hello")
    permit_push(metadata, "alice")


def permit_push(metadata: AccessMetadata, user: str) -> None:
    """Raises what the adapter raises; `alice` is a trader."""
    session = facts(user, *["trader"] * (user == "alice"))
    device = DeviceFacts("Web", "app", "token")
    metadata.register_device(session, device)
    metadata.change_device_token(session, device, "new")
    metadata.activate_push(session, device, PushFacts("Q", Mode.MERGE, "g", "s", ("a", "b"), ("x",), "{}", None))


def test_each_item_of_a_push_subscription_must_be_granted_whatever_group_it_came_from(users: Path) -> None:
    rules: list[dict[str, Any]] = [
        {"items": ["a"], "push_applications": ["app"]},
        {"roles": ["trader"], "items": ["b"]},
    ]
    permit_push(AccessMetadata(users=users, rules=rules), "alice")
    with pytest.raises(Refusal, match=r"^b is not among the items that this user gets by push$") as raised:
        permit_push(AccessMetadata(users=users, rules=rules), "bob")
    assert raised.value.reason is Reason.GROUP


@pytest.mark.parametrize("rules", [[], [{"items": ["a", "b"]}]])
def test_devices_need_a_rule_of_their_own_in_every_request_about_them(users: Path, rules: list[dict[str, Any]]) -> None:
    metadata = AccessMetadata(users=users, rules=rules)
    device = DeviceFacts("Web", f"app{'x' * 100}", "token")
    push = PushFacts("Q", Mode.MERGE, "g", "s", ("a",), ("x",), "{}", None)
    asked: list[Callable[[], None]] = [
        lambda: metadata.register_device(facts("alice"), device),
        lambda: metadata.change_device_token(facts("alice"), device, "new"),
        lambda: metadata.activate_push(facts("alice"), device, push),
    ]
    for ask in asked:
        with pytest.raises(Refusal, match=f"^app{'x' * 57} is not among the applications of this user$") as raised:
            ask()
        assert raised.value.reason is Reason.APPLICATION


def test_with_an_empty_list_of_rules_nothing_is_allowed(users: Path) -> None:
    metadata = AccessMetadata(users=users, rules=[])
    with pytest.raises(Refusal):
        metadata.items(facts("alice"), "QUOTES", "a")
    assert not metadata.allows_mode(facts("alice"), "QUOTES", "a", Mode.MERGE)
    with pytest.raises(Refusal, match="This user may not send messages"):
        metadata.message(facts("alice"), "hello")


def test_limits_are_those_of_the_rule_that_grants_the_item(users: Path) -> None:
    rules: list[dict[str, Any]] = [
        {
            "roles": ["trader"],
            "items": ["stock.*"],
            "modes": ["MERGE", "DISTINCT"],
            "max_frequency": 2.5,
            "max_buffer_size": 3,
            "snapshot_length": 7,
            "prefilter_frequency": 4,
        },
        {"items": ["*"]},
    ]
    metadata = AccessMetadata(users=users, rules=rules)
    alice, bob = facts("alice", "trader"), facts("bob")
    assert metadata.max_frequency(alice, "QUOTES", "stock.a") == 2.5
    assert metadata.max_buffer_size(alice, "QUOTES", "stock.a") == 3
    assert [metadata.allows_mode(alice, "QUOTES", "stock.a", mode) for mode in Mode] == [False, True, True, False]
    assert metadata.max_frequency(bob, "QUOTES", "stock.a") is None
    assert metadata.max_buffer_size(bob, "QUOTES", "stock.a") is None
    # These two are the item's, whoever asks.
    assert metadata.snapshot_length("QUOTES", "stock.a") == 7
    assert metadata.prefilter_frequency("QUOTES", "stock.a") == 4.0
    assert metadata.snapshot_length("QUOTES", "bond") == 10
    assert metadata.prefilter_frequency("QUOTES", "bond") == 0.0


def test_a_group_is_refused_if_one_of_its_items_is_in_words_that_do_not_say_whether_it_exists(users: Path) -> None:
    metadata = AccessMetadata(users=users, rules=[{"items": ["open.*"]}])
    assert metadata.items(facts("alice"), "QUOTES", "open.a open.b") == ["open.a", "open.b"]
    with pytest.raises(Refusal) as raised:
        metadata.items(facts("alice"), "QUOTES", f"open.a secret{'x' * 100} open.b")
    assert raised.value.reason is Reason.GROUP
    assert raised.value.message == f"secret{'x' * 54} is not among the items of this user"


def test_a_name_that_nobody_vouches_for_means_nothing_to_rules() -> None:
    metadata = AccessMetadata(rules=[{"items": ["open"]}])
    assert metadata.items(facts("alice"), "QUOTES", "open") == ["open"]


def test_items_that_a_subclass_makes_of_a_group_are_still_subject_to_the_rules(users: Path) -> None:
    class Wide(AccessMetadata):
        def items(self, session: object, data_adapter: str, group: str) -> list[str]:
            return ["open", "secret"]

    metadata = Wide(users=users, rules=[{"items": ["open"]}])
    assert [metadata.allows_mode(facts("alice"), "Q", item, Mode.MERGE) for item in ("open", "secret")] == [True, False]


# -- at the start -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"sessions_per_user": 0}, "sessions_per_user = 0: expected a whole number from 1 up"),
        ({"sessions_per_user": 1}, "sessions_per_user without users or tokens: expected one of them"),
        ({"tokens": "keys.json"}, "tokens: expected a table, not str"),
        ({"rules": {}}, "rules: expected a list of tables"),
        (
            {"rules": [{"users": ["ada"], "items": ["a"]}]},
            "rule 1: users without users or tokens: expected one of them",
        ),
    ],
)
def test_wrong_parameters_are_told_in_one_line(parameters: dict[str, Any], line: str) -> None:
    with pytest.raises(AccessError) as raised:
        AccessMetadata(**parameters)
    assert str(raised.value).startswith(line)


def test_a_missing_file_stops_the_start_of_the_server(tmp_path: Path) -> None:
    server = AccessServer(AccessMetadata(users=tmp_path / "nowhere"))
    with pytest.raises(StartError, match=r"metadata adapter of set TEST failed: .*nowhere: expected a readable"):
        server.__enter__()


def test_paths_in_the_table_of_tokens_begin_at_the_directory(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set(public(ec_key(), kid="ec")))
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef")
    by_key = {"directory": tmp_path, "tokens": {"keys": "keys.json", "audience": AUDIENCE}}
    by_secret = {"directory": tmp_path, "tokens": {"secret_file": "secret", "audience": AUDIENCE}}
    assert admit(by_key, None, token()) is not None
    assert admit(by_secret, None, signed("0123456789abcdef0123456789abcdef", "HS256")) is not None


# -- over sockets -----------------------------------------------------------------------------------------------------


def test_a_session_ends_when_its_token_expires(tokens: dict[str, Any]) -> None:
    with AccessServer(AccessMetadata(tokens=tokens)) as server:
        exchange = Exchange(server.host, server.port)
        # Whole seconds are what tokens count in: the session lasts between two and three, also on a busy machine.
        expiry = math.ceil(time.time()) + 2
        with exchange.stream(user="alice", password=token(exp=expiry)) as stream:
            assert stream.head[0].startswith("CONOK,")
            assert stream.read_until("END")[-1].startswith("END,48,")
            assert time.time() >= expiry
            answer = exchange.control(stream.session, reqId=1, op="add", subId=1, group="a", schema="x", mode="RAW")
            assert answer[0].startswith("REQERR,1,20,") or answer[0].startswith("SYNC ERROR")


def test_a_session_ends_at_the_moment_its_admission_says(tokens: dict[str, Any]) -> None:
    admission = admit({"tokens": tokens}, "alice", token())
    assert admission is not None
    assert admission.time_to_live is not None
    harness = Harness()
    session = harness.kernel.open_session(harness.codec, harness.handler)
    session.admit(admission, None)
    session.end_after(admission.time_to_live)
    channel = harness.bind(session)
    harness.advance(admission.time_to_live - 0.001)
    assert not session.closed
    harness.advance(0.001)
    assert channel.take()[-1].startswith("END,48,")


def test_a_client_is_told_the_same_whatever_was_wrong(users: Path, tokens: dict[str, Any]) -> None:
    attempts = [
        {},
        {"user": "alice"},
        {"user": "alice", "password": "wrong"},
        {"user": "carol", "password": "wrong"},
        {"user": "bob", "password": token()},
        {"password": token(exp=1)},
        {"password": token(aud="bank")},
        {"password": token()[:-4]},
        {"password": "x" * 10_000},
    ]
    with AccessServer(AccessMetadata(users=users, tokens=tokens)) as server:
        exchange = Exchange(server.host, server.port)
        answers = set()
        for attempt in attempts:
            with exchange.http() as http:
                http.post(
                    "create_session", f"{params(adapter_set='TEST', **attempt)}&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg"
                )
                http.read_head()
                answers.add(http.read_line())
        assert answers == {f"CONERR,1,{NOT_ADMITTED}"}


def test_a_token_in_a_header_opens_a_session(tokens: dict[str, Any]) -> None:
    with AccessServer(AccessMetadata(tokens=tokens)) as server:
        for value, expected in ((f"Bearer {token()}", "CONOK"), ("Bearer nonsense", "CONERR")):
            with Exchange(server.host, server.port).http() as http:
                body = f"{params(adapter_set='TEST')}&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg"
                http.post("create_session", body, headers={"Authorization": value})
                http.read_head()
                assert http.read_line().startswith(expected)


def test_one_session_more_than_a_user_may_have_ends_the_oldest(users: Path) -> None:
    with AccessServer(AccessMetadata(users=users, sessions_per_user=1)) as server:
        exchange = Exchange(server.host, server.port)
        alice = {"user": "alice", "password": "alice's password"}
        with (
            exchange.stream(**alice) as first,
            exchange.stream(user="bob", password="bob's password") as other,
            exchange.stream(**alice) as second,
        ):
            assert first.read_until("END")[-1].startswith("END,35,")
            for stream in (second, other):
                answer = exchange.control(stream.session, reqId=1, op="add", subId=1, group="a", schema="x", mode="RAW")
                assert answer == ["REQOK,1"]


def test_who_has_a_limit_cannot_ask_for_everything_unfiltered(users: Path) -> None:
    rules: list[dict[str, Any]] = [{"users": ["alice"], "items": ["*"], "max_frequency": 2}, {"items": ["*"]}]
    with AccessServer(AccessMetadata(users=users, rules=rules)) as server:
        exchange = Exchange(server.host, server.port)
        wish = {"op": "add", "subId": 1, "group": "a", "schema": "x", "mode": "MERGE"}
        for user, frequency, expected in (
            ("alice", "unfiltered", "REQERR,1,26,"),
            ("alice", "100", "CONF,1,2.0"),
            ("bob", "unfiltered", "CONF,1,unlimited,unfiltered"),
        ):
            with exchange.stream(user=user, password=f"{user}'s password") as stream:
                answer = exchange.control(stream.session, reqId=1, requested_max_frequency=frequency, **wish)
                lines = answer if answer[0].startswith("REQERR") else stream.read_until("CONF")
                assert lines[-1].startswith(expected)
