"""The one place that wires everything: configuration to kernel, adapters, doors and the event loop, and the way down
again.

No rules of streaming and no protocol here.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import IO

import uvicorn
import uvloop

from penstock.adapters.api import AdapterSet
from penstock.adapters.demo import demo_sets
from penstock.adapters.running import RunningSet, StartFailure
from penstock.config import Config
from penstock.doors.reception import OpenSet, Reception
from penstock.doors.stream.door import ListenError, StreamDoor
from penstock.doors.stream.turns import Turns
from penstock.doors.text6.door import Text6Door
from penstock.doors.tlcp.door import TlcpDoor
from penstock.kernel.identity import SessionIds
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.log import configure, get
from penstock.monitor.api import build_api

log = get(__name__)


class StartError(Exception):
    """The server cannot start; the text is for the person who started it."""


def run(config: Config) -> int:
    """Serve until told to stop; returns the exit code of the process."""
    configure(config.log.level, config.log.format)
    try:
        with data_directory(Path(config.server.data_dir)):
            uvloop.run(_serve(config))
    except StartError as error:
        log.error("cannot start", reason=str(error))
        return 1
    return 0


async def _serve(config: Config) -> None:
    server = Server(config, demo_sets(config.demo.pace) if config.demo.enabled else [])
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = 0

    def stop() -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            log.warning("stopped at once")
            os._exit(1)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await server.start()
    print(server.ready_line(), flush=True)
    await stopped.wait()
    log.info("stopping", sessions=len(server.kernel.sessions))
    await server.stop()
    log.info("stopped")


class Server:
    """A whole server inside a running event loop; tests start it without a process."""

    def __init__(self, config: Config, sets: list[AdapterSet]) -> None:
        self.config = config
        self.turns = Turns(asyncio.get_running_loop())
        ids = SessionIds(config.server.node, os.urandom)
        self.kernel = Kernel(time.monotonic, self.turns, ids, session_limits(config))
        self.turns.run_kernel(self.kernel)
        self._running = [RunningSet(self.kernel, adapter_set) for adapter_set in sets]
        open_sets = {one.name: OpenSet(one.name, one.authority, one.authority) for one in self._running}
        reception = Reception(config, self.kernel, open_sets)
        self.tlcp = TlcpDoor(reception)
        self.stream = StreamDoor(config, self.turns, self.tlcp, Text6Door(reception), self.is_ready)
        self._api: uvicorn.Server | None = None
        self._api_task: asyncio.Task[None] | None = None
        self._api_port = 0
        self._ready = False

    def is_ready(self) -> bool:
        return self._ready and not self.stream.stopping

    async def start(self) -> None:
        """Start the adapters, then open the ports; raises StartError with the reason."""
        try:
            for running in self._running:
                await running.start()
        except StartFailure as failure:
            raise StartError(str(failure)) from failure
        try:
            await self.stream.listen()
        except ListenError as error:
            raise StartError(str(error)) from error
        await self._start_api()
        self._ready = True

    async def _start_api(self) -> None:
        api = self.config.api
        try:
            listener = _listener(api.host, api.port)
        except OSError as error:
            raise StartError(f"cannot listen on {api.host}:{api.port}: {error}") from error
        self._api_port = listener.getsockname()[1]
        settings = uvicorn.Config(
            build_api(self.is_ready),
            loop="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
        )
        self._api = _ApiServer(settings)
        self._api_task = asyncio.get_running_loop().create_task(self._api.serve(sockets=[listener]))
        while not self._api.started:
            if self._api_task.done():
                raise StartError("the API port did not open")
            await asyncio.sleep(0.005)

    @property
    def stream_ports(self) -> list[int]:
        return self.stream.ports

    @property
    def api_port(self) -> int:
        return self._api_port

    def ready_line(self) -> str:
        """What tells people and scripts where the server is."""
        stream = [f"stream=http://{_address(self.config.stream.host, self.stream_ports[0])}"]
        if len(self.stream_ports) > 1:
            stream.append(f"tls=https://{_address(self.config.stream.host, self.stream_ports[1])}")
        api = f"api=http://{_address(self.config.api.host, self.api_port)}"
        return "  ".join(["penstock: ready", *stream, api])

    async def stop(self) -> None:
        """Ask every client to bind again, close the ports, stop the adapters."""
        await self.stream.stop(self.kernel.stop)
        self.turns.stop()
        for running in self._running:
            await running.stop()
        if self._api is not None and self._api_task is not None:
            self._api.should_exit = True
            await self._api_task


class _ApiServer(uvicorn.Server):
    """uvicorn without its own signal handling: signals are the process's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def session_limits(config: Config) -> SessionLimits:
    """The kernel's limits carry the names of the configuration's keys."""
    known = {field.name for field in fields(SessionLimits)}
    found = {}
    for section in (config.session, config.limits):
        found.update({name: getattr(section, name) for name in section.__struct_fields__ if name in known})
    return SessionLimits(**found)


@contextlib.contextmanager
def data_directory(path: Path) -> Iterator[IO[str]]:
    """Make the data directory and hold it: a second process on the same one does not start."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / "lock").open("w")
    except OSError as error:
        raise StartError(f"the data directory {path} cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StartError(f"the data directory {path} is in use by another penstock process") from None
        yield lock


def _listener(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
