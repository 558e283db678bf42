from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.adapters.access import editing
from penstock.adapters.access.users import User, UserFile, parse
from tests.adapters.access.world import weak_hash
from tests.support import forge

SOURCE = Path(__file__).parents[3] / "src"
COMMAND = [sys.executable, "-m", "penstock.cli", "user"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "utf-8"}


def user(directory: Path, *arguments: str | bytes, password: str = "") -> subprocess.CompletedProcess[str]:
    return forge.run(["user", *arguments], directory, given=f"{password}\n")


def add(directory: Path, name: str, *arguments: str, password: str = "tall order") -> subprocess.CompletedProcess[str]:
    return user(directory, "add", "users", name, "--password-stdin", *arguments, password=password)


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_a_user_who_is_added_is_listed_and_checked(tmp_path: Path) -> None:
    done = add(tmp_path, "alice", "--role", "trader", "--role", "admin")
    assert outcome(done) == (0, "penstock: users: user alice written\n", "")
    assert outcome(user(tmp_path, "list", "users")) == (0, "alice\ttrader,admin\n", "")
    listed = user(tmp_path, "list", "users", "--json")
    assert json.loads(listed.stdout) == [{"name": "alice", "roles": ["trader", "admin"]}]
    right = user(tmp_path, "check", "users", "alice", "--password-stdin", password="tall order")
    assert outcome(right) == (0, "penstock: users: user alice: ok\n", "")
    wrong = (1, "", "penstock: users: user {}: no such user, or wrong password\n")
    for name, password in (("alice", "small order"), ("bob", "tall order")):
        done = user(tmp_path, "check", "users", name, "--password-stdin", password=password)
        assert outcome(done) == (wrong[0], wrong[1], wrong[2].format(name))


def test_a_new_file_is_for_its_owner_alone_and_holds_no_password(tmp_path: Path) -> None:
    assert add(tmp_path, "alice").returncode == 0
    path = tmp_path / "users"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "tall order" not in path.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["users"]


def test_changes_leave_comments_other_users_and_the_mode_of_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "users"
    bob = f"bob:{weak_hash('x')}:admin"
    path.write_text(f"# ours\n\n{bob}\n  # theirs")
    path.chmod(0o640)
    assert add(tmp_path, "alice").returncode == 0
    lines = path.read_text().split("\n")
    assert lines[:4] == ["# ours", "", bob, "  # theirs"]
    assert lines[4].startswith("alice:$argon2id$")
    assert lines[5:] == [""]
    assert outcome(user(tmp_path, "remove", "users", "bob")) == (0, "penstock: users: user bob removed\n", "")
    assert path.read_text().split("\n") == [*lines[:2], *lines[3:]]
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_user_who_is_there_is_changed_only_on_request_and_keeps_the_roles(tmp_path: Path) -> None:
    assert add(tmp_path, "alice", "--role", "trader").returncode == 0
    before = (tmp_path / "users").read_text()
    line = "penstock: users: user alice already exists: expected another name, or --replace\n"
    assert outcome(add(tmp_path, "alice")) == (1, "", line)
    assert (tmp_path / "users").read_text() == before
    assert add(tmp_path, "alice", "--replace", password="small order").returncode == 0
    users = UserFile(str(tmp_path / "users"))
    users.load()
    assert users.check("alice", "tall order") is None
    alice = users.check("alice", "small order")
    assert alice is not None
    assert alice.roles == ("trader",)


@pytest.mark.parametrize(
    ("arguments", "password", "line"),
    [
        (("add", "users", "a:b"), "tall order", "NAME = a:b: expected 1 to 255 characters without a colon"),
        (("add", "users", "#a"), "tall order", "NAME = #a: expected 1 to 255 characters"),
        (("add", "users", "a\nb"), "tall order", r"NAME = a\u000ab: expected 1 to 255 characters"),
        ((b"add", b"users", b"\xff"), "tall order", r"NAME = \udcff: expected 1 to 255 characters"),
        (("add", "users", "a", "--role", "x,y"), "tall order", "--role = x,y: expected 1 to 255 characters"),
        (("add", "users", "a"), "short", "password: expected 8 to 1024 characters, not 5"),
        (("add", "users", "a"), "x" * 1025, "password: expected 8 to 1024 characters, not 1025"),
        (("add", "nowhere/users", "a"), "tall order", "nowhere: expected a directory (No such file or directory)"),
        (("add", "broken", "a"), "tall order", "broken: line 1: user bob: expected name:hash:role,role"),
        (("remove", "nothing", "a"), "", "nothing: expected a readable file of users (No such file or directory)"),
        (("remove", "empty", "a"), "", "empty: no user a"),
        (("list", "broken"), "", "broken: line 1: user bob: expected name:hash:role,role"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    tmp_path: Path, arguments: tuple[str | bytes, ...], password: str, line: str
) -> None:
    (tmp_path / "broken").write_text("bob:hunter2hunter2:\n")
    (tmp_path / "empty").write_text("")
    options = ("--password-stdin",) if arguments[0] in ("add", b"add") else ()
    done = user(tmp_path, *arguments, *options, password=password)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"penstock: {line}")
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["broken", "empty"]


def test_changes_at_the_same_time_wait_for_one_another(tmp_path: Path) -> None:
    path = tmp_path / "users"
    entered, released = threading.Event(), threading.Event()

    def slowly(before: User | None) -> User:
        entered.set()
        assert released.wait(20)
        return User("slow", weak_hash("x"))

    slow = threading.Thread(target=editing.add, args=(path, "slow", slowly))
    quick = threading.Thread(target=editing.add, args=(path, "quick", lambda before: User("quick", weak_hash("x"))))
    slow.start()
    assert entered.wait(20)
    quick.start()
    # Long enough to be done, were there nothing to wait for; then its change would be lost.
    quick.join(0.3)
    released.set()
    slow.join(20)
    quick.join(20)
    assert [user.name for user in parse(path.read_text(), "users")] == ["slow", "quick"]


def test_a_password_that_is_typed_is_asked_for_twice_and_never_shown(tmp_path: Path) -> None:
    terminal, inner = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "add", "users", "alice"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
        # A terminal of its own: prompts for passwords go there, whatever the standard streams are.
        preexec_fn=lambda: _take_terminal(inner),
    ) as process:
        os.close(inner)
        shown = _read_until(terminal, b"Password: ")
        os.write(terminal, b"tall order\n")
        shown += _read_until(terminal, b"Repeat for confirmation: ")
        os.write(terminal, b"tall order\n")
        shown += _read_until(terminal, b"written")
        assert process.wait(30) == 0
    os.close(terminal)
    assert b"tall order" not in shown
    users = UserFile(str(tmp_path / "users"))
    users.load()
    assert users.check("alice", "tall order") is not None


def _take_terminal(terminal: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def _read_until(terminal: int, end: bytes) -> bytes:
    shown = b""
    while end not in shown:
        shown += os.read(terminal, 1_024)
    return shown
