"""What a client with very many subscriptions leaves behind: no object of its own, and memory that is used again."""

from __future__ import annotations

import gc
import re
from collections import Counter
from pathlib import Path

import pytest

from penstock.kernel.item import Item
from penstock.kernel.lane import Lane
from penstock.kernel.session import Session
from penstock.kernel.subscription import Subscription
from penstock.kernel.view import View
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, Socket, params
from tests.support.set_process import Process, echo

KINDS = (Session, Subscription, Lane, View, Item)

PATIENCE = 40.0

ITEMS = 100

# Clients, one after another.
ROUNDS = 8


def alive() -> dict[str, int]:
    gc.collect()
    found = Counter(type(thing) for thing in gc.get_objects())
    return {kind.__name__: sum(n for one, n in found.items() if issubclass(one, kind)) for kind in KINDS}


def subscribe(socket: Socket, count: int) -> None:
    for number in range(1, count + 1):
        group = " ".join(f"i{number}-{item}" for item in range(ITEMS))
        wish = params(reqId=number, op="add", subId=number, group=group, schema="text", mode="MERGE")
        socket.send("control", wish)
        while not socket.read_line().startswith(f"CONF,{number},"):
            pass


def unsubscribe(socket: Socket, count: int) -> None:
    for number in range(1, count + 1):
        socket.send("control", params(reqId=10_000 + number, op="delete", subId=number))
        while socket.read_line() != f"UNSUB,{number}":
            pass


@pytest.fixture
def exchange(server: BackgroundServer) -> Exchange:
    return Exchange(server.host, server.port)


def test_no_object_of_a_client_is_left_when_it_has_unsubscribed_or_gone(
    server: BackgroundServer, exchange: Exchange
) -> None:
    before = alive()
    with exchange.socket() as socket:
        socket.create()
        subscribe(socket, 50)
        assert alive()["Lane"] == before["Lane"] + 50 * ITEMS
        unsubscribe(socket, 50)
        assert alive() == {**before, "Session": before["Session"] + 1}
        subscribe(socket, 50)
        socket.send("control", params(reqId=1, op="destroy"))
        socket.read_until("END")
    # The session itself may stay in the list of deadlines until its next one has come; nothing of what it held does.
    assert {**alive(), "Session": 0} == {**before, "Session": 0}
    assert not server.call(lambda: server.server.kernel.feeds["TEST", "HAND"].items)


def memory(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
@pytest.mark.timeout(300)
def test_the_memory_of_a_process_does_not_grow_from_client_to_client(tmp_path: Path) -> None:
    with Process(tmp_path, echo("Q", "hello"), "--data-dir", str(tmp_path / "data")) as process:
        exchange = process.ready()
        start = memory(process._process.pid)
        tops = []
        for _ in range(ROUNDS):
            with exchange.socket() as socket:
                socket.create("Q")
                subscribe(socket, 100)
                tops.append(memory(process._process.pid))
                unsubscribe(socket, 100)
    # What the garbage collector has not looked at yet may be two or three clients' worth; if something were kept of
    # each, it would be all of theirs.
    assert tops[-1] - tops[0] < (ROUNDS - 1) * (tops[0] - start) / 2, (start, tops)
