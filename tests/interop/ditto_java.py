"""A process with the published Java client of Eclipse Ditto in it; `java-ditto/Client.java` has its commands."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections import deque
from pathlib import Path
from typing import Any

from tests.interop.libraries import REPOSITORY, require
from tests.support.process import ServerProcess

FOLDER = REPOSITORY / ".interop/java-ditto"
VERSION = "2.4.0"


class Rejected(Exception):
    """The client's future has failed; the argument is what with."""


class JavaProcess:
    """Calls are answered one after another; events are kept."""

    def __init__(self, complaints: Path, server: ServerProcess) -> None:
        require(FOLDER / ".stamp")
        require(FOLDER / f"jars/ditto-client-{VERSION}.jar")
        self._complaints = complaints
        self._server = server
        self._numbers = itertools.count()
        self._events: dict[str, deque[Any]] = {}
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with complaints.open("w") as stderr:
            self._process = subprocess.Popen(
                ["java", *options, "-cp", f"{FOLDER / 'classes'}:{FOLDER / 'jars'}/*", "Client"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self._read() == {"ready": True}

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the client has ended: {self._complaints.read_text()}"
        return json.loads(line)

    def do(self, client: str, action: str, **details: Any) -> Any:
        """What the client's future came to; raises Rejected."""
        number = next(self._numbers)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": action, "client": client, **details}) + "\n")
        self._process.stdin.flush()
        while (found := self._read()).get("id") != number:
            self._keep(found)
        if "error" in found:
            raise Rejected(found["error"])
        return found["result"]

    def _keep(self, found: Any) -> None:
        self._events[found["client"]].append(found["event"])

    def open(self, name: str, user: str = "ditto", password: str = "ditto", **details: Any) -> JavaClient:
        self._events[name] = deque()
        address = f"ws://127.0.0.1:{self._server.api_port}"
        self.do(name, "open", address=address, user=user, password=password, **details)
        return JavaClient(self, name)

    def event(self, name: str) -> Any:
        """The next event of a client that watches or listens."""
        while not self._events[name]:
            self._keep(self._read())
        return self._events[name].popleft()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


class JavaClient:
    """One connection of the client."""

    def __init__(self, process: JavaProcess, name: str) -> None:
        self._process = process
        self._name = name

    def do(self, action: str, **details: Any) -> Any:
        return self._process.do(self._name, action, **details)

    def event(self) -> Any:
        return self._process.event(self._name)
