"""Maintains a lake until it is killed, or done: a process for the tests of kill -9.

maintain_driver.py ROOT POINT NTH: dies when it gets to the point for the nth time; "-" is no point.
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.pipeline.maintenance import maintain_alone
from tests.pipeline.lake_driver import deadly

MOST_FILES = 2
DAYS = 30
HOURS = 1


def main(root: Path, point: str, nth: int) -> None:
    print("started", flush=True)
    print(maintain_alone(root / "lake", MOST_FILES, DAYS, HOURS, deadly(point, nth)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
