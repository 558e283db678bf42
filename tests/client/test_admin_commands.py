"""`penstock admin …` as a person types it, against a server with clients on real sockets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app
from penstock.terminal import FAILED, UNREACHABLE, WRONG
from tests.conformance.phrases import add, batch, create
from tests.services.admin.site import AdminSite
from tests.support.forge import Forked


@pytest.fixture
def site(tmp_path: Path) -> Iterator[AdminSite]:
    with AdminSite(tmp_path) as running:
        yield running


def admin(site: AdminSite, *arguments: str, user: str = "root", password: str | None = None) -> Result:
    secret = f"{user}-secret" if password is None else password
    options = ["--api", f"http://127.0.0.1:{site.api_port}", "--user", user]
    return CliRunner(env={"PENSTOCK_ADMIN_PASSWORD": secret}).invoke(app, ["admin", *options, *arguments])


def done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_session_is_listed_shown_limited_and_ended(site: AdminSite) -> None:
    with site.exchange.stream(user="ann") as stream:
        batch(site.exchange, stream.session, add(group="a limited"))
        stream.read_until("CONF")
        name = stream.session[:17]
        head, row = done(admin(site, "sessions")).splitlines()
        assert head.split()[:3] == ["session", "user", "adapter_set"]
        assert row.split()[:5] == [name, "ann", "TEST", "127.0.0.1", "http-streaming"]
        assert json.loads(done(admin(site, "sessions", "--json")))["total"] == 1
        assert done(admin(site, "sessions", "--of", "bob")).splitlines()[1:] == []
        shown = done(admin(site, "session", name))
        assert "user: ann\n" in shown
        assert shown.splitlines()[-1].split() == ["1", "DEFAULT", "MERGE", "2", "-", "a", "limited"]

        assert done(admin(site, "bandwidth", name, "12.5")) == f"penstock: session {name}: 12.5 kbit/s\n"
        assert stream.read_line() == "CONS,12.5"
        assert done(admin(site, "bandwidth", name, "reset")) == f"penstock: session {name}: no limit\n"
        assert stream.read_line() == "CONS,unlimited"
        told = f"penstock: session {name}, subscription 1:"
        assert done(admin(site, "frequency", name, "1", "0.5")) == f"{told} 0.5 updates/s\n"
        assert stream.read_line() == "CONF,1,0.5,filtered"
        assert done(admin(site, "frequency", name, "1", "unlimited")) == f"{told} no limit\n"
        assert stream.read_line() == "CONF,1,unlimited,filtered"
        assert done(admin(site, "unsubscribe", name, "1")) == f"penstock: session {name}: subscription 1 ended\n"
        assert stream.read_line() == "UNSUB,1"
        assert done(admin(site, "end", name, "--code", "-3", "--message", "Bye")) == f"penstock: session {name} ended\n"
        assert stream.read_line() == "END,-3,Bye"


def test_new_sessions_are_blocked_and_let_in_again(site: AdminSite) -> None:
    done(admin(site, "block", "user", "ann"))
    assert done(admin(site, "blocks")).splitlines()[1].split() == ["user", "ann", "root"]
    assert site.exchange.request("create_session", create(user="ann"))[0].startswith("CONERR,10,")
    assert done(admin(site, "unblock", "user", "ann")).splitlines()[1:] == []
    assert json.loads(done(admin(site, "blocks", "--json"))) == []


def test_the_server_as_a_whole(site: AdminSite) -> None:
    assert done(admin(site, "drain")) == "penstock: draining, 0 sessions\n"
    assert done(admin(site, "drain", "--cancel")) == "penstock: not draining, 0 sessions\n"
    assert done(admin(site, "drain", "--node", "penstock")) == "penstock: penstock: draining, 0 sessions\n"
    assert done(admin(site, "drain", "--node", "penstock", "--cancel")).endswith(": not draining, 0 sessions\n")
    assert "TEST/HAND" in done(admin(site, "adapters"))
    site.call(site.plain.fail, "gone")
    assert "failed" in done(admin(site, "adapters"))
    assert done(admin(site, "clear-failure", "TEST/PLAIN")) == "penstock: adapter TEST/PLAIN: failure cleared\n"
    assert done(admin(site, "level", "penstock.wire", "debug")) == "penstock: penstock.wire: debug\n"
    assert "penstock.wire " in done(admin(site, "levels"))
    done(admin(site, "level", "penstock.wire", "reset"))
    assert done(admin(site, "items", "--set", "TEST")).splitlines()[1:] == []


def test_what_the_server_refuses_is_one_line_and_exit_code_1(site: AdminSite) -> None:
    for arguments, line in (
        (["end", "Snone"], "session Snone: no such session is open"),
        (["bandwidth", "Snone", "nan"], "max_kbps = nan: input should be a finite number"),
        (["drain", "--node", "w1"], "node w1: it is not one of the nodes with clients; those are penstock"),
        (["unblock", "all"], "all: there is no such block"),
        (["block", "planet"], "scope = 'planet': input should be 'all', 'adapter_set' or 'user'"),
        (["reload"], "this server runs inside another program, which starts and stops it"),
        (["tlex", "sessions"], "TLEX is not served: tlex.enabled is false"),
        (["level", "penstock", "loud"], "'loud' is not a level; expected one of debug, info, warning, error"),
    ):
        result = admin(site, *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (FAILED, "", f"penstock: {line}\n")


def test_a_wrong_login_and_a_role_without_the_right_are_told(site: AdminSite) -> None:
    wrong = admin(site, "sessions", password="guess")
    assert (wrong.exit_code, wrong.stderr) == (FAILED, "penstock: unknown user or wrong password\n")
    viewer = admin(site, "block", "all", user="eve")
    assert (viewer.exit_code, viewer.stderr.count("\n")) == (FAILED, 1)
    assert "this needs admin" in viewer.stderr
    assert not site.server.gate.blocks


def test_mistakes_on_the_command_line_are_told_before_anything_is_asked(site: AdminSite) -> None:
    result = admin(site, "bandwidth", "Snone", "fast")
    assert (result.exit_code, result.stderr) == (
        WRONG,
        "penstock: LIMIT = fast: expected a number, unlimited or reset\n",
    )
    result = admin(site, "sessions", user="a:b")
    assert (result.exit_code, result.stderr) == (WRONG, "penstock: user 'a:b': expected a name without a colon\n")


def test_a_server_that_is_not_there_is_told() -> None:
    runner = CliRunner(env={"PENSTOCK_ADMIN_PASSWORD": "x"})
    result = runner.invoke(app, ["admin", "--api", "http://127.0.0.1:1", "sessions"])
    assert result.exit_code == UNREACHABLE
    assert result.stderr.startswith("penstock: the API port does not answer: ")


def test_another_server_is_not_taken_for_ours(site: AdminSite) -> None:
    runner = CliRunner(env={"PENSTOCK_ADMIN_PASSWORD": "x"})
    result = runner.invoke(app, ["admin", "--api", f"http://127.0.0.1:{site.port}", "sessions"])
    assert result.exit_code == FAILED
    assert "which is not an answer of a Penstock server" in result.stderr


def test_the_password_may_come_from_standard_input(site: AdminSite) -> None:
    options = ["--api", f"http://127.0.0.1:{site.api_port}", "--user", "eve", "--password-stdin"]
    environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_ADMIN_PASSWORD"}
    process = Forked(["admin", *options, "blocks", "--json"], environment=environment)
    assert process.communicate("eve-secret\n", 30) == ("[]\n", "")
    assert process.wait() == 0


def test_a_name_that_would_move_the_cursor_is_shown_harmless(site: AdminSite) -> None:
    with site.exchange.stream(user="a\x1b[2Jb"):
        row = done(admin(site, "sessions")).splitlines()[1]
        assert "\x1b" not in row
        assert "a?[2Jb" in row
