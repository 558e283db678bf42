"""Lines of one process are written by another: whole, in order, masked, and never at the price of waiting for long."""

from __future__ import annotations

import io
import json
import logging
import socket
from collections.abc import Iterator

import pytest

from penstock.log.handler import Writer
from penstock.log.lines import JsonFormatter
from penstock.log.relay import LogRelay, RelayedLines
from penstock.log.repeats import Repeats


class Pair:
    """A relay, and what the process at the other end makes of its lines."""

    def __init__(self, max_repeats: int = 0) -> None:
        out, self.far = socket.socketpair()
        out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        self.out = out
        self.far.setblocking(False)
        self.relay = LogRelay(out, Repeats(max_repeats))
        self.lines = RelayedLines({"worker": "w1"})
        self.written = io.StringIO()
        self.writer = Writer(JsonFormatter(), self.written, None, Repeats(1))

    def log(self, event: str, level: int = logging.INFO, **fields: object) -> None:
        record = logging.LogRecord("penstock.test", level, "", 0, event, None, None)
        record.fields = fields
        self.relay.handle(record)

    def read(self, size: int = 1 << 20) -> list[dict[str, object]]:
        """Everything that has arrived, written as the log of all."""
        while True:
            try:
                data = self.far.recv(size)
            except BlockingIOError:
                break
            self.writer.write(self.lines.feed(data))
        found = [json.loads(line) for line in self.written.getvalue().splitlines()]
        self.written.seek(0)
        self.written.truncate()
        return found


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.out.close()
    made.far.close()


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_a_line_says_the_same_at_the_other_end_and_from_where_it_comes(pair: Pair, size: int) -> None:
    pair.log("100 % of it", user="alice", many=[1, None], password="x")
    pair.log("second", logging.WARNING)
    first, second = pair.read(size)
    assert first.pop("time")
    assert first == {
        "level": "info",
        "logger": "penstock.test",
        "event": "100 % of it",
        "worker": "w1",
        "user": "alice",
        "many": [1, None],
        "password": "***",
    }
    assert (second["level"], second["event"]) == ("warning", "second")


def test_repeats_are_limited_where_they_are_made_and_not_again_where_they_are_written() -> None:
    pair = Pair(max_repeats=3)
    for _ in range(5):
        pair.log("again", logging.ERROR)
    assert [line["event"] for line in pair.read()] == ["again"] * 3
    pair.relay.close()
    assert [line["event"] for line in pair.read()] == ["again … repeated 2 times in the last 0 s"]
    pair.out.close()
    pair.far.close()


def test_lines_that_nobody_reads_are_dropped_whole_and_counted(pair: Pair) -> None:
    for number in range(200):
        pair.log(f"line {number}", text="x" * 500)
    before = [line["event"] for line in pair.read()]
    assert 0 < len(before) < 200
    pair.log("after")
    # The end of a line that was begun, then those that found room again.
    after = pair.read()
    assert after[-1]["event"] == "after"
    events = [*before, *[line["event"] for line in after[:-1]]]
    assert events == [f"line {number}" for number in range(len(events))]
    assert after[-1]["lost_lines"] == 200 - len(events)


def test_a_relay_whose_other_end_is_gone_raises_nothing(pair: Pair) -> None:
    pair.far.close()
    pair.log("first")
    pair.log("second")
