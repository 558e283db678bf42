"""A server with push notifications that is killed again and again: nothing acknowledged is lost, and every subscription
that has triggered was handed over to its provider, at least once.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.services.push.stage import APPLICATION, PushClient
from tests.support.process import PATIENCE, ServerProcess
from tests.support.raw import Exchange

KILLS = 100 if os.environ.get("PENSTOCK_PROFILE") == "long" else 10

SETTINGS: dict[str, object] = {
    "demo.enabled": True,
    "demo.pace": 50.0,
    "push.enabled": True,
    f'push.apple."{APPLICATION}".min_send_delay_millis': 0,
    f'push.apple."{APPLICATION}".triggers': [".*"],
}
DEVICES = 7
HANDED_OVER = re.compile(r"Payload for subscription (\S+) with notification ID \d+: (\{.*?\}\})")

# A start takes a second or two, and many times as long on a machine with other work.
pytestmark = pytest.mark.timeout(60 + 30 * KILLS)


class Acknowledged:
    """What clients have been told."""

    def __init__(self) -> None:
        # Tokens with the ids of their devices, once for each registration.
        self.devices: list[tuple[str, str]] = []
        self.subscriptions: list[str] = []
        # These may be gone: it was asked for.
        self.deactivated: set[str] = set()


class Busy(threading.Thread):
    """Registers a device, and activates one subscription after the other, until the server is killed."""

    def __init__(self, server: ServerProcess, token: str, acknowledged: Acknowledged) -> None:
        super().__init__(daemon=True)
        self._tlcp = Exchange(server.host, server.port)
        self._token = token
        self._acknowledged = acknowledged
        self.begun = threading.Event()

    def run(self) -> None:
        # The server goes away in the middle of anything.
        with (
            suppress(OSError, EOFError, AssertionError, ValueError, IndexError),
            PushClient(self._tlcp, "WELCOME") as client,
        ):
            self._acknowledged.devices.append((self._token, client.register(self._token)))
            for number in range(1_000_000):
                subscription = client.activate(
                    LS_data_adapter="STOCKS",
                    LS_group=f"item{number % 5 + 1}",
                    LS_schema="stock_name last_price",
                    PN_notificationFormat='{"aps":{"alert":"${stock_name}"}}',
                    PN_trigger="Double.parseDouble(${last_price}) > 0",
                )
                self._acknowledged.subscriptions.append(subscription)
                self.begun.set()
                if number % 5 == 4:
                    # Before it is asked for: if the answer is lost, it may have been done.
                    self._acknowledged.deactivated.add(subscription)
                    client.done("deactivate", "MPNDEL", PN_deviceId=client.device, PN_subscriptionId=subscription)


def test_nothing_acknowledged_is_lost_and_what_has_triggered_is_handed_over(tmp_path: Path) -> None:
    random = Random(18)
    acknowledged = Acknowledged()
    server = ServerProcess(tmp_path, SETTINGS)
    for number in range(KILLS):
        server.start()
        try:
            busy = Busy(server, f"token {number % DEVICES}", acknowledged)
            busy.start()
            assert busy.begun.wait(PATIENCE), server.log
            time.sleep(random.uniform(0.0, 0.3))
        finally:
            server.kill()
        busy.join(PATIENCE)
    triggered_before = handed_over(server)
    with server:
        devices, there = found(server)
        assert [(token, id) for token, id in acknowledged.devices if devices[token] != id] == []
        assert set(acknowledged.subscriptions) - acknowledged.deactivated - there.keys() == set()
        assert len(acknowledged.subscriptions) > KILLS
        # All of them trigger sooner or later, because stocks are worth something.
        deadline = time.monotonic() + 60
        while "ACTIVE" in (there := found(server)[1]).values():
            assert time.monotonic() < deadline, there
        triggered = {id for id, status in there.items() if status == "TRIGGERED"}
        while not triggered <= handed_over(server).keys():
            assert time.monotonic() < deadline, triggered - handed_over(server).keys()
    handovers = handed_over(server)
    print(
        f"{KILLS} kills: {len(acknowledged.devices)} registrations, {len(acknowledged.subscriptions)} activations and"
        f" {len(acknowledged.deactivated)} deactivations asked for; {len(handovers)} notifications handed over,"
        f" {sum(count > 1 for count in handovers.values())} of them more than once,"
        f" {len(handovers.keys() - triggered_before.keys())} after the last start"
    )


def found(server: ServerProcess) -> tuple[dict[str, str], dict[str, str]]:
    """The id of each token's device, and the status of each subscription, as clients see them."""
    devices: dict[str, str] = {}
    statuses: dict[str, str] = {}
    with PushClient(Exchange(server.host, server.port), "WELCOME") as client:
        for number in range(DEVICES):
            device = client.register(f"token {number}")
            devices[f"token {number}"] = device
            client.subscribe(f"SUBS-{device}", "key command", "COMMAND")
            ids = []
            for line in client.stream.read_until("EOS"):
                if line.startswith("U,"):
                    ids.append(line.split(",")[3].partition("|")[0].removeprefix("SUB-"))
            for id in ids:
                client.subscribe(f"SUB-{id}", "status", LS_requested_max_frequency="unfiltered")
                statuses[id] = client.told("U")[2]
    return devices, statuses


def handed_over(server: ServerProcess) -> Counter[str]:
    """How often the notification of each subscription was handed over, by the log of all processes so far."""
    return Counter(match[1] for match in HANDED_OVER.finditer(server.log))
