"""A server of several processes, its workers by name, and clients at a worker of the test's choice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

from tests.support.process import ServerProcess
from tests.support.raw import TIMEOUT, Exchange, Socket, params

INGEST_TOKEN = "0123456789abcdef"

# Adapter set TEST: HAND has items that the test publishes, which outlive the hub.
SETTINGS: dict[str, object] = {
    "server.workers": 2,
    "demo.enabled": True,
    "adapters.TEST.data.HAND.adapter": "ingest",
    "adapters.TEST.data.HAND.parameters.items": ["*"],
    "adapters.TEST.data.HAND.parameters.tokens": [INGEST_TOKEN],
    "adapters.TEST.data.HAND.journal.items": ["*"],
}

# Seconds for a process to start on a machine that has much other work.
PATIENCE = 60.0


def children(pid: int) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def worker_name(pid: int) -> str | None:
    """What a process is called that is a worker."""
    with suppress(FileNotFoundError, ProcessLookupError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if "penstock.worker" in words:
            return words[words.index("penstock.worker") + 1]
    return None


def workers_of(pid: int) -> dict[str, int]:
    """The workers of a supervisor, by name."""
    found = {worker_name(child): child for child in children(pid)}
    return {name: child for name, child in found.items() if name is not None}


def until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class WorkersProcess(ServerProcess):
    """A server with `server.workers`; used as a context manager."""

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(directory, {**SETTINGS, **(settings or {})})

    @property
    def exchange(self) -> Exchange:
        return Exchange(self.host, self.port)

    def workers(self) -> dict[str, int]:
        return workers_of(self.pid)

    def signal_worker(self, name: str, number: signal.Signals) -> int:
        pid = self.workers()[name]
        os.kill(pid, number)
        return pid

    def replace_worker(self, name: str) -> None:
        """Kill a worker, and wait until another is in its place and ready."""
        before = self.log.count(f"worker replaced worker={name}")
        self.signal_worker(name, signal.SIGKILL)
        until(lambda: self.log.count(f"worker replaced worker={name}") > before, f"{name} replaced")

    def socket_at(self, worker: str, adapter_set: str = "TEST", **login: str) -> Socket:
        """A WebSocket with a session that this worker has; the system chooses, so it is asked until it does."""
        for _ in range(200):
            socket = self.exchange.socket()
            socket.create(adapter_set, send_sync=False, keepalive_millis=30_000, **login)
            if socket.session.endswith(f"-{worker}"):
                return socket
            socket.__exit__(None, None, None)
        raise AssertionError(f"no connection has come to {worker}")

    def publish(self, item: str, **fields: str) -> None:
        line = json.dumps({"item": item, "fields": fields}).encode()
        address = f"http://127.0.0.1:{self.api_port}/api/ingest/TEST/HAND"
        request = Request(address, line, {"Authorization": f"Bearer {INGEST_TOKEN}"})
        with urlopen(request, timeout=TIMEOUT) as answer:
            assert json.load(answer)["accepted"] == 1


def subscribe(
    socket: Socket, group: str, schema: str, mode: str = "MERGE", number: int = 1, **more: object
) -> list[str]:
    """Subscribe with a snapshot; the lines up to SUBOK or SUBCMD."""
    asked = params(reqId=number, op="add", subId=number, group=group, schema=schema, mode=mode, snapshot=True, **more)
    socket.send("control", asked)
    return socket.read_until("SUBOK", "SUBCMD", "REQERR")


def message(socket: Socket, text: str, number: int, sequence: str = "CHAT") -> None:
    socket.send("msg", params(reqId=100 + number, sequence=sequence, msg_prog=number, message=text))
