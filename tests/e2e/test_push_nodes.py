"""Two server processes with one PostgreSQL: a device is served by one of them, whatever happens to that one.

What both send is counted at one stand-in of Apple's service, to which each signs with a key of its own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count, groupby
from pathlib import Path

import pytest

from tests.services.push.stage import APPLICATION
from tests.store.postgres import Postgres
from tests.support.apple import PATIENCE, AppleStandIn, SentToApple, apple_token, until
from tests.support.push_process import PushProcess, follow

# The trigger of each of these waits for a higher number.
THRESHOLDS = range(5, 205, 5)
# Devices that stay at one server, and show that it has seen an update; the one that this is about.
WITNESSES = {"ONE": apple_token(1), "TWO": apple_token(2)}
MOVING = apple_token(3)

pytestmark = pytest.mark.timeout(180)


class Node(PushProcess):
    """One of the servers."""

    def __init__(self, name: str, directory: Path, database: str, apple: AppleStandIn) -> None:
        directory.mkdir()
        self.name = name
        keys = apple.settings(APPLICATION, directory / "key.p8", name)
        super().__init__(directory, {**keys, "push.lease_seconds": 3, "push.store": database})

    def follow(self, token: str) -> str:
        """A device that is told of each update; its id."""
        with self.client() as client:
            device = client.register(token)
            follow(client)
        return device


class Updates(threading.Thread):
    """The same updates at all nodes, one after the other, until it is stopped."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__(daemon=True)
        self._nodes = nodes
        self._stopped = threading.Event()
        self.last = ""

    def run(self) -> None:
        for number in count(1):
            if self._stopped.is_set():
                break
            self.last = str(number)
            for node in self._nodes:
                node.publish(self.last)

    def stop(self) -> None:
        self._stopped.set()
        self.join(PATIENCE)
        assert not self.is_alive()


@pytest.fixture
def apple() -> Iterator[AppleStandIn]:
    with AppleStandIn() as apple:
        yield apple


@pytest.fixture
def nodes(tmp_path: Path, apple: AppleStandIn) -> Iterator[list[Node]]:
    with Postgres() as postgres, ExitStack() as stack:
        nodes = [Node(name, tmp_path / name, postgres.url, apple) for name in WITNESSES]
        for node in nodes:
            stack.enter_context(node)
        yield nodes


def test_a_device_whose_server_is_killed_is_served_by_the_other_after_the_lease(
    nodes: list[Node], apple: AppleStandIn
) -> None:
    one, two = nodes
    with one.client() as client:
        device = client.register(MOVING)
        subscription = follow(client, PN_trigger="Double.parseDouble(${x}) > 5")
    two.publish("6")
    one.kill()

    def is_there() -> bool:
        two.publish("7")
        return any(sent.token == MOVING for sent in apple.sent)

    until(is_there)
    assert [sent for sent in apple.sent if sent.token == MOVING] == [(MOVING, "7", "TWO")]
    with two.client() as client:
        assert client.register(MOVING) == device
        client.subscribe(f"SUB-{subscription}", "status")
        assert client.told("U")[2] == "TRIGGERED"
    # The first comes back as a new one: what it had is not its own any more.
    one.start()
    one.follow(WITNESSES["ONE"])
    one.publish("8")
    apple.wait(lambda sent: (WITNESSES["ONE"], "8", "ONE") in sent)
    assert len([sent for sent in apple.sent if sent.token == MOVING]) == 1


def test_a_device_whose_client_goes_to_and_fro_is_served_by_one_at_a_time(
    nodes: list[Node], apple: AppleStandIn
) -> None:
    one, two = nodes
    for node in nodes:
        node.follow(WITNESSES[node.name])
    device = one.follow(MOVING)
    with one.client() as client:
        client.register(MOVING)
        for threshold in THRESHOLDS:
            client.activate(
                PN_notificationFormat=f'{{"aps":{{"alert":"above {threshold}"}}}}',
                PN_trigger=f"Double.parseDouble(${{x}}) > {threshold}",
            )
    updates = Updates(nodes)
    updates.start()
    apple.wait(lambda sent: served_by(sent) == ["ONE"])
    moves = [two, one, two, one, two]
    for number, node in enumerate(moves, 1):
        with node.client() as client:
            assert client.register(MOVING) == device
        apple.wait(partial(has_moved, number))
    updates.stop()
    for node in nodes:
        node.publish("1000")
    apple.wait(lambda sent: {(token, "1000", name) for name, token in WITNESSES.items()} <= set(sent))
    apple.wait(lambda sent: len(fired(sent)) >= len(THRESHOLDS))
    assert served_by(apple.sent) == ["ONE", *[node.name for node in moves]]
    assert fired(apple.sent) == Counter(f"above {threshold}" for threshold in THRESHOLDS)


def served_by(all_sent: list[SentToApple]) -> list[str]:
    """The servers that have sent to the device that moves, one after the other."""
    return [name for name, _ in groupby(sent.key_id for sent in all_sent if sent.token == MOVING)]


def has_moved(times: int, all_sent: list[SentToApple]) -> bool:
    return len(served_by(all_sent)) > times


def fired(all_sent: list[SentToApple]) -> Counter[str]:
    """How often each trigger of the device that moves has been told."""
    return Counter(sent.alert for sent in all_sent if sent.token == MOVING and sent.alert.startswith("above"))
