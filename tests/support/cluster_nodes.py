"""A cluster of processes: a NATS server, a PostgreSQL, hubs that share a data directory, and edges, by name."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.store.postgres import Postgres
from tests.support.forge import Forked
from tests.support.nats_server import NatsServer
from tests.support.raw import TIMEOUT, Exchange, Socket

INGEST_TOKEN = "0123456789abcdef"

# Adapter set TEST: HAND has items that the test publishes, which outlive a hub.
CONFIGURATION = """
server.node = "{name}"
server.data_dir = "{data_dir}"
stream.port = 0
api.port = 0
demo.enabled = true
cluster.role = "{role}"
cluster.nats = ["{nats}"]
cluster.store = "{store}"
cluster.lease_millis = {lease_millis}
[adapters.TEST.data.HAND]
adapter = "ingest"
parameters = {{ items = ["*"], tokens = ["{token}"] }}
journal = {{ items = ["*"], policy = "ack" }}
"""

# Short, and long enough for a machine that is busy with other tests.
LEASE_MILLIS = 6_000

# Seconds for a process to start there.
PATIENCE = 90.0

_PORT = re.compile(r"(?:stream|api)=http://127\.0\.0\.1:(\d+)")


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.02)


class ClusterNode:
    """One process; `readies` are the lines in which it says that it is ready: a hub may say it more than once."""

    def __init__(self, name: str, directory: Path, configuration: str) -> None:
        self.name = name
        self._file = directory / f"{name}.toml"
        self._file.write_text(configuration)
        self._log = directory / f"{name}.log"
        self.readies: list[str] = []
        self._process: Forked | None = None
        self._thread = Thread(target=self._read)

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = Forked(["serve", "--config", str(self._file)], stderr=log)
        self.readies = []
        self._thread = Thread(target=self._read, args=(self._process,))
        self._thread.start()

    def _read(self, process: Forked) -> None:
        for line in process.stdout:
            if line.startswith("penstock: ready"):
                self.readies.append(line)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def port(self) -> int:
        """Of the streaming port of an edge, of the API port of a hub."""
        found = _PORT.search(self.readies[-1])
        assert found is not None, self.readies
        return int(found[1])

    def wait_until_ready(self, times: int = 1) -> None:
        wait_until(lambda: len(self.readies) >= times, f"{self.name} ready; {self.log[-2000:]}")

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals) -> int:
        """Its exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(number)
        code = process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        process.close()
        return code

    @property
    def is_running(self) -> bool:
        return self._process is not None

    # -- of an edge ------------------------------------------------------------------------------------------------

    def client(self, adapter_set: str = "TEST") -> Socket:
        """With a session."""
        socket = Exchange("127.0.0.1", self.port).socket()
        socket.create(adapter_set, send_sync=False, keepalive_millis=30_000)
        return socket

    # -- of a hub --------------------------------------------------------------------------------------------------

    def publish(self, item: str, **fields: str) -> bool:
        """Whether it was acknowledged."""
        line = json.dumps({"item": item, "fields": fields}).encode()
        address = f"http://127.0.0.1:{self.port}/api/ingest/TEST/HAND"
        request = Request(address, line, {"Authorization": f"Bearer {INGEST_TOKEN}"})
        try:
            with urlopen(request, timeout=TIMEOUT) as answer:
                return bool(json.load(answer)["accepted"] == 1)
        except (URLError, OSError):
            return False


class ClusterOfNodes:
    """Used as a context manager. The first hub is active, the other stands by."""

    def __init__(self, directory: Path, hubs: tuple[str, ...] = ("h1", "h2"), edges: tuple[str, ...] = ("e1", "e2")):
        self._stack = ExitStack()
        self.nats = self._stack.enter_context(NatsServer(directory))
        self.postgres = self._stack.enter_context(Postgres())
        self.data_dir = directory / "data"
        self.nodes: dict[str, ClusterNode] = {}
        for name in (*hubs, *edges):
            role = "hub" if name in hubs else "edge"
            data_dir = self.data_dir if role == "hub" else directory / name
            self.nodes[name] = ClusterNode(
                name,
                directory,
                CONFIGURATION.format(
                    name=name,
                    role=role,
                    data_dir=data_dir,
                    nats=self.nats.url,
                    store=self.postgres.url,
                    lease_millis=LEASE_MILLIS,
                    token=INGEST_TOKEN,
                ),
            )
        self._first = hubs[0]

    def __getitem__(self, name: str) -> ClusterNode:
        return self.nodes[name]

    def __enter__(self) -> Self:
        try:
            self[self._first].start()
            self[self._first].wait_until_ready()
            for name, node in self.nodes.items():
                if name != self._first:
                    node.start()
            for name, node in self.nodes.items():
                if name.startswith("e"):
                    node.wait_until_ready()
                elif name != self._first:
                    wait_until(lambda node=node: "standing by" in node.log, f"{name} standing by")  # type: ignore[misc]
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            if node.is_running:
                node.end(signal.SIGKILL)
        self._stack.close()
