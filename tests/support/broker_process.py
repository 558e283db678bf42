"""A real broker in a process of its own, on a port that stays the same when it is started again.

What all of them have in common: the port, the log, waiting for the first answer, and every way to end or stop it. What
a kind of broker adds is beside this file: `mosquitto`, `kafka_broker`, `nats_server`.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"

# Seconds. Most start in a tenth of one, Kafka in a few.
PATIENCE = 60.0

# Characters: the end of a log is what a failed test shows.
SHOWN = 4_000


# Below those that systems give to connections: one of the many that tests make could else get a port while a broker is
# still on its way to listen there. And above those that browsers refuse, such as 10080.
PORTS = range(11_000, 32_000)


def free_ports(count: int) -> list[int]:
    """All at once, so that no two of them are the same."""
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = SystemRandom().choice(PORTS)
            with suppress(OSError):
                stack.enter_context(socket.create_server((HOST, port)))
                found.append(port)
    return found


def free_port() -> int:
    return free_ports(1)[0]


class BrokerProcess(ABC):
    """A context manager; nothing of it is kept. `address` is what clients are given."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.address = f"{HOST}:{self.port}"
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """What is run."""

    def answers(self) -> bool:
        """Whether clients can use it by now."""
        try:
            socket.create_connection((HOST, self.port), 1.0).close()
        except OSError:
            return False
        return True

    def start(self) -> None:
        """Until it answers; again with what it had on its disk, if it was killed."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            assert self._process.poll() is None, f"it has ended: {self.log()}"
            assert time.monotonic() < deadline, f"it does not answer: {self.log()}"
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def freeze(self) -> None:
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running.send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        return self._running.pid

    def log(self) -> str:
        """The end of what it has said."""
        return self._log.read_text("utf-8", "replace")[-SHOWN:]

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it does not run"
        return self._process

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
