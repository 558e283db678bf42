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

from tests.support.home import Home
from tests.support.pace import stalled
from tests.support.raw import Socket, params
from tests.support.waiting import PATIENCE

PRICE, BOOK, LOG = "price", "book", "log"
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

    def __init__(self, hubs: Sequence[Home], with_log: bool = False) -> None:
        super().__init__()
        self._hubs = list(hubs)
        self._with_log = with_log
        self._over = Event()
        self.tried = 0
        self.acknowledged: list[int] = []
        # Those that were in the list as well.
        self.logged: list[int] = []

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
            if self._with_log and hub.publish(LOG, timeout=SILENCE, last=str(number), **told):
                self.logged.append(number)
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

    def __init__(self, nodes: Sequence[Home], publisher: Publisher) -> None:
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

    def _follow(self, node: Home, socket: Socket) -> None:
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


class EveryEvent(Thread):
    """Has every event of the price, in RAW mode, and the list, in DISTINCT mode, at one node, for as long as it can.

    It is silent about what it lacks unless it was told: `gaps` are numbers between which nothing came, without a word.
    """

    def __init__(self, node: Home, publisher: Publisher) -> None:
        super().__init__()
        self._node = node
        self._publisher = publisher
        self._over = Event()
        self.wrong: list[str] = []
        self.raw = 0
        self.gaps: list[tuple[int, int]] = []
        self.lost = 0
        # Since the list was last cleared.
        self.log: list[int] = []
        self.cleared = 0
        self.has_ended = False

    def run(self) -> None:
        try:
            with self._node.exchange.socket() as socket:
                self._follow(socket)
        except (OSError, EOFError, WebSocketException, TimeoutError, _Ended):
            self.has_ended = True

    def _follow(self, socket: Socket) -> None:
        socket.create("TEST", send_sync=False, keepalive_millis=1_000)
        wish = {"schema": FIELDS[PRICE], "data_adapter": "HAND"}
        socket.send("control", params(reqId=1, op="add", subId=1, group=PRICE, mode="RAW", **wish))
        wish |= {"mode": "DISTINCT", "snapshot": "true"}
        socket.send("control", params(reqId=2, op="add", subId=2, group=LOG, **wish))
        last = {"1": ["", ""], "2": ["", ""]}
        was_told = True
        while not self._over.is_set():
            words = socket.read_line(PATIENCE).split(",", 3)
            if words[0] in ("END", "LOOP", "CONERR", "UNSUB", "REQERR"):
                raise _Ended
            if words[:2] == ["OV", "1"]:
                self.lost += int(words[3])
                was_told = True
            elif words[:2] == ["CS", "2"]:
                self.log = []
                self.cleared += 1
            elif words[0] == "U":
                values = last[words[1]] = _merged(last[words[1]], words[3])
                if values[1] != checksum(int(values[0])) or int(values[0]) > self._publisher.tried:
                    self.wrong.append(f"nobody published {values}")
                self._take(words[1], int(values[0]), was_told)
                was_told = was_told and words[1] != "1"

    def _take(self, subscription: str, number: int, was_told: bool) -> None:
        if subscription == "1":
            if number <= self.raw:
                self.wrong.append(f"{number} after {self.raw}")
            if not was_told:
                self.gaps.append((self.raw, number))
            self.raw = number
            return
        if self.log and number <= self.log[-1]:
            self.wrong.append(f"{number} in the list after {self.log[-1]}")
        self.log.append(number)

    def stop(self) -> None:
        self._over.set()
        self.join(PATIENCE)

    def judge(self) -> None:
        """When nothing is published any more, and it has the last of it."""
        assert not self.has_ended
        assert self.wrong == []
        known = set(self._publisher.acknowledged)
        silent = [(before, after) for before, after in self.gaps if known & set(range(before + 1, after))]
        assert silent == [], "events are missing, and it was told of none"
        logged = self._publisher.logged
        assert self.log[-1] >= logged[-1]
        # The list holds all from its first on.
        assert {each for each in logged if each >= self.log[0]} <= set(self.log)


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
