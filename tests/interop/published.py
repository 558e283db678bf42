"""The published clients, all driven alike: one driver process per client and version, many connections in each.

Commands and events are JSON lines. Commands are the methods of `PublishedClient`; every event has `event` and, by it:
  status (status, session) · property (name, value) · server error (code, message)
  subscribed, unsubscribed, subscription error (code, message), max frequency (value)      each with subscription
  update (item, snapshot, values, changed), end of snapshot (item), lost updates (item, count)   likewise
  second level error (key, code, message), second level lost updates (key, count)   likewise
  message (text, outcome: processed, denied, discarded, failed or aborted)
  refused (reason): the client's own code has raised on a command; whoever waits for anything then fails
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypedDict

import pytest

from tests.interop.libraries import REPOSITORY, Library, libraries, require

CLIENTS: Mapping[str, Library] = libraries()
TRANSPORTS = ("WS-STREAMING", "HTTP-STREAMING", "WS-POLLING", "HTTP-POLLING")

# All tests with all clients would take `make test` minutes: of some clients it runs `test_previous_generation` only.
_LONG = {name: [pytest.mark.interop_long] if library.is_long else [] for name, library in CLIENTS.items()}
each_client = pytest.mark.parametrize("name", [pytest.param(name, marks=_LONG[name]) for name in CLIENTS])


def ways(*but: str) -> pytest.MarkDecorator:
    """Every client on every transport, but those that cannot do what is tested by a fault of their own."""
    return pytest.mark.parametrize(
        ("transport", "name"),
        [
            pytest.param(transport, name, id=f"{transport}-{name}", marks=_LONG[name])
            for transport in TRANSPORTS
            for name, library in CLIENTS.items()
            if f"{transport}-{name}" not in but
            and not (library.loses_sessions_when_polling and transport.endswith("POLLING"))
        ],
    )


each_way = ways()

# The clients trust this certificate as well: Python and Node.js learn of it by these variables.
CERTIFICATE = REPOSITORY / "tests/config/tls/certificate.pem"
PRIVATE_KEY = REPOSITORY / "tests/config/tls/private_key.pem"
TRUST = {"SSL_CERT_FILE": str(CERTIFICATE), "NODE_EXTRA_CA_CERTS": str(CERTIFICATE)}

# Seconds that an event is waited for. Far more than any should take: only a failure is slow.
PATIENCE = 20.0

# Clients notice a broken connection by these times (in milliseconds), if at all; the defaults add up to ten seconds.
# The delay is also what they wait for an answer when they connect: without one they give a transport up for good.
QUICK = {
    "KeepaliveInterval": 400,
    "StalledTimeout": 200,
    "ReconnectTimeout": 400,
    "IdleTimeout": 500,
    "RetryDelay": 1_500,
    "FirstRetryMaxDelay": 50,
}

Event = dict[str, Any]


class SecondLevel(TypedDict):
    """What to subscribe for each row of a COMMAND item, the row's key being the name of the item."""

    adapter: str
    fields: list[str]


class Driver:
    """A process with one published client in it."""

    def __init__(self, client: str, directory: Path) -> None:
        library = CLIENTS[client]
        for path in library.needs:
            require(path)
        self.client = client
        self._names = (f"{client}-{number}" for number in itertools.count(1))
        self._connections: dict[str, PublishedClient] = {}
        self._complaints = directory / f"{client}.stderr"
        with self._complaints.open("w") as complaints:
            self._process = subprocess.Popen(
                library.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                cwd=REPOSITORY,
                env=os.environ | TRUST,
            )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert ready, f"the driver of {client} did not start: {self.complaints}"
        assert json.loads(ready)["version"].startswith(library.version + " "), ready
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    @property
    def complaints(self) -> str:
        """What the client has written to standard error."""
        return self._complaints.read_text()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def new_client(self) -> PublishedClient:
        client = PublishedClient(self, next(self._names))
        self._connections[client.name] = client
        return client

    def send(self, command: Event) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            event = json.loads(line)
            self._connections[event["client"]].take(event)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        self._process.stdout.close()


