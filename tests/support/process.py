"""A server process with a configuration file, to be stopped, killed and started again on the same ports.

It is forked with everything imported (`forge`): what a start from nothing does is shown by tests/e2e/test_process.py.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.broker_process import free_ports
from tests.support.forge import Forked

READY = re.compile(
    r"penstock: ready  stream=http://([\d.]+):(\d+)(?:  tls=https://[\d.]+:(\d+))?  api=https?://[\d.]+:(\d+)"
    r"(?:  tlex=[\d.]+:\d+)?"
)

# Seconds that a process may take to end: several times what it takes on a machine that has much other work.
PATIENCE = 45.0


class ServerProcess:
    """`penstock serve` with a configuration file in `directory`; used as a context manager."""

    def __init__(self, directory: Path, overrides: Mapping[str, object]) -> None:
        self.directory = directory
        # Not those that the system chooses: connections of others are given these as well, while it is killed.
        stream, api = free_ports(2)
        self._settings: dict[str, object] = {"stream.port": stream, "api.port": api, **overrides}
        self._process: Forked | None = None
        self.host = "127.0.0.1"
        self.port = 0
        self.tls_port = 0
        self.api_port = 0
        # The line that says that the server is ready.
        self.ready = ""

    def start(self) -> None:
        """Start and wait for the ready line; the ports stay the same."""
        configuration = self.directory / "penstock.toml"
        configuration.write_text(toml_of(self._settings))
        self.log_file = self.directory / "server.log"
        arguments = ["serve", "--config", str(configuration), "--data-dir", str(self.directory / "data")]
        with self.log_file.open("a") as log:
            self._process = Forked(arguments, stderr=log)
        line = self._process.stdout.readline()
        self.ready = line
        match = READY.match(line)
        assert match is not None, f"no ready line but {line!r}; log: {self.log}"
        self.port, self.api_port = int(match[2]), int(match[4])
        self.tls_port = int(match[3] or 0)
        self._settings["stream.port"] = self.port
        self._settings["api.port"] = self.api_port

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the process to end; its exit code."""
        assert self._process is not None
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._process.close()
            self._process = None
            raise
        self._process.close()
        self._process = None
        return code

    def stop(self) -> int:
        """Graceful stop."""
        self.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()


def toml_of(settings: Mapping[str, object]) -> str:
    lines = []
    for key, value in settings.items():
        if isinstance(value, bool):
            text = str(value).lower()
        elif isinstance(value, str):
            text = f'"{value}"'
        elif isinstance(value, list | tuple):
            text = "[" + ", ".join(f'"{entry}"' for entry in value) + "]"
        else:
            text = str(value)
        lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"
