from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from argon2 import PasswordHasher, Type, extract_parameters

from penstock.adapters.access.settings import AccessError
from penstock.adapters.access.users import MAX_PASSWORD_CHARACTERS, User, UserFile, hashed, parse, verify
from tests.adapters.access.world import WEAK, password_of, weak_hash, write_users


@pytest.fixture
def users(tmp_path: Path) -> UserFile:
    found = UserFile(str(write_users(tmp_path / "users", {"alice": ["trader", "admin"], "bob": []})))
    found.load()
    return found


def test_the_right_password_gives_the_user_with_the_roles(users: UserFile) -> None:
    alice = users.check("alice", "alice's password")
    assert alice is not None
    assert (alice.name, alice.roles) == ("alice", ("trader", "admin"))
    bob = users.check("bob", "bob's password")
    assert bob is not None
    assert bob.roles == ()


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "bob's password"),
        ("alice", ""),
        ("alice", "alice's password "),
        ("alice", "Alice's password"),
        ("alice", "\ud800"),
        ("Alice", "alice's password"),
        ("alice ", "alice's password"),
        ("# name", "roles"),
        ("", ""),
        ("carol", "carol's password"),
    ],
)
def test_anything_else_gives_nobody(users: UserFile, name: str, password: str) -> None:
    assert users.check(name, password) is None


def test_who_has_the_hash_does_not_have_the_password(users: UserFile) -> None:
    assert users.check("alice", known_user(users, "alice").hash) is None


def test_an_endless_password_is_not_even_looked_at(users: UserFile, tmp_path: Path) -> None:
    long = "x" * (MAX_PASSWORD_CHARACTERS + 1)
    (tmp_path / "users").write_text(f"alice:{WEAK.hash(long)}:\nbob:{WEAK.hash(long[1:])}:\n")
    assert users.check("alice", long) is None
    assert users.check("bob", long[1:]) is not None


def test_an_unknown_name_costs_as_much_as_a_known_one(users: UserFile) -> None:
    known, decoy = users.hash_to_check(known_user(users, "alice")), users.hash_to_check(None)
    assert decoy != known
    assert extract_parameters(decoy) == extract_parameters(known)
    assert len(decoy) == len(known)


def known_user(users: UserFile, name: str) -> User:
    user = users.check(name, password_of(name))
    assert user is not None
    return user


def test_a_file_without_users_still_has_something_to_check_against(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("")
    users = UserFile(str(tmp_path / "users"))
    users.load()
    assert extract_parameters(users.hash_to_check(None)).type is Type.ID
    assert users.check("nobody", "") is None


def test_a_changed_file_is_read_again(users: UserFile, tmp_path: Path) -> None:
    write_users(tmp_path / "users", {"bob": ["admin"], "carol": []})
    assert users.check("alice", "alice's password") is None
    bob = users.check("bob", "bob's password")
    assert bob is not None
    assert bob.roles == ("admin",)
    assert users.check("carol", "carol's password") is not None


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again(users: UserFile, tmp_path: Path) -> None:
    path = tmp_path / "users"
    before = path.stat()
    text = path.read_text().replace("alice:", "malic:")
    (tmp_path / "new").write_text(text)
    os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(tmp_path / "new", path)
    assert users.check("alice", "alice's password") is None
    assert users.check("malic", "alice's password") is not None


@pytest.mark.parametrize("content", ["alice", "alice:nonsense:", b"\xff\xfe"])
def test_a_file_that_became_unusable_changes_nothing_and_is_told_once(
    users: UserFile, tmp_path: Path, content: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "users").write_bytes(content if isinstance(content, bytes) else content.encode())
    for _ in range(3):
        assert users.check("alice", "alice's password") is not None
    assert [record.getMessage() for record in caplog.records] == ["users not read again, the old ones stay"]


def test_a_file_that_has_gone_changes_nothing_until_it_is_back(users: UserFile, tmp_path: Path) -> None:
    (tmp_path / "users").unlink()
    assert users.check("alice", "alice's password") is not None
    write_users(tmp_path / "users", {"bob": []})
    assert users.check("alice", "alice's password") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("alice", "line 1: user alice: expected name:hash:role,role with an argon2id hash"),
        ("# one\n\nalice:secret:", "line 3: user alice: expected name:hash:role,role with an argon2id hash"),
        (":hash:", "line 1: expected name:hash:role,role"),
        ("a b :hash:", "line 1: expected name:hash:role,role"),
        ("a:HASH:one two", "line 1: user a: role one two: expected 1 to 255 characters without spaces"),
        ("a:HASH:\na:HASH:", "line 2: user a is given twice: expected each user once"),
    ],
)
def test_a_wrong_line_is_told_with_its_number_and_without_its_secret(text: str, problem: str) -> None:
    with pytest.raises(AccessError) as raised:
        parse(text.replace("HASH", weak_hash("x")), "users")
    assert str(raised.value).startswith(f"users: {problem}")
    assert "secret" not in str(raised.value)
    assert "$argon2" not in str(raised.value)


def test_a_hash_of_a_weaker_kind_is_refused() -> None:
    weaker = PasswordHasher(type=Type.I, time_cost=1, memory_cost=8, parallelism=1).hash("x")
    with pytest.raises(AccessError, match="users: line 1: user a: expected name:hash:role,role with an argon2id hash"):
        parse(f"a:{weaker}:", "users")


def test_a_missing_file_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"nowhere: expected a readable file of users \(No such file or directory\)"):
        UserFile(str(tmp_path / "nowhere")).load()


def test_names_may_be_of_any_script_and_hold_spaces_inside(tmp_path: Path) -> None:
    users = UserFile(str(write_users(tmp_path / "users", {"Ада Л.": ["роль"], "o'neil@example.org": []})))
    users.load()
    ada = users.check("Ада Л.", password_of("Ада Л."))
    assert ada is not None
    assert ada.roles == ("роль",)
    assert users.check("o'neil@example.org", password_of("o'neil@example.org")) is not None


def test_new_hashes_are_argon2id_each_with_a_salt_of_its_own() -> None:
    first, second = hashed("tall order"), hashed("tall order")
    assert first != second
    assert verify(first, "tall order")
    assert verify(second, "tall order")
    assert not verify(first, "small order")
    parameters = extract_parameters(first)
    # RFC 9106, 4: the second recommended option.
    assert (parameters.type, parameters.memory_cost, parameters.time_cost) == (Type.ID, 65_536, 3)


def test_neither_passwords_nor_hashes_show_up_in_logs_or_representations(
    users: UserFile, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        users.check("alice", "wrong password")
        write_users(tmp_path / "users", {"alice": []})
        alice = users.check("alice", "alice's password")
        (tmp_path / "users").write_text("alice:alice's password:")
        users.check("alice", "alice's password")
    logged = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "users read again" in logged
    for text in (logged, repr(alice), str(alice)):
        assert "alice's password" not in text
        assert "wrong password" not in text
        assert "$argon2id" not in text
