"""Somebody who reads all the time while processes are killed, across the seam between lake and journal.

Each reading must have every number once: those of the copy as one entity's history, those of the feed as a typed table,
with the types that are declared.
A lake that is away is told, and read again. Read next: `test_end_to_end_kill`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock import history
from penstock.history.lake_root import LakeRoot
from penstock.history.lake_url import LakeUnavailable
from penstock.history.reader import History
from tests.pipeline.kill_world import ITEMS, PATIENCE

# Seconds between two readings: they are not to take the cores of what is killed.
PAUSE = 2.0

# Columns of the table, as `kill_world` declares them.
TYPES = {"n": pa.int64(), "part": pa.int32()}


class SeamReader:
    """Reads in a thread until it is stopped; `acknowledged` says how many numbers must be there."""

    def __init__(self, data: Path, lake: LakeRoot, configuration: Path, acknowledged: Callable[[], int]) -> None:
        self.readings = 0
        # Readings that found the lake away.
        self.refused = 0
        self._data = data
        self._configuration = configuration
        self._history = History(data / "journal", lake)
        self._acknowledged = acknowledged
        self._copied = 0
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="seam reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._ending.wait(PAUSE):
                try:
                    self.read()
                    self.readings += 1
                except LakeUnavailable:
                    self.refused += 1
        except BaseException as error:
            self._failure = error

    def read(self) -> None:
        """Once; raises AssertionError, or LakeUnavailable."""
        events = self._history.events("SET/OUT/d.all")
        copied = [int(json.loads(event.value or "")["n"]) for event in events if event.kind == "update"]
        assert copied == list(range(1, len(copied) + 1))
        assert len(copied) >= self._copied
        self._copied = len(copied)
        # Journaled before it is acknowledged.
        least = self._acknowledged()
        fed = history.table("set.numbers", self._data, config=self._configuration)
        assert {name: fed.schema.field(name).type for name in TYPES} == TYPES
        assert not pc.any(pc.not_equal(fed.column("misfits"), 0)).as_py()
        sequences, numbers, parts = (fed.column(name).to_pylist() for name in ("sequence", "n", "part"))
        assert sequences == sorted(set(sequences))
        assert numbers == list(range(1, len(numbers) + 1))
        assert parts == [number % ITEMS for number in numbers]
        assert fed.column("item").to_pylist() == [f"e.{part}" for part in parts]
        assert len(numbers) >= least
