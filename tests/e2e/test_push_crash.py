"""A server with push notifications that is killed again and again: nothing acknowledged is lost, and every subscription
that has triggered was handed over to its provider, at least once.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.services.push.stage import APPLICATION, PushClient
from tests.support.process import ServerProcess
from tests.support.raw import Exchange

KILLS = 100 if os.environ.get("PENSTOCK_PROFILE") == "long" else 10

SETTINGS: dict[str, object] = {
    "demo.enabled": True,
    "demo.pace": 50.0,
    "push.enabled": True,
    f'push.apple."{APPLICATION}".min_send_delay_millis': 0,
    f'push.apple."{APPLICATION}".triggers': [".*"],
}
HANDED_OVER = re.compile(r"Payload for subscription (\S+) with notification ID \d+: (\{.*?\}\})")

pytestmark = pytest.mark.timeout(60 + 6 * KILLS)


class Busy(threading.Thread):
    """Activates one subscription after the other, until the server is killed."""

    def __init__(self, server: ServerProcess, acknowledged: list[str], deactivated: set[str]) -> None:
        super().__init__(daemon=True)
        self._tlcp = Exchange(server.host, server.port)
        self._acknowledged = acknowledged
        self._deactivated = deactivated
        self.begun = threading.Event()

    def run(self) -> None:
        # The server goes away in the middle of anything.
        with (
            suppress(OSError, EOFError, AssertionError, ValueError, IndexError),
            PushClient(self._tlcp, "WELCOME") as client,
        ):
            client.register(f"token {len(self._acknowledged) % 7}")
            for number in range(1_000_000):
                subscription = client.activate(
                    LS_data_adapter="STOCKS",
                    LS_group=f"item{number % 5 + 1}",
                    LS_schema="stock_name last_price",
                    PN_notificationFormat='{"aps":{"alert":"${stock_name}"}}',
                    PN_trigger="Double.parseDouble(${last_price}) > 0",
                )
                self._acknowledged.append(subscription)
                self.begun.set()
                if number % 5 == 4:
                    # Before it is asked for: if the answer is lost, it may have been done.
                    self._deactivated.add(subscription)
                    client.done("deactivate", "MPNDEL", PN_deviceId=client.device, PN_subscriptionId=subscription)


def test_nothing_acknowledged_is_lost_and_what_has_triggered_is_handed_over(tmp_path: Path) -> None:
    random = Random(18)
    acknowledged: list[str] = []
    deactivated: set[str] = set()
    server = ServerProcess(tmp_path, SETTINGS)
    for _ in range(KILLS):
        server.start()
        busy = Busy(server, acknowledged, deactivated)
        busy.start()
        assert busy.begun.wait(20), server.log
        time.sleep(random.uniform(0.0, 0.3))
        server.kill()
        busy.join(20)
    with server:
        there = statuses(server)
        lost = [id for id in acknowledged if id not in there and id not in deactivated]
        assert lost == []
        assert len(acknowledged) > KILLS
        # All of them trigger sooner or later, because stocks are worth something.
        deadline = time.monotonic() + 60
        while "ACTIVE" in (there := statuses(server)).values():
            assert time.monotonic() < deadline, there
        wanted = {id for id, status in there.items() if status == "TRIGGERED"}
        while not wanted <= handed_over(server):
            assert time.monotonic() < deadline, wanted - handed_over(server)


def statuses(server: ServerProcess) -> dict[str, str]:
    """Every subscription of all devices, as clients see them."""
    found: dict[str, str] = {}
    with PushClient(Exchange(server.host, server.port), "WELCOME") as client:
        for number in range(7):
            device = client.register(f"token {number}")
            client.subscribe(f"SUBS-{device}", "key command", "COMMAND")
            ids = []
            for line in client.stream.read_until("EOS"):
                if line.startswith("U,"):
                    ids.append(line.split(",")[3].partition("|")[0].removeprefix("SUB-"))
            for id in ids:
                client.subscribe(f"SUB-{id}", "status", LS_requested_max_frequency="unfiltered")
                found[id] = client.told("U")[2]
    return found


def handed_over(server: ServerProcess) -> set[str]:
    return {match[1] for match in HANDED_OVER.finditer(server.log)}