class PublishedClient:
    """One connection of a published client. Every event is kept; `expect` walks through them in order."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.name = name
        self.events: list[Event] = []
        self._driver = driver
        self._position = 0
        self._arrived = threading.Condition()
        self._connected = False

    # -- commands -------------------------------------------------------------------------------------------------

    def connect(
        self,
        address: str,
        adapter_set: str,
        transport: str | None,
        user: str | None = None,
        options: Mapping[str, int | str] | None = None,
    ) -> None:
        """Connect and wait until it is done; options by the names of their setters: `{"RetryDelay": 500}`."""
        self._connected = True
        self._do(
            "connect",
            address=address,
            adapter_set=adapter_set,
            transport=transport,
            user=user,
            options=dict(options or {}),
        )
        if transport is not None:
            self.expect("status", status=f"CONNECTED:{transport}")

    def subscribe(
        self,
        subscription: str,
        mode: str,
        items: list[str],
        fields: list[str],
        adapter: str,
        snapshot: str | None = "yes",
        second_level: SecondLevel | None = None,
    ) -> None:
        """Subscribe; None for a mode that has no snapshot, RAW. The second level is for COMMAND mode only."""
        self._do(
            "subscribe",
            subscription=subscription,
            mode=mode,
            items=items,
            fields=fields,
            adapter=adapter,
            snapshot=snapshot,
            second_level=second_level,
        )

    def limit_frequency(self, subscription: str, frequency: str) -> None:
        self._do("limit_frequency", subscription=subscription, frequency=frequency)

    def unsubscribe(self, subscription: str) -> None:
        self._do("unsubscribe", subscription=subscription)

    def send(
        self, text: str, sequence: str | None = None, delay_timeout: int | None = None, enqueue: bool = False
    ) -> None:
        """Send a message; its outcome comes as an event."""
        self._do("send", text=text, sequence=sequence, delay_timeout=delay_timeout, enqueue=enqueue)

    def limit_bandwidth(self, bandwidth: str) -> None:
        self._do("limit_bandwidth", bandwidth=bandwidth)

    def disconnect(self) -> None:
        self._connected = False
        self._do("disconnect")
        self.expect("status", status="DISCONNECTED")

    def close(self) -> None:
        """Leave nothing running, whatever has happened."""
        if self._connected and self._driver.alive:
            self._connected = False
            self._do("disconnect")

    def _do(self, command: str, **arguments: object) -> None:
        self._driver.send({"client": self.name, "do": command, **arguments})

    # -- events ---------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        with self._arrived:
            self.events.append(event)
            self._arrived.notify_all()

    def expect(self, event: str, **details: object) -> Event:
        """The next event of this kind with these details; what comes before it is passed over."""
        return self.expect_where(event, lambda candidate: details.items() <= candidate.items(), repr(details))

    def expect_where(self, event: str, fits: Callable[[Event], bool], wanted: str) -> Event:
        """The same with a condition."""
        deadline = time.monotonic() + PATIENCE
        with self._arrived:
            while True:
                while self._position < len(self.events):
                    candidate = self.events[self._position]
                    self._position += 1
                    if candidate["event"] == event and fits(candidate):
                        return candidate
                    if candidate["event"] == "refused":
                        self._fail(f"{self.name} refused a command: {candidate['reason']}")
                if not self._arrived.wait(deadline - time.monotonic()):
                    self._fail(f"{self.name} did not report {event} {wanted}")

    def wait_for(self, event: str, **details: object) -> Event:
        """Such an event at any time, also before those that `expect` has passed."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._all(event, details), PATIENCE):
                self._fail(f"{self.name} never reported {event} {details!r}")
            return self._all(event, details)[0]

    def _all(self, event: str, details: Event) -> list[Event]:
        return [one for one in self.events if one["event"] == event and details.items() <= one.items()]

    def _fail(self, complaint: str) -> None:
        story = "\n".join(f"  {event}" for event in self.events[-60:])
        raise AssertionError(f"{complaint}; the last events were\n{story}\n{self._driver.complaints[-4000:]}")

    def seen(self, event: str, **details: object) -> list[Event]:
        """All events of this kind so far, from the very first."""
        with self._arrived:
            return self._all(event, details)

    def updates(self, subscription: str) -> Iterator[Event]:
        """The updates of a subscription one after another, waiting for each."""
        while True:
            yield self.expect("update", subscription=subscription)


class Drivers:
    """The drivers in use, started when first asked for and again after one has died."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, Driver] = {}

    def get(self, client: str) -> Driver:
        driver = self._running.get(client)
        if driver is None or not driver.alive:
            driver = self._running[client] = Driver(client, self._directory)
        return driver

    def close(self) -> None:
        for driver in self._running.values():
            driver.close()
