"""kill -9 of a real server around large batches: while parts come in, are journaled, are published.

At any moment, also while the server is dead, the journal holds whole batches; in the end each is there once.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.journal.reader import JournalReader
from penstock.journal.unfinished import UNFINISHED_NAME
from penstock.pipeline.outlet import Outlet
from tests.adapters.ingest.world import records
from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN

KILLS = 30 if os.environ.get("PENSTOCK_PROFILE") == "long" else 4
# About 9 MB in the journal: more than the server keeps in memory, in several segments.
ROWS, WIDTH = 90, 100_000
PART_BYTES = 1_000_000
SEGMENT_BYTES = 2_000_000

PATIENCE = 60.0


class Sender(threading.Thread):
    """Sends one large batch after the other, in parts."""

    def __init__(self, server: RealServer) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self.failure: BaseException | None = None
        self.ending = threading.Event()
        self._outlet = Outlet(server.api, "SET", "OUT", TOKEN, part_bytes=PART_BYTES)

    def run(self) -> None:
        try:
            with self._outlet:
                while not self.ending.is_set():
                    first = self.sent * ROWS
                    numbers = [str(number) for number in range(first, first + ROWS)]
                    texts = [f"{number}-".ljust(WIDTH, "x") for number in numbers]
                    rows = pa.table({"item": ["d.all"] * ROWS, "n": numbers, "text": texts})
                    self._outlet.put_batch("q", self.sent, rows, "DISTINCT")
                    self.sent += 1
        except BaseException as failure:
            self.failure = failure


def wait_until(true: Callable[[], bool], sender: Sender) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert sender.failure is None, sender.failure
        assert time.monotonic() < end
        time.sleep(0.001)


def check_whole(journal: Path) -> int:
    """Returns how many batches there are."""
    count, expected = 0, 0
    for entity, kind, value in records(journal):
        found = json.loads(value or "")
        if kind == "batch":
            assert (entity, found) == ("SET/OUT#q", {"batch": count, "rows": ROWS})
            count += 1
            assert expected == count * ROWS
        else:
            assert found["n"] == str(expected)
            expected += 1
    assert expected == count * ROWS, "part of a batch"
    return count


@pytest.mark.timeout(120 + 45 * KILLS)
def test_each_large_batch_is_there_once_and_as_a_whole_after_kills_at_any_stage(tmp_path: Path) -> None:
    with RealServer(tmp_path, {"journal.segment_bytes": SEGMENT_BYTES}) as server:
        journal = tmp_path / "data" / "journal"
        sender = Sender(server)
        sender.start()
        wait_until(lambda: sender.sent > 0, sender)

        def staged() -> bool:
            return len(list((tmp_path / "data").glob("*/SET.OUT.stages/*.stage"))) > 2

        def journaling() -> bool:
            return (journal / UNFINISHED_NAME).exists()

        def committed() -> bool:
            return JournalReader(journal).poll() > latest

        for number in range(KILLS):
            latest = JournalReader(journal).poll()
            wait_until((staged, journaling, committed, journaling)[number % 4], sender)
            server.kill()
            before = check_whole(journal)
            server.start()
            assert not (journal / UNFINISHED_NAME).exists()
            assert check_whole(journal) >= before
            done = sender.sent
            wait_until(lambda done=done: sender.sent > done, sender)  # type: ignore[misc]
        sender.ending.set()
        sender.join(PATIENCE)
        assert sender.failure is None
        assert check_whole(journal) == sender.sent
        with Outlet(server.api, "SET", "OUT", TOKEN) as outlet:
            assert outlet.last_batch("q") == sender.sent - 1
        assert list((tmp_path / "data").glob("*/SET.OUT.stages/*")) == []
