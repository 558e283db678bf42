"""Draining before a stop: nobody new, sessions ended evenly, `/ready` says so; then the process stops, if asked to."""

from __future__ import annotations

import http.client
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.services.admin.drain import STEP, due
from tests.conformance.phrases import create
from tests.services.admin.site import AdminSite
from tests.support.administration import ask, basic, write_users
from tests.support.process import ServerProcess
from tests.support.raw import Exchange

MORE = """
[adapters.MORE.data.DEFAULT]
adapter = "ingest"
parameters = { items = ["x"], tokens = ["secret-of-a-producer"] }
"""


def readiness(port: int) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    connection.request("GET", "/ready")
    response = connection.getresponse()
    found: dict[str, object] = json.loads(response.read())
    connection.close()
    return response.status, found


def test_nobody_new_is_let_in_and_who_is_there_stays_until_the_drain_is_cancelled(site: AdminSite) -> None:
    with site.exchange.stream() as stream:
        state = site.ask("POST", "/drain").body
        told = {"draining": True, "seconds_left": None, "stop": False, "sessions": 1}
        assert state == {"node": None, "nodes": [], **told}
        assert readiness(site.api_port) == (503, {"status": "draining"})
        with site.exchange.http() as http:
            http.post("create_session", create())
            assert http.read_head() == 503
        assert site.exchange.control(stream.session, reqId=1, op="constrain") == ["REQOK,1"]
        assert site.ask("DELETE", "/drain").body["draining"] is False
        assert readiness(site.api_port)[0] == 200
        assert site.exchange.request("create_session", create(polling=True))[0].startswith("CONOK,")
        assert site.ask("DELETE", "/drain").error == "the server is not draining"


def test_a_server_of_one_process_is_its_only_node(site: AdminSite) -> None:
    answer = site.ask("POST", "/drain", {"node": "w1"})
    told = "node w1: it is not one of the nodes with clients; those are penstock"
    assert (answer.status, answer.error) == (404, told)
    assert site.ask("GET", "/drain").body["draining"] is False
    assert site.ask("GET", "/cluster").body["nodes"][0]["state"] == "up"
    assert site.ask("POST", "/drain", {"node": "penstock"}).body["draining"] is True
    found = site.ask("GET", "/drain").body
    assert (found["draining"], found["nodes"]) == (True, [])
    assert site.ask("GET", "/cluster").body["nodes"][0]["state"] == "draining"
    assert site.ask("DELETE", "/drain?node=penstock").body["draining"] is False


def test_sessions_end_with_the_cause_that_makes_clients_come_again(site: AdminSite) -> None:
    streams = [site.exchange.stream() for _ in range(5)]
    assert site.ask("POST", "/drain", {"seconds": 0.5}).status == 200
    for stream in streams:
        assert stream.read_line() == "END,48,The server is shutting down"
        stream.http.close()
    assert site.ask("GET", "/drain").body["sessions"] == 0


@pytest.mark.parametrize("seconds", [0, 0.3])
def test_a_process_that_is_told_to_stops_when_it_is_empty(tmp_path: Path, seconds: float) -> None:
    write_users(tmp_path / "users")
    with ServerProcess(tmp_path, {"admin.users": str(tmp_path / "users")}) as process:
        exchange = Exchange(process.host, process.port)
        with exchange.stream(adapter_set="WELCOME") as stream:
            answer = ask(process.api_port, "POST", "/drain", {"seconds": seconds, "stop": True})
            assert (answer.status, answer.body["stop"]) == (200, True)
            assert stream.read_line() == "END,48,The server is shutting down"
        assert process.wait() == 0
        assert "administration" in process.log
        assert "stopped" in process.log


def test_a_configuration_is_read_again_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    write_users(tmp_path / "users")
    with ServerProcess(tmp_path, {"admin.users": str(tmp_path / "users")}) as process:
        file = tmp_path / "penstock.toml"
        before = file.read_text()
        file.write_text(f'server.name = "Other"\n{before}{MORE}')
        answer = ask(process.api_port, "POST", "/reload")
        # A set of one's own closes the demo.
        assert answer.status == 200, answer
        assert answer.body["new"] == ["MORE"]
        assert answer.body["needs_restart"] == ["server.name"]
        file.write_text(before + "nonsense = 1\n")
        answer = ask(process.api_port, "POST", "/reload")
        assert answer.status == 409
        assert answer.error.startswith("configuration refused, everything stays as it is: ")
        assert "nonsense" in answer.error
        assert ask(process.api_port, "GET", "/me", authorization=basic("eve")).status == 200


@given(st.integers(0, 20_000), st.floats(0.05, 600))
def test_sessions_are_ended_in_about_equal_shares_and_all_of_them_in_time(sessions: int, seconds: float) -> None:
    left, time_left, shares = sessions, seconds, []
    while left and time_left > 0:
        shares.append(due(left, time_left))
        left -= shares[-1]
        time_left -= STEP
    left -= due(left, time_left)
    assert left == 0
    assert all(share <= math.ceil(sessions * STEP / seconds) + 1 for share in shares)


def test_without_time_all_end_at_once() -> None:
    assert due(10_000, 0.0) == 10_000
    assert due(0, 5.0) == 0
