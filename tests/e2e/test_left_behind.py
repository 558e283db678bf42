"""What a client with very many subscriptions leaves behind: no object of its own, and memory that is used again."""

from __future__ import annotations

import ctypes
import gc
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from penstock.adapters.authority import forget_names, shared_name
from penstock.kernel.item import Item
from penstock.kernel.lane import Lane
from penstock.kernel.session import Session
from penstock.kernel.subscription import Subscription
from penstock.kernel.view import View
from tests.e2e.test_adapter_sets import Process, echo
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, Socket, params

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


def test_names_are_not_kept_for_ever() -> None:
    name = shared_name("".join(["an", " item"]))
    assert shared_name("".join(["an", " item"])) is name
    forget_names()
    assert shared_name.cache_info().currsize == 0


# Blocks of the C library's heap, below one that stays: what is freed of them stays with the process.
SCRIPT = """
import re
from penstock.collector import give_back
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
blocks = [bytes(2_000) for _ in range(30_000)]
last = blocks.pop()
del blocks
before = resident()
print(give_back(), before - resident())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_free_memory_is_handed_back_where_that_is_possible() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE, check=True)
    is_done, kilobytes = done.stdout.split()
    # Other C libraries have no way to.
    assert is_done == str(hasattr(ctypes.CDLL(None), "malloc_trim"))
    assert is_done == "False" or int(kilobytes) > 30_000


def test_a_server_tidies_up_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    news = threading.Condition()
    times = 0

    def note() -> bool:
        nonlocal times
        with news:
            times += 1
            news.notify()
        return True

    def wait_for(more: int) -> None:
        with news:
            enough = times + more
            assert news.wait_for(lambda: times >= enough, PATIENCE)

    monkeypatch.setattr("penstock.services.tidying.TIDY_PAUSE", 0.01)
    monkeypatch.setattr("penstock.services.tidying.give_back", note)
    with BackgroundServer({}):
        for _ in range(2):
            shared_name("an item")
            # The one that is under way may have passed the names.
            wait_for(2)
            assert shared_name.cache_info().currsize == 0


def memory(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
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
