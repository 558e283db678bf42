"""What a server of several processes promises when some of them are killed at the same moment, by clients that stay.

One at a time is in test_workers.py; nodes of several machines are in test_cluster_faults.py.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from penstock.journal.reader import JournalReader
from tests.journal.world import rows_of
from tests.support.followers import PRICE, Follower, Publisher, within_promise
from tests.support.waiting import wait_until
from tests.support.worker_processes import INGEST_TOKEN, WorkersProcess

pytestmark = pytest.mark.timeout(300)

# Clients: the system spreads them over the workers.
FOLLOWERS = 6


class WorkersHome(WorkersProcess):
    """All workers are one place, because they share their port."""

    name = "workers"
    is_running = True
    has_clients = True

    def publish(self, item: str, timeout: float = 10.0, **fields: str) -> bool:  # type: ignore[override]
        line = json.dumps({"item": item, "fields": fields}).encode()
        address = f"http://127.0.0.1:{self.api_port}/api/ingest/TEST/HAND"
        request = Request(address, line, {"Authorization": f"Bearer {INGEST_TOKEN}"})
        try:
            with urlopen(request, timeout=timeout) as answer:
                return bool(json.load(answer)["accepted"] == 1)
        except (URLError, OSError):
            return False


class ItemModes:
    """As TOML."""

    def __str__(self) -> str:
        return '{ book = "COMMAND", "*" = "MERGE" }'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WorkersHome]:
    settings = {
        "adapters.TEST.data.HAND.parameters.items": ItemModes(),
        "adapters.TEST.data.HAND.journal.policy": "ack",
    }
    with WorkersHome(tmp_path, settings) as running:
        yield running


@pytest.mark.parametrize(
    "killed", [("hub", "w1"), ("w1", "w2"), ("hub", "w2"), ("hub", "w1", "w2")], ids=lambda names: "-".join(names)
)
def test_workers_are_killed_together(server: WorkersHome, killed: tuple[str, ...]) -> None:
    publisher = Publisher([server])
    followers = [Follower([server], publisher) for _ in range(FOLLOWERS)]
    with ExitStack() as stack:
        everybody: list[Publisher | Follower] = [publisher, *followers]
        for each in everybody:
            each.start()
            stack.callback(each.stop)
        number = publisher.until_more()
        wait_until(lambda: all(each.number >= number for each in followers), f"{number} at {followers}")
        pids = server.workers()
        for name in killed:
            os.kill(pids[name], signal.SIGKILL)
        for name in killed:
            wait_until(partial(is_replaced, server, name), f"{name} replaced")
        number = publisher.until_more()
        within_promise(lambda: all(each.number >= number for each in followers), lambda: f"{number} at {followers}")
        publisher.stop()
        last = publisher.acknowledged[-1]
        within_promise(lambda: all(each.number >= last for each in followers), lambda: f"{last} at {followers}")
        fresh = Follower([server], publisher)
        fresh.start()
        stack.callback(fresh.stop)
        within_promise(
            lambda: fresh.number >= last and all(each.rows == fresh.rows for each in followers),
            lambda: str([each.rows for each in (fresh, *followers)]),
        )
        for follower in followers:
            assert follower.wrong == [], f"{follower.wrong} at {follower}"
    assert server.stop() == 0
    reader = JournalReader(server.directory / "data" / "journal")
    found = [int(json.loads(value or "")["last"]) for _, entity, _, value in rows_of(reader.read()) if is_price(entity)]
    assert reader.damages == []
    assert found == sorted(set(found)), "in another order, or twice"
    assert set(publisher.acknowledged) <= set(found), "acknowledged, and lost"


def is_replaced(server: WorkersHome, name: str) -> bool:
    return f"worker replaced worker={name}" in server.log


def is_price(entity: str) -> bool:
    return entity.endswith(f"/{PRICE}")
