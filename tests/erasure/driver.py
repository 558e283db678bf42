"""Erases in a process of its own, which kills itself where it is told: `python -m tests.erasure.driver DIR N`."""

from __future__ import annotations

import os
import signal
import sys

from penstock.config import load
from penstock.erasure.erasure import erasure_in
from tests.erasure.world import PERSON


def main(directory: str, number: int) -> None:
    """N counts the places from 1; 0: none."""
    left = number

    def crash(where: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with erasure_in(load(None, {"server.data_dir": directory}).config, crash) as erasure:
        note = erasure.unfinished()
        if note is None:
            note = erasure.begin(erasure.count(PERSON), "a test", "request 1")
        erasure.finish(note)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
