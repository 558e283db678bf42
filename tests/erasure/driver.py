"""Erases in a process of its own, which kills itself at a place: `python -m tests.erasure.driver DIR [PLACE]`."""

from __future__ import annotations

import os
import signal
import sys

from penstock.config import load
from penstock.erasure.erasure import erasure_in
from tests.erasure.world import PERSON


def main(directory: str, place: str = "") -> None:

    def crash(where: str) -> None:
        if where == place:
            os.kill(os.getpid(), signal.SIGKILL)

    with erasure_in(load(None, {"server.data_dir": directory}).config, crash) as erasure:
        note = erasure.unfinished()
        if note is None:
            note = erasure.begin(erasure.count(PERSON), "a test", "request 1")
        erasure.finish(note)


if __name__ == "__main__":
    main(*sys.argv[1:])
