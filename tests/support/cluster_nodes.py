"""A cluster of processes: a NATS server, a PostgreSQL, hubs that share a data directory, and edges, by name."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from types import MappingProxyType, TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.store.postgres import Postgres
from tests.support.forge import Forked
from tests.support.nats_server import NatsServer
from tests.support.raw import TIMEOUT, Exchange, Socket
from tests.support.waiting import PATIENCE, wait_until

INGEST_TOKEN = "0123456789abcdef"

# Adapter set TEST: HAND has items that the test publishes, which outlive a hub: `book` is a table, `log` a list.
CONFIGURATION = """
server.node = "{node}"
server.data_dir = "{data_dir}"
stream.port = {stream_port}
api.port = 0
demo.enabled = true
cluster.role = "{role}"
cluster.nats = {nats}
cluster.store = "{store}"
cluster.lease_millis = {lease_millis}
[adapters.TEST.data.HAND]
adapter = "ingest"
parameters = {{ items = {{ book = "COMMAND", log = "DISTINCT", "*" = "MERGE" }}, tokens = ["{token}"] }}
journal = {{ items = ["*"], policy = "ack" }}
"""

NOTHING: Mapping[str, str] = MappingProxyType({})
NO_PORTS: Mapping[str, int] = MappingProxyType({})

# Short, and long enough for a machine that is busy with other tests.
LEASE_MILLIS = 6_000

_PORT = re.compile(r"(stream|api)=http://127\.0\.0\.1:(\d+)")


class ClusterNode:
    """One process; `readies` are the lines in which it says that it is ready: a hub may say it more than once."""

    def __init__(self, name: str, directory: Path, configuration: str) -> None:
        self.name = name
        self._file = directory / f"{name}.toml"
        self._file.write_text(configuration)
        self._log = directory / f"{name}.log"
        self.readies: list[str] = []
        self.ready_at = 0.0
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
                self.ready_at = time.monotonic()
                self.readies.append(line)

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def ports(self) -> dict[str, int]:
        """`stream` and `api`, as far as it has them: none before it is ready."""
        return {name: int(port) for name, port in _PORT.findall(self.readies[-1])} if self.readies else {}

    @property
    def has_clients(self) -> bool:
        return "stream" in self.ports

    def wait_until_ready(self, times: int = 1) -> None:
        wait_until(lambda: len(self.readies) >= times, f"{self.name} ready; {self.log[-2000:]}")

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals) -> int:
        """Its exit code."""
        self.send(number)
        return self.wait_until_ended()

    def wait_until_ended(self) -> int:
        """By itself. Its exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        code = process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        process.close()
        return code

    @property
    def is_running(self) -> bool:
        return self._process is not None

    # -- of an edge ------------------------------------------------------------------------------------------------

    @property
    def exchange(self) -> Exchange:
        return Exchange("127.0.0.1", self.ports["stream"])

    def client(self, adapter_set: str = "TEST", **login: str) -> Socket:
        """With a session."""
        socket = self.exchange.socket()
        socket.create(adapter_set, send_sync=False, keepalive_millis=30_000, **login)
        return socket

    # -- of a hub --------------------------------------------------------------------------------------------------

    def publish(self, item: str, timeout: float = TIMEOUT, **fields: str) -> bool:
        """Whether it was acknowledged."""
        port = self.ports.get("api")
        if port is None:
            return False
        line = json.dumps({"item": item, "fields": fields}).encode()
        address = f"http://127.0.0.1:{port}/api/ingest/TEST/HAND"
        request = Request(address, line, {"Authorization": f"Bearer {INGEST_TOKEN}"})
        try:
            with urlopen(request, timeout=timeout) as answer:
                return bool(json.load(answer)["accepted"] == 1)
        except (URLError, OSError):
            return False


class ClusterOfNodes:
    """Used as a context manager. The first hub is active, the others stand by."""

    def __init__(
        self,
        directory: Path,
        hubs: Sequence[str] = ("h1", "h2"),
        edges: Sequence[str] = ("e1", "e2"),
        *,
        lease_millis: int | None = LEASE_MILLIS,
        role: str = "hub",
        named: Mapping[str, str] = NOTHING,
        servers: Sequence[NatsServer] = (),
        ports: Mapping[str, int] = NO_PORTS,
        more: Callable[[Postgres], str] = lambda postgres: "",
    ) -> None:
        """`role` is that of hubs; `named` are nodes with another name than their key, `ports` those with streaming
        ports of the test's choice; `servers` are those of NATS, if there are several; `more` makes the beginning of all
        configurations. Without a lease the test starts the other hubs, and each has its own data.
        """
        self._stack = ExitStack()
        self.servers = [self._stack.enter_context(each) for each in servers or [NatsServer(directory)]]
        self.postgres = self._stack.enter_context(Postgres())
        beginning = more(self.postgres)
        self.data_dir = directory / "data"
        self.hubs, self.edges = list(hubs), list(edges)
        self._has_lease = lease_millis is not None
        self.nodes: dict[str, ClusterNode] = {}
        for number, name in enumerate((*hubs, *edges)):
            # Each begins with another server.
            urls = [self.servers[(number + each) % len(self.servers)].url for each in range(len(self.servers))]
            configuration = CONFIGURATION.format(
                node=named.get(name, name),
                role=role if name in hubs else "edge",
                data_dir=self.data_dir if name in hubs and lease_millis else directory / name,
                stream_port=ports.get(name, 0),
                nats=json.dumps(urls),
                store=self.postgres.url if lease_millis else "",
                lease_millis=lease_millis or LEASE_MILLIS,
                token=INGEST_TOKEN,
            )
            self.nodes[name] = ClusterNode(name, directory, beginning + configuration)

    @property
    def nats(self) -> NatsServer:
        return self.servers[0]

    def __getitem__(self, name: str) -> ClusterNode:
        return self.nodes[name]

    @property
    def active(self) -> str | None:
        """The hub that was ready last, if it still runs."""
        found = [name for name in self.hubs if self[name].is_running and self[name].readies]
        return max(found, key=lambda name: self[name].ready_at) if found else None

    def __enter__(self) -> Self:
        try:
            first, *others = self.hubs if self._has_lease else self.hubs[:1]
            self[first].start()
            self[first].wait_until_ready()
            for name in (*others, *self.edges):
                self[name].start()
            for name in self.edges:
                self[name].wait_until_ready()
            for name in others:
                self.wait_until_standing_by(name)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def wait_until_standing_by(self, name: str, times: int = 1) -> None:
        wait_until(
            lambda: self[name].log.count("standing by") >= times, f"{name} standing by; {self[name].log[-2000:]}"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            if node.is_running:
                node.end(signal.SIGKILL)
        self._stack.close()
