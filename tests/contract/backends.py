"""The same two adapters four times: in this process, and by the published SDKs for Python, Node.js and Java.

All are told what to do and report what they are asked, in the same words; `in_process`, `sdk_adapter.py`,
`node/adapter.cjs` and `java/*.java` are twins. What they decide:
  item `refused` cannot be subscribed, nor can `broken`, by mistake; items that begin with `plain` have no snapshot
  user `nobody` has no access, `poor` is refused with -7 "pay first", `crash` by mistake, `late` only as a session with
    -8 "too late"; `slow` has 10 kbit/s; of the subscriptions of `quiet` nothing is to be told
  group `none` does not exist, `both` are items one and two; schema `none` does not exist, others are names with spaces
  item `rawonly` allows RAW only, `limited` 2 updates a second; DISTINCT snapshots have 3 events
  a subscription to group `forbidden` is refused with -9 "not for you"
  devices of application `poor` are refused with -11 "no devices", of `crash` by mistake, of `unheard` without a code;
    the new token `stolen` with -12 "not yours"; push notifications of group `silent` with -13 "not by push"
  message `rude` is refused with -3 "mind your words", `unheard` without a code, `crash` by mistake
  with the Java SDK alone: see java/Metadata.java; and field x of items that begin with `patched` is sent as JSON Patch
Commands: state (item, events), update (item, event, snapshot), end (item), clear (item), pump (items), halt
Reports: subscribe, unsubscribe (item) · user (user, password, request) · session (user, session, context)
  session closed (session)
  device (user, session, platform, application, token) · new token (session, application, token, new)
  push (session, group, schema, mode, platform, application, token, trigger, format)
  tables, tables closed (session, number, group) · message (session, text) · halted (count)
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from penstock.adapters import DataAdapter, MetadataAdapter
from penstock.adapters.remote import RemoteDataAdapter, RemoteMetadataAdapter
from tests.adapters.remote.support import RemoteServer
from tests.contract.in_process import DirectData, DirectMetadata
from tests.interop.libraries import REPOSITORY, require
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent

# Seconds that a report is waited for. Far more than any should take: only a failure is slow.
PATIENCE = 20.0

# Milliseconds that a process may be silent: one that gets no CPU time is not lost.
SILENCE_MILLIS = 60_000

Report = dict[str, Any]
States = Mapping[str, Sequence[Mapping[str, str | None]]]


class Reports:
    """What an adapter has been asked, in order."""

    def __init__(self) -> None:
        self.all: list[Report] = []
        self._arrived = threading.Condition()

    def add(self, report: Report) -> None:
        with self._arrived:
            self.all.append(report)
            self._arrived.notify_all()

    def find(self, event: str, **details: object) -> list[Report]:
        with self._arrived:
            return [one for one in self.all if {"event": event, **details}.items() <= one.items()]

    def expect(self, event: str, **details: object) -> Report:
        """Such a report, whenever it came."""
        with self._arrived:
            found = self._arrived.wait_for(lambda: self.find(event, **details), PATIENCE)
            assert found, f"no {event} {details}, only {self.all}"
            return found[0]


class Backend:
    """Adapters behind a server; a context manager. `do` and `reports` are the test's hold on them."""

    def __init__(self, data: DataAdapter, metadata: MetadataAdapter) -> None:
        self.server = RemoteServer(data, metadata)
        self.reports = Reports()

    def __enter__(self) -> Backend:
        self.server.__enter__()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.server.__exit__(kind, error, trace)

    def start(self, states: States | None = None) -> None:
        """Have the adapters there, with snapshots to begin with."""

    def kill(self) -> None:
        """Have them gone, without a word."""

    def do(self, command: str, **arguments: object) -> None:
        raise NotImplementedError


class InProcess(Backend):
    """Plain methods, which run on threads of the server."""

    def __init__(self) -> None:
        self._data = DirectData(lambda report: self.reports.add(report))
        super().__init__(self._data, DirectMetadata(lambda report: self.reports.add(report)))

    def do(self, command: str, **arguments: object) -> None:
        self._data.obey({"do": command, **arguments})


class RemoteProcess(Backend):
    """A process with a published SDK, which connects to this server."""

    def __init__(self, two_connections: bool, command: Callable[[], list[str]]) -> None:
        notify = {"notify_port": 0} if two_connections else {}
        common = {"port": 0, "user": "ru", "password": "p w", "keepalive_timeout_millis": SILENCE_MILLIS}
        self.data = RemoteDataAdapter(status_item="status", **common, **notify)  # type: ignore[arg-type]
        self.metadata = RemoteMetadataAdapter(
            first_connection_timeout_millis=0,
            remote_parameters={"a b": "c|d"},
            **common,  # type: ignore[arg-type]
        )
        super().__init__(self.data, self.metadata)
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread

    def start(self, states: States | None = None) -> None:
        ports = [str(port) for port in (*self.data.ports, *self.metadata.ports)]
        self._process = subprocess.Popen(
            [*self._command(), json.dumps(dict(states or {})), *ports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        wait_until(lambda: self.data.connected and self.metadata.connected, "the adapters did not connect")

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self.reports.add(json.loads(line))

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self._reader.join(10)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        wait_until(lambda: not (self.data.connected or self.metadata.connected), "the loss is not noticed")

    def do(self, command: str, **arguments: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        known = len(self.reports.find("state"))
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()
        if command == "state":
            # A subscription comes by another way, and might be there before it.
            wait_until(lambda: len(self.reports.find("state")) > known, "the adapter did not take its state")


def _python() -> list[str]:
    return [str(require(REPOSITORY / ".interop/adapter-python/bin/python")), str(ROOT / "sdk_adapter.py")]


def _node() -> list[str]:
    require(ROOT / "node/node_modules/lightstreamer-adapter")
    return [str(require(REPOSITORY / ".venv/bin/node")), str(ROOT / "node/adapter.cjs")]


def _java() -> list[str]:
    folder = REPOSITORY / ".interop/adapter-java"
    require(folder / ".stamp")
    # A small heap and the simplest collector: it starts faster, and there is little to do.
    options = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *options, "-cp", f"{folder / 'classes'}:{folder / 'jars'}/*", "Adapter"]


REMOTE: dict[str, Callable[[], RemoteProcess]] = {
    "python-sdk-1.3.1": lambda: RemoteProcess(False, _python),
    "node-sdk-1.5.3": lambda: RemoteProcess(True, _node),
    "java-sdk-1.7.0": lambda: RemoteProcess(False, _java),
}
ALL: dict[str, Callable[[], Backend]] = {"in-process": InProcess, **REMOTE}
