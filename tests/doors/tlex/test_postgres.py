"""The hub with its accounts, tokens, controllers and past sessions in a real PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from typer.testing import CliRunner

from penstock.cli import app
from penstock.exchange.authorization import Role
from penstock.store.schema import metadata
from penstock.wire.tlex.datagrams import Bye
from tests.doors.tlex.site import PATIENCE, Site, named, plain, request
from tests.store.postgres import Postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture
def empty(postgres: Postgres) -> Postgres:
    engine = create_engine(postgres.url)
    metadata.drop_all(engine)
    engine.dispose()
    return postgres


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"


def test_what_the_commands_put_into_postgresql_is_good_for_rest_and_a_connection(
    empty: Postgres, tmp_path: Path
) -> None:
    configuration = tmp_path / "penstock.toml"
    configuration.write_text(f'[tlex]\nenabled = true\nstore = "{empty.url}"\n')

    def typed(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["tlex", *arguments, "--config", str(configuration)])
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout.strip()

    typed("account", "add", "Delft")
    typed("tlc", "add", "Delft", "NLZH0023", "--domain", "Test")
    tokens = {
        role: typed("token", "add", "Delft", "--domain", "test", "--role", role)
        for role in ("TLC_ADMIN", "BROKER_ADMIN")
    }
    with Site(tmp_path, {"tlex.poll_millis": 50}, empty.url) as site:

        def ask(method: str, path: str, role: str, body: object = None) -> tuple[int, object]:
            answer = site.http.request(method, path, json=body, headers={"X-Authorization": tokens[role]})
            return answer.status_code, answer.json() if answer.content else None

        status, made = ask("POST", "/tlcs", "TLC_ADMIN", {"identifier": "NLZH0024"})
        assert status == 201
        assert isinstance(made, dict)
        status, listed = ask("GET", "/tlcs", "BROKER_ADMIN")
        assert isinstance(listed, list)
        assert [each["identifier"] for each in listed] == ["NLZH0023", "NLZH0024"]
        assert "NLZH0024" in typed("tlc", "list")

        peers = {}
        for role, type_, identifiers in (("TLC_ADMIN", "TLC", ["NLZH0023"]), ("BROKER_ADMIN", "Broker", ["NLZH0023"])):
            status, session = ask("POST", "/sessions", role, request(type_, *identifiers))
            assert status == 200
            assert isinstance(session, dict)
            peers[type_] = site.connect(session)
        peers["TLC"].send(named("NLZH0023", "green"))
        assert peers["Broker"].payload() == named("NLZH0023", "green")

        assert ask("DELETE", f"/tlcs/{made['uuid']}", "TLC_ADMIN") == (204, None)
        assert ask("DELETE", f"/sessions/{peers['TLC'].token}", "TLC_ADMIN") == (204, None)
        assert peers["TLC"].bye() == "session deleted"
        status, logs = ask("GET", "/sessionlogs", "TLC_ADMIN")
        assert isinstance(logs, list)
        assert [(each["tlcIdentifiers"], each["endReason"]) for each in logs] == [(["NLZH0023"], "ADMIN_TERMINATION")]

        (row,) = [line for line in typed("token", "list").splitlines() if "BROKER_ADMIN" in line]
        typed("token", "revoke", row.split("\t")[0])
        assert peers["Broker"].bye() == "authorization token revoked"
        assert ask("GET", "/tlcs", "BROKER_ADMIN")[0] == 401


def test_all_is_there_for_the_next_server_and_for_another_one_beside_it(empty: Postgres, tmp_path: Path) -> None:
    with Site(tmp_path, {"tlex.reconnect_millis": 50}, empty.url) as first:
        (a,) = first.tlcs(1)
        token = first.token(Role.TLC_ADMIN)
        first.join("Broker", a)
    with Site(tmp_path, {"tlex.poll_millis": 50}, empty.url) as one, Site(tmp_path, {}, empty.url) as other:
        headers = {"X-Authorization": token}
        assert [each["identifier"] for each in one.http.get("/tlcs", headers=headers).json()] == [a]
        (past,) = one.store.session_logs(0, 2**53)
        assert (past.identifiers, past.end_reason) == ((a,), "CLIENT_DISCONNECT")
        assert other.http.post("/tlcs", json={"identifier": "BESIDE01"}, headers=headers).status_code == 201
        until(lambda: len(one.http.get("/tlcs", headers=headers).json()) == 2)


def test_a_database_that_goes_away_is_503_and_sessions_go_on(empty: Postgres, tmp_path: Path) -> None:
    patient = {"tlex.broker.keep_alive_millis": 60_000, "tlex.tlc.keep_alive_millis": 60_000}
    with Site(tmp_path, {"tlex.poll_millis": 50, **patient}, empty.url) as site:
        a, b = site.tlcs(2)
        broker, controller, other = site.join("Broker", a), site.controller(a), site.join("Broker", b, account="others")
        token = site.token(Role.BROKER_ADMIN, "others")
        empty.stop()
        try:
            answer = site.http.get("/sessions", headers={"X-Authorization": token})
            assert (answer.status_code, answer.json()) == (
                503,
                {"message": "HTTP 503 Service Unavailable: The database does not answer", "status": 503},
            )
            controller.send(plain("all the same"))
            assert broker.payload() == named(a, "all the same")
            other.send(Bye())
            assert other.bye() is None
        finally:
            empty.start()
        answer = site.http.get("/sessionlogs", headers={"X-Authorization": token})
        assert answer.status_code == 200
        assert [each["endReason"] for each in answer.json()] == ["CLIENT_DISCONNECT"]
        broker.synchronize()


def test_a_database_that_was_restarted_in_a_quiet_hour_is_not_noticed(empty: Postgres, tmp_path: Path) -> None:
    with Site(tmp_path, {"tlex.poll_millis": 600_000}, empty.url) as site:
        (a,) = site.tlcs(1)
        token = site.token(Role.BROKER_ADMIN)
        empty.stop()
        empty.start()
        (listed,) = site.http.get("/tlcs", headers={"X-Authorization": token}).json()
        assert listed["identifier"] == a


def test_a_database_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    configuration = tmp_path / "penstock.toml"
    configuration.write_text(f'[tlex]\nstore = "postgresql+psycopg://nobody@/none?host={tmp_path}"\n')
    result = CliRunner().invoke(app, ["tlex", "account", "list", "--config", str(configuration)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("penstock: the database cannot be opened: ")
