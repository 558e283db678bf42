"""A real MQTT broker, on a port that stays the same when it is started again."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE = 30.0


class Mosquitto:
    """A context manager. `settings` are further lines of its configuration file."""

    def __init__(self, directory: Path, settings: str = "allow_anonymous true") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._log = directory / "mosquitto.log"
        self._file = directory / "mosquitto.conf"
        self._file.write_text(f"listener {self.port} 127.0.0.1\n{settings}\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([program, "-c", str(self._file)], stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
