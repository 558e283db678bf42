"""Polls whose connections break before they are answered: some HTTP libraries repeat them without a word, so that the
client cannot ask for what it has missed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from penstock.transport.http import HttpConnection
from tests.support.cut_proxy import RESET_ON_CLOSE
from tests.support.raw import TIMEOUT, Http, params
from tests.support.workers import Worker, Workers


@pytest.fixture(params=[("w1", "w2a"), ("w1a", "w2")], ids=["uvloop", "asyncio"])
def workers(request: pytest.FixtureRequest) -> Iterator[list[Worker]]:
    with Workers(request.param) as found:
        yield found.all


@pytest.fixture
def session(workers: list[Worker]) -> str:
    """One of the first worker that polls, and is subscribed to `item`."""
    exchange = workers[0].exchange
    with exchange.stream(polling=True) as first:
        found = first.session
    exchange.control(found, reqId=1, op="add", subId=1, mode="RAW", group="item", schema="x")
    assert "SUBOK,1,1,1" in exchange.request("bind_session", poll(found))
    return found


def poll(session: str, idle_millis: int = 0) -> str:
    return params(session=session, polling=True, polling_millis=0, idle_millis=idle_millis)


def end(http: Http, ending: str) -> None:
    if ending == "reset":
        http.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    http.close()


@pytest.mark.parametrize("ending", ["reset", "close"])
def test_an_update_that_comes_with_the_end_of_a_poll_waits_for_the_next(
    workers: list[Worker], session: str, ending: str
) -> None:
    worker = workers[0]

    def happen() -> None:
        """In one turn of the loop, which learns of the end only after it."""
        end(http, ending)
        worker.adapter.publish("item", {"x": "1"})

    with worker.exchange.http() as http:
        http.post("bind_session", poll(session, idle_millis=20_000))
        http.read_head()
        http.read_until("CONOK")
        worker.call(happen)
    assert "U,1,1,1" in worker.exchange.request("bind_session", poll(session))
    # It is delivered, and not sent again.
    assert "U,1,1,1" not in worker.exchange.request("bind_session", poll(session))


def test_a_poll_that_breaks_while_it_is_handed_over_takes_nothing_with_it(workers: list[Worker], session: str) -> None:
    one, two = workers

    def happen() -> None:
        """While the worker that is to take the poll does nothing else."""
        http.post("bind_session", poll(session))
        deadline = time.monotonic() + TIMEOUT
        while not two.call(is_leaving):
            assert time.monotonic() < deadline
        end(http, "reset")
        one.adapter.publish("item", {"x": "1"})

    def is_leaving() -> bool:
        return any(isinstance(each, HttpConnection) and each.is_paused for each in two.server.stream.connections)

    with two.exchange.http() as http:
        one.call(happen)
    assert "U,1,1,1" in two.exchange.request("bind_session", poll(session))
    assert "U,1,1,1" not in two.exchange.request("bind_session", poll(session))


def test_a_poll_whose_client_has_only_closed_its_sending_side_is_answered(workers: list[Worker], session: str) -> None:
    worker = workers[0]
    worker.update("item", x="1")
    with worker.exchange.http() as http:
        http.post("bind_session", poll(session))
        http.socket.shutdown(socket.SHUT_WR)
        assert http.read_head() == 200
        assert "U,1,1,1\r\n" in http.read_body().decode()
