"""The job `history` in a process of its own with its own Spark, for the tests of kill -9.

history_driver.py DATA POINT NTH: dies when it gets to the point for the nth time; "-" is no point.
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.pipeline.jobs import history
from penstock.pipeline.place import Place
from penstock.pipeline.session import close_session, open_session
from tests.pipeline.lake_driver import deadly


def main(data: Path, point: str, nth: int) -> None:
    spark = open_session("history", data / "cache", master="local[2,4]", quick=True)
    dying = deadly(point, nth)

    def crash(here: str) -> None:
        print(here, flush=True)
        dying(here)

    settings = history.Settings(max_events=4_000, max_small_files=3)
    query = history.start(spark, Place(data, "http://127.0.0.1:1"), settings, once=True, crash=crash)
    print("started", flush=True)
    query.awaitTermination()
    print("done", flush=True)
    close_session(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
