"""A feed of ten megabytes a second, and three clients at once: one of limited bandwidth, one that stops reading, one
that is fast. Real time and real sockets: nothing else shows what the system's buffers do.

How late the machine itself is while it is measured is measured as well, and allowed for.
"""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path

import pytest

from bench.rig.child import Child
from penstock.doors.stream.turns import LONGEST_REST, TOLERABLE_AGE
from tests.support.firehose import ITEMS, PER_SECOND, SIZE
from tests.support.raw import Exchange

# Seconds for which the one client does not read.
PAUSE = 60.0 if os.environ.get("PENSTOCK_PROFILE") == "long" else 4.0
KBPS = 50
STAMP = re.compile(rb"\|?(\d+\.\d{6}) x")


class Client:
    """Subscribed to everything; reads on a thread of its own and notes how old the data is, and how much comes when."""

    def __init__(self, exchange: Exchange, max_bandwidth: float = 0) -> None:
        limit = f"&LS_requested_max_bandwidth={max_bandwidth}" if max_bandwidth else ""
        self._stream = exchange.stream("HOSE", extra=limit, content_length=2_000_000_000)
        self._socket = self._stream.http.socket
        exchange.control(
            self._stream.session, reqId=1, op="add", subId=1, mode="MERGE", group=" ".join(ITEMS), schema="x"
        )
        self.received: list[tuple[float, int]] = []
        self.ages: list[tuple[float, float]] = []
        self._ended = False
        self._may_read = threading.Event()
        self._may_read.set()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        tail = b""
        while not self._ended:
            self._may_read.wait()
            data = self._socket.recv(262_144)
            now = time.monotonic()
            self.received.append((now, len(data)))
            self.ages += [(now, now - float(stamp)) for stamp in STAMP.findall(tail + data)]
            # What may be the beginning of a stamp; a stamp is never counted twice, for it ends with its first x.
            tail = data[-30:].rpartition(b"x")[2]

    def pause(self) -> None:
        self._may_read.clear()

    def go_on(self) -> None:
        self._may_read.set()

    def stop(self) -> None:
        self._ended = True
        self._may_read.set()
        self._thread.join()
        self._stream.http.close()

    def bytes_between(self, begin: float, end: float) -> int:
        return sum(size for when, size in self.received if begin <= when < end)

    def oldest(self, begin: float, end: float) -> float:
        return max(age for when, age in self.ages if begin <= when < end)


class Lateness:
    """How late a thread comes that wants nothing but to run every 10 ms: so late is whatever else runs."""

    PAUSE = 0.01

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(self.PAUSE):
            now = time.monotonic()
            self._seen.append((now, now - before - self.PAUSE))
            before = now

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def worst(self, begin: float, end: float) -> float:
        return max(late for when, late in self._seen if begin <= when < end)


@pytest.mark.timeout(180)
def test_a_slow_a_stopped_and_a_fast_client_are_served_at_once_each_as_it_can(tmp_path: Path) -> None:
    with Child(tmp_path, None, "tests.support.firehose") as server:
        exchange = Exchange(server.host, server.port)
        # A small buffer, or the system goes on reading megabytes in the client's name.
        narrow = Exchange(server.host, server.port, receive_buffer=65_536)
        clients = [Client(exchange), Client(narrow), Client(exchange, KBPS)]
        fast, stopped, limited = clients
        lateness = Lateness()
        try:
            time.sleep(1.5)  # Let the memory settle: real time is what this test is about.
            memory = server.memory()
            begin = time.monotonic()
            stopped.pause()
            most = memory
            while time.monotonic() < begin + PAUSE:
                time.sleep(0.1)
                most = max(most, server.memory())
            stopped.go_on()
            resumed = time.monotonic()
            time.sleep(2.0)
            end = time.monotonic()
            most = max(most, server.memory())
        finally:
            lateness.stop()
            for client in clients:
                client.stop()

    # On the way to a client there are two processes, one of which has two turns: each may be so late.
    late = 3 * lateness.worst(begin, end)

    # The fast one had most of the feed, if not all, and at once, all the time. A server that is late itself sends each
    # item once in a while, which is a second at the most.
    share = 0.5 * PER_SECOND if late < TOLERABLE_AGE else 0.5 * len(ITEMS) * SIZE / (LONGEST_REST + late)
    assert fast.bytes_between(begin, end) > share * (end - begin)
    assert fast.oldest(begin, end) < 0.5 + late

    # The limited one never had more than its limit in any second, used most of it, and had fresh data.
    allowed = KBPS * 1000 / 8
    starts = [when for when, _ in limited.received if begin <= when < end - 1]
    # A whole update more: when it was read is not exactly when it was sent.
    assert max(limited.bytes_between(start, start + 1) for start in starts) <= allowed * (1 + late) + SIZE + 200
    assert limited.bytes_between(begin, end) >= 0.7 * allowed * (end - begin - late)
    assert limited.oldest(begin, end) < 1.0 + late

    # The one that stopped got what was on its way when it stopped, then fresh data: nothing had queued up.
    stale = [when for when, age in stopped.ages if when >= resumed and age > 1.0 + late]
    assert len(stale) * SIZE < 1_500_000
    assert stopped.oldest(end - 1, end) < 0.5 + late

    assert most - memory < 12_000_000, f"memory went from {memory} to {most} bytes"
