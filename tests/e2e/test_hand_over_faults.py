"""Workers that are killed or frozen while clients of their sessions ask others: everybody gets an answer, or an end."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.transport.neighbours import PATIENCE
from tests.support.raw import Http, params
from tests.support.worker_process import WorkerProcess

# Seconds, on a machine that has much other work.
SOON = PATIENCE + 10


@pytest.fixture
def workers() -> Iterator[tuple[WorkerProcess, WorkerProcess]]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hand-")))
        made = [WorkerProcess(name, directory) for name in ("w1", "w2")]
        one, two = [stack.enter_context(each) for each in made]
        yield one, two


def add(session: str, number: int) -> str:
    return params(session=session, reqId=number, op="add", subId=number, mode="MERGE", group=f"i{number}", schema="x")


def ask(http: Http, session: str, number: int) -> str:
    http.post("control", add(session, number))
    http.read_head()
    return http.read_body().decode()


def settled(worker: WorkerProcess, most: int) -> bool:
    """Whether the worker comes down to so many descriptors."""
    deadline = time.monotonic() + SOON
    while worker.descriptors() > most:
        if time.monotonic() > deadline:
            return False
    return True


def test_a_worker_that_is_killed_takes_its_clients_along_and_nobody_else(
    workers: tuple[WorkerProcess, WorkerProcess],
) -> None:
    one, two = workers
    with two.exchange.stream() as other, two.exchange.http() as http, two.secure_exchange.http() as secure:
        before = two.descriptors()
        with one.exchange.stream() as stream, two.exchange.http() as stays, two.exchange.socket() as client:
            session = stream.session
            client.create()
            assert ask(http, session, 1) == "REQOK,1\r\n"
            assert ask(secure, session, 2) == "REQOK,2\r\n"
            one.kill()
            assert http.is_closed()
            assert secure.is_closed()
            assert ask(stays, session, 3).startswith("REQERR,3,11,")
            client.send("control", add(session, 4))
            client.send("control", add(client.session, 5))
            assert client.read_until("REQERR")[-1].startswith("REQERR,4,11,")
            assert ask(stays, other.session, 6) == "REQOK,6\r\n"
        # The connections of the worker that is gone have left nothing behind.
        assert settled(two, before)


def test_a_connection_outlives_the_worker_that_has_accepted_it(workers: tuple[WorkerProcess, WorkerProcess]) -> None:
    one, two = workers
    with one.exchange.stream() as stream, two.exchange.http() as http, two.exchange.socket() as client:
        assert ask(http, stream.session, 1) == "REQOK,1\r\n"
        client.send("bind_session", params(session=stream.session))
        client.read_until("CONOK")
        two.kill()
        assert ask(http, stream.session, 2) == "REQOK,2\r\n"
        while client.read_until("SUBOK")[-1] != "SUBOK,2,1,1":
            pass


def test_a_frozen_worker_keeps_nobody_waiting(workers: tuple[WorkerProcess, WorkerProcess]) -> None:
    one, two = workers
    with ExitStack() as stack:
        stream, other = stack.enter_context(one.exchange.stream()), stack.enter_context(two.exchange.stream())
        bound = stack.enter_context(two.exchange.socket())
        bound.create()
        bystander = stack.enter_context(two.exchange.http())
        assert ask(bystander, other.session, 1) == "REQOK,1\r\n"
        before = two.descriptors()
        frozen = one.descriptors()
        one.freeze()
        began = time.monotonic()
        plain, secure = two.exchange.http(), two.secure_exchange.http()
        client = stack.enter_context(two.exchange.socket())
        plain.post("control", add(stream.session, 2))
        secure.post("control", add(stream.session, 3))
        client.send("bind_session", params(session=stream.session))
        bound.send("control", add(stream.session, 4))
        # Meanwhile nobody else notices.
        assert ask(bystander, other.session, 5) == "REQOK,5\r\n"
        assert time.monotonic() - began < PATIENCE
        assert plain.is_closed()
        assert secure.read_head() == 200
        assert secure.read_body().decode().startswith("REQERR,3,11,")
        assert bound.read_until("REQERR")[-1].startswith("REQERR,4,11,")
        with pytest.raises(Exception, match="close"):
            client.read_line()
        assert time.monotonic() - began < SOON
        # Others are told at once.
        began = time.monotonic()
        assert ask(secure, stream.session, 6).startswith("REQERR,6,11,")
        assert ask(bystander, stream.session, 7).startswith("REQERR,7,11,")
        assert time.monotonic() - began < PATIENCE
        plain.close()
        secure.close()
        assert settled(two, before)
        one.thaw()
        # What nobody waits for any more is not carried out, and nothing is left of it.
        while (answer := ask(bystander, stream.session, 8)).startswith("REQERR,8,11,"):
            pass
        assert answer == "REQOK,8\r\n"
        assert not [line for line in stream.read_until("CONF") if line.startswith(("SUBOK,2,", "SUBOK,4,"))]
        assert settled(one, frozen + 1)
