"""A worker in a process of its own, to be killed and frozen; started with its name and the directory that all share.

In the test process it is a `WorkerProcess`, used as a context manager.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import uvloop

from penstock.adapters import AdapterSet
from penstock.config import load
from penstock.server import Server
from tests.support.background import HandAdapter, HandMetadata
from tests.support.raw import Exchange
from tests.support.tls import TLS, trusting_context


class WorkerProcess:
    """`exchange` and `secure_exchange` are where it listens."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.worker_process", name, str(directory)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        plain, secure = map(int, self._process.stdout.readline().split())
        self.exchange = Exchange("127.0.0.1", plain)
        self.secure_exchange = Exchange("127.0.0.1", secure, trusting_context())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        # Sent is not stopped.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))


async def _serve(name: str, directory: Path) -> None:
    settings = {"server.node": name, "stream.port": 0, "api.port": 0, "log.level": "error", **TLS}
    adapter = HandAdapter()
    sets = [AdapterSet("TEST", HandMetadata(), {"DEFAULT": adapter})]
    server = Server(load(None, settings).config, sets, hand_directory=directory)
    await server.start()
    print(*server.stream_ports, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], Path(sys.argv[2])))
