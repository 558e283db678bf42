"""Clients that stay with a cluster whatever happens to it, and who publishes for them: what they saw is what is judged.

Every event has a number that rises, and a checksum of it: so a value that nobody published is found by itself. Nothing
here knows what is broken meanwhile.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import TypeAlias

from websockets.exceptions import WebSocketException

from tests.support.cluster_nodes import ClusterNode
from tests.support.pace import stalled
from tests.support.raw import Socket, params
from tests.support.waiting import PATIENCE

PRICE, BOOK = "price", "book"
FIELDS = {PRICE: "last check", BOOK: "key command qty check"}

# Rows of the table.
KEYS = 5

# Seconds after which a follower that hears nothing looks for another node, and who publishes for another hub.
SILENCE = 4.0

# Seconds within which clients hold the right state after the repair.
PROMISED = 5.0

Row: TypeAlias = tuple[str, ...]


def checksum(number: int) -> str:
    return str(zlib.crc32(str(number).encode()))


def within_promise(condition: Callable[[], bool], what: Callable[[], str]) -> float:
    """Wait for it; the seconds that it took. Time in which the machine was too busy does not count."""
    began, waited = time.monotonic(), stalled()
    while not condition():
        took = time.monotonic() - began
        assert took - (stalled() - waited) < PROMISED, f"not within {PROMISED} s: {what()}"
        assert took < PATIENCE, what()
        time.sleep(0.02)
    return time.monotonic() - began


class Publisher(Thread):
    """Publishes number after number at whichever hub takes it; one that was not acknowledged is not repeated."""

    def __init__(self, hubs: Sequence[ClusterNode]) -> None:
        super().__init__()
        self._hubs = list(hubs)
        self._over = Event()
        self.tried = 0
        self.acknowledged: list[int] = []

    def run(self) -> None:
        rows: set[str] = set()
        while not self._over.wait(0.01):
            self.tried += 1
            number = self.tried
            hub = self._hubs[0]
            told = {"check": checksum(number)}
            if not hub.is_running or not hub.publish(PRICE, timeout=SILENCE, last=str(number), **told):
                self._hubs.append(self._hubs.pop(0))
                continue
            self.acknowledged.append(number)
            key = f"k{number % KEYS}"
            command = "DELETE" if key in rows and number % 3 == 0 else "UPDATE"
            # Whether it was a row before is not known if the last one was not acknowledged: then it is refused.
            if hub.publish(BOOK, timeout=SILENCE, key=key, command=command, qty=str(number), **told):
                (rows.discard if command == "DELETE" else rows.add)(key)

    def until_more(self) -> int:
        """Wait until a number is acknowledged that was not tried yet; returns it."""
        after = self.tried
        deadline = time.monotonic() + 2 * PATIENCE
        while not self.acknowledged or self.acknowledged[-1] <= after:
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            time.sleep(0.02)
        return self.acknowledged[-1]

    def stop(self) -> None:
        self._over.set()
        self.join(PATIENCE)


class Follower(Thread):
    """Has both items of one node after the other: of the next when one is gone or silent."""

    def __init__(self, nodes: Sequence[ClusterNode], publisher: Publisher) -> None:
        super().__init__()
        self._nodes = list(nodes)
        self._publisher = publisher
        self._over = Event()
        # What it holds; the number of the last price that it was told.
        self.rows: dict[str, dict[str, Row]] = {PRICE: {}, BOOK: {}}
        self.number = 0
        # Keys of the nodes at which it had sessions, in order; what was wrong.
        self.homes: list[str] = []
        self.wrong: list[str] = []
        # For whoever has to find out.
        self._heard: list[str] = []

    def __repr__(self) -> str:
        return f"<{self.number} at {self.homes}, {self._heard[-20:]}>"

    def run(self) -> None:
        while not self._over.is_set():
            node = self._nodes[0]
            # Whatever becomes of a session: there is another one.
            with suppress(OSError, EOFError, WebSocketException, TimeoutError, _Ended):
                if node.has_clients and node.is_running:
                    with node.exchange.socket() as socket:
                        self._follow(node, socket)
            self._nodes.append(self._nodes.pop(0))
            self._over.wait(0.05)

    def _follow(self, node: ClusterNode, socket: Socket) -> None:
        head = socket.create("TEST", send_sync=False, keepalive_millis=1_000)
        if not head[0].startswith("CONOK"):
            raise _Ended
        self.homes.append(node.name)
        self._heard.append(f"at {node.name}")
        self.rows = {PRICE: {}, BOOK: {}}
        self.number = 0
        for number, item in enumerate(FIELDS, 1):
            mode = "MERGE" if item == PRICE else "COMMAND"
            wish = {"group": item, "schema": FIELDS[item], "mode": mode, "snapshot": True, "data_adapter": "HAND"}
            socket.send("control", params(reqId=number, op="add", subId=number, **wish))
        last: dict[str, list[str]] = {item: [""] * len(fields.split()) for item, fields in FIELDS.items()}
        while not self._over.is_set():
            line = socket.read_line(SILENCE)
            self._heard = [*self._heard[-50:], line]
            self._hear(line.split(",", 3), last)

    def _hear(self, words: list[str], last: dict[str, list[str]]) -> None:
        if words[0] in ("END", "LOOP", "CONERR", "UNSUB", "REQERR"):
            raise _Ended
        if words[0] == "CS":
            self.rows[list(FIELDS)[int(words[1]) - 1]].clear()
        if words[0] != "U":
            return
        item = list(FIELDS)[int(words[1]) - 1]
        last[item] = values = _merged(last[item], words[3])
        if item == PRICE:
            self._check(values[0], values[1], values)
            if int(values[0]) < self.number:
                self.wrong.append(f"{values} after {self.number}")
            self.number = int(values[0])
            self.rows[item][""] = tuple(values)
        elif values[1] == "DELETE":
            self.rows[item].pop(values[0], None)
        else:
            self._check(values[2], values[3], values)
            if values[0] != f"k{int(values[2]) % KEYS}":
                self.wrong.append(f"{values} in another row")
            self.rows[item][values[0]] = (values[0], *values[2:])

    def _check(self, number: str, check: str, values: list[str]) -> None:
        if not number.isdecimal() or check != checksum(int(number)) or int(number) > self._publisher.tried:
            self.wrong.append(f"nobody published {values}")

    def stop(self) -> None:
        self._over.set()
        self.join(PATIENCE)


class _Ended(Exception):
    """The session is over, or there was none."""


def _merged(before: list[str], text: str) -> list[str]:
    """Values as they are now; none of these is long enough for a difference."""
    found: list[str] = []
    for part in text.split("|"):
        if part.startswith("^"):
            found += before[len(found) : len(found) + int(part[1:])]
        else:
            found.append(before[len(found)] if part == "" else "" if part in "#$" else part)
    return found
