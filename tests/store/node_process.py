"""A node in a process of its own, for tests of races and kills. What it does is told on its standard output.

`python -m tests.store.node_process serve URL NODE DIRECTORY` takes devices from the others and serves each by holding a
lock on a file, which fails if another process does so at the same time. `write URL NODE` writes for ever.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from penstock.store.errors import Deposed, NoSuchRecord
from penstock.store.push import LoadedDevices, PushStore
from penstock.store.store import Store
from tests.store.devices import device, everything, notification, subscription

# Short: the end of a lease is part of what is tried. Long enough for a machine that is busy with other tests.
LEASE_MILLIS = 8_000

# Seconds between two rounds at most.
PAUSE = 0.05


class Serving:
    """Devices of which this process holds the files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, int] = {}

    def begin(self, loaded: LoadedDevices) -> None:
        for each in loaded.devices:
            if each.id not in self._files:
                descriptor = os.open(self._directory / each.id, os.O_RDWR | os.O_CREAT)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    print("TWICE", each.id, flush=True)
                self._files[each.id] = descriptor
                print("serving", each.id, flush=True)

    def end(self, devices: list[str]) -> None:
        for each in devices:
            if each in self._files:
                os.close(self._files.pop(each))

    def end_all(self) -> None:
        self.end(list(self._files))

    @property
    def devices(self) -> list[str]:
        return list(self._files)


class Pause:
    """Asked for by SIGUSR1, done between two transactions: SQLite's lock would be held by one that is stopped."""

    asked = False

    @classmethod
    def ask(cls, number: int, frame: FrameType | None) -> None:
        cls.asked = True


def serve(url: str, node: str, directory: Path) -> None:
    """As a service does it, but with hardly a pause between renewals."""
    store = Store.open(url)
    serving = Serving(directory)
    signal.signal(signal.SIGUSR1, Pause.ask)
    while True:
        push = PushStore.join(store, node, LEASE_MILLIS)
        serving.begin(push.load())
        try:
            while True:
                _one_round(push, serving)
                # SQLite gives its lock to whoever comes at the right moment: one that never waits starves the others.
                time.sleep(random.random() * PAUSE)
                if Pause.asked:
                    Pause.asked = False
                    os.kill(os.getpid(), signal.SIGSTOP)
        except Deposed:
            serving.end_all()
            print("deposed", flush=True)


def _one_round(push: PushStore, serving: Serving) -> None:
    if push.lease_left() <= 0:
        serving.end_all()
    wanted = push.renew()
    serving.end(wanted)
    push.release(wanted)
    push.adopt()
    serving.begin(push.load())
    with suppress(NoSuchRecord):
        push.claim(f"d{random.randrange(5)}")
    push.write(everything(*[device(each, badge=random.randrange(100)) for each in serving.devices]))


def write(url: str, node: str) -> None:
    """Number after number: a device that fired, with all that belongs to it. Told when it is written."""
    push = PushStore.join(Store.open(url), node)
    first = len(push.load().devices)
    for number in itertools.count(first):
        id = f"{number:06}"
        push.write(
            everything(
                device(id),
                subscription(f"a{id}", id),
                subscription(f"b{id}", id),
                *[notification(f"{id}-{each}", id) for each in range(5)],
            )
        )
        print(number, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        write(sys.argv[2], sys.argv[3])
