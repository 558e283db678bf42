"""Processes that race for the devices of one database, and one that is killed while it writes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import pytest

from penstock.store.push import PushStore
from penstock.store.store import Store
from tests.store.devices import device, everything

pytestmark = pytest.mark.timeout(600)

DEVICES = {f"d{number}" for number in range(5)}

# Seconds for what takes a few, on a machine that is busy.
PATIENCE = 120.0

KILLS = 5


class NodeProcess:
    """A process of `tests.store.node_process`; its lines are read on a thread."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.store.node_process", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines: Queue[str] = Queue()
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # The last one may be cut off.
            if line.endswith("\n"):
                self.lines.put(line.strip())

    def next(self) -> str:
        return self.lines.get(timeout=PATIENCE)

    def kill(self) -> list[str]:
        """With SIGKILL; returns the lines that were not read."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        rest = []
        while True:
            try:
                rest.append(self.lines.get_nowait())
            except Empty:
                return rest


@contextmanager
def nodes(*arguments: tuple[str, ...]) -> Iterator[list[NodeProcess]]:
    made = [NodeProcess(*each) for each in arguments]
    try:
        yield made
    finally:
        for each in made:
            if each.process.poll() is None:
                each.kill()


@pytest.fixture
def witness(store: Store) -> PushStore:
    """A node that has made the devices and has left, so that they are free; it can still look."""
    made = PushStore.join(store, "witness")
    made.write(everything(*[device(each) for each in DEVICES]))
    made.leave()
    return made


def owners(witness: PushStore) -> set[str | None]:
    found = [witness.find(device(each).key) for each in DEVICES]
    return {each.owner for each in found if each is not None}


def wait_for_owner(witness: PushStore, owner: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while owners(witness) != {owner}:
        assert time.monotonic() < deadline, owners(witness)


def only_serving(lines: Iterable[str]) -> bool:
    """Neither has two processes serve a device, nor has one lost all that it had."""
    return all(line.startswith("serving ") for line in lines)


def test_processes_that_want_the_same_devices_never_serve_one_at_the_same_time(
    witness: PushStore, url: str, tmp_path: Path
) -> None:
    with nodes(*[("serve", url, name, str(tmp_path)) for name in ("one", "two")]) as (one, two):
        for _ in range(30):
            assert only_serving([one.next(), two.next()])
        # The other one gets all of them when the lease of the dead one is over.
        assert only_serving(one.kill())
        wait_for_owner(witness, "two")
        assert only_serving(two.kill())


def test_a_process_that_was_paused_for_too_long_changes_nothing_when_it_goes_on(
    store: Store, witness: PushStore, url: str, tmp_path: Path
) -> None:
    with nodes(("serve", url, "one", str(tmp_path))) as (one,):
        wait_for_owner(witness, "one")
        one.process.send_signal(signal.SIGUSR1)
        other = PushStore.join(store, "other", lease_millis=round(PATIENCE * 1000))
        taken: set[str] = set()
        deadline = time.monotonic() + PATIENCE
        while taken != DEVICES:
            taken |= {each.id for each in other.adopt().devices}
            assert time.monotonic() < deadline
        other.write(everything(*[device(each, badge=1_000) for each in DEVICES]))
        one.process.send_signal(signal.SIGCONT)
        while one.next() != "deposed":
            pass
        assert [each.badge for each in other.load().devices] == [1_000] * len(DEVICES)
        other.leave()


def test_what_was_written_before_a_kill_is_there_and_the_rest_is_there_whole_or_not_at_all(
    store: Store, url: str
) -> None:
    acknowledged = -1
    for _ in range(KILLS):
        with nodes(("write", url, "one")) as (writer,):
            for _ in range(random.randrange(1, 60)):
                acknowledged = int(writer.next())
            acknowledged = max([acknowledged, *map(int, writer.kill())])
        found = PushStore.join(store, "one").load()
        ids = [each.id for each in found.devices]
        assert ids == [f"{number:06}" for number in range(len(ids))]
        assert len(ids) in (acknowledged + 1, acknowledged + 2)
        assert Counter([each.device for each in found.subscriptions]) == dict.fromkeys(ids, 2)
        assert Counter([each.device for each in found.notifications]) == dict.fromkeys(ids, 5)
