"""Many clients that do not read, in a real process: what waits for all of them together stays within its limit."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.raw import Exchange, Http, Stream, params
from tests.support.set_process import Process

FLOOD = '''
import asyncio

from penstock.adapters import DataAdapter

ROUNDS = 250


class Flood(DataAdapter):
    """As soon as somebody wants the item `go`: so many events of 20 kB for every other item, then one for that item."""

    def __init__(self) -> None:
        self.items = []

    def has_snapshot(self, item: str) -> bool:
        return False

    async def subscribe(self, item: str) -> None:
        if item == "go":
            # On the event loop, so that nothing waits on its way into the server.
            self.task = asyncio.create_task(self.flood())
        else:
            self.items.append(item)

    async def flood(self) -> None:
        for number in range(ROUNDS):
            for item in self.items:
                self.update(item, {"text": f"{item} {number} " + "x" * 20_000})
            self.update("go", {"text": str(number)})
            await asyncio.sleep(0)
        self.update("go", {"text": "done"})
'''

STOPPED = 30

# Bytes; without the limit these clients would hold 30 times 4 MiB.
LIMIT = 16 * 1024 * 1024

# More than the limit, for the allocator has its own idea of what is free.
MAX_GROWTH = 3 * LIMIT


def stopped(exchange: Exchange, stack: ExitStack, item: str) -> None:
    """A client that subscribes and then reads nothing."""
    http = stack.enter_context(Http(exchange.host, exchange.port, receive_buffer=4_096))
    wish = params(
        adapter_set="FLOOD", cid="mgQkwtwdysogQz2BJ4Ji kOj2Bg", op="add", subId=1, group=item, schema="text", mode="RAW"
    )
    http.post("create_session", wish)
    assert http.read_head() == 200
    assert http.read_until("SUBOK")


def memory(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def flooded(directory: Path, settings: str) -> tuple[int, str]:
    """How much the memory of a server has grown when its clients were flooded, and its log."""
    (directory / "conf").mkdir()
    (directory / "conf" / "flood.py").write_text(FLOOD)
    content = settings + '[adapters.FLOOD.data.DEFAULT]\nadapter = "flood:Flood"\n'
    with Process(directory, content, "--data-dir", str(directory / "data")) as process, ExitStack() as stack:
        exchange = process.ready()
        for number in range(STOPPED):
            stopped(exchange, stack, f"item{number}")
        before = memory(process._process.pid)
        stream: Stream = stack.enter_context(exchange.stream("FLOOD"))
        wish = {"group": "go", "schema": "text", "mode": "MERGE"}
        assert exchange.control(stream.session, reqId=1, op="add", subId=1, **wish) == ["REQOK,1"]
        # One who reads is served to the end.
        while stream.read_until("U")[-1] != "U,1,1,done":
            pass
        growth = memory(process._process.pid) - before
        code, log = process.stop()
    assert code == 0
    return growth, log


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_memory_stays_bounded_when_many_clients_do_not_read(tmp_path: Path) -> None:
    growth, log = flooded(tmp_path, f"session.max_waiting_bytes = {LIMIT}\n")
    assert growth < MAX_GROWTH
    assert "too many bytes wait for slow clients" in log
