"""Moves a journal into its lake without Spark until it is killed, or done: a process for the tests of kill -9.

lake_driver.py ROOT POINT NTH: dies when it gets to the point for the nth time; "-" is no point.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from penstock.journal.erasing import Crash
from penstock.journal.reader import JournalReader
from penstock.pipeline.files import Written, write_task
from penstock.pipeline.lake import Lake
from penstock.pipeline.maintenance import maintain

BATCH = 150


def deadly(point: str, nth: int) -> Crash:
    """Kills this process, with no chance to tidy up."""
    seen = 0

    def crash(here: str) -> None:
        nonlocal seen
        seen += here == point
        if here == point and seen == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    return crash


def main(root: Path, point: str, nth: int) -> None:
    crash = deadly(point, nth)
    journal = root / "journal"
    lake = Lake(root / "lake")
    lake.lock(5.0)
    print("started", flush=True)
    while True:
        after = lake.sequence()
        told: list[Written] = []
        for share in JournalReader(journal).plan(after + 1, after + 1 + BATCH, 2):
            for batch in write_task(str(lake.root), after)(JournalReader(journal).read_slices(share)):
                told += [Written(**row) for row in batch.to_pylist()]
        if not lake.adopt(journal, after, told, crash):
            return
        crash("between")
        maintain(lake, 3, 0, upkeep=True, crash=crash)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
