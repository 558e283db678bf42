"""One process of a server that has several: the hub, or an edge. Started by `penstock.cluster.supervisor` alone.

Its log goes to the supervisor, and it ends with it, however that ends. What the processes are made of is in
`penstock.server` (hub) and `penstock.services.cluster.edge`. Read next: `penstock.cluster.control`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from penstock import __version__
from penstock.adapters.outlive import run_to_end
from penstock.adapters.roster import Roster
from penstock.cluster.control import (
    HUB,
    LevelSet,
    ReloadDone,
    StopAsked,
    Word,
    Words,
    WorkerFailed,
    WorkerGivenUp,
    WorkerReady,
    WorkerTask,
    written,
)
from penstock.cluster.local import LocalEdge, LocalHub
from penstock.cluster.ports import Bystander
from penstock.config import ConfigError, Loaded, load
from penstock.config.loading import NOTHING
from penstock.durable import keep_to_owner
from penstock.log import LevelError, configure_levels, get, relay_to, set_level
from penstock.loop import new_loop
from penstock.process import left, serve_edge, serve_to_end
from penstock.server import Server
from penstock.services.cluster.edge import EdgeServer
from penstock.services.cluster.hub import HubPart
from penstock.services.demo import demo_defaults
from penstock.services.errors import StartError
from penstock.services.listening import planned
from penstock.transport.descriptors import raise_limit
from penstock.transport.entrance import stream_entrances

log = get("penstock.worker")

# Seconds that a worker has to end by itself when its supervisor is gone.
GRACE = 10.0

# See prctl(2): the signal that a process gets when its parent has ended.
PR_SET_PDEATHSIG = 1


class WorkerControl:
    """The worker's end of what connects it with its supervisor."""

    def __init__(self, descriptor: int) -> None:
        self._socket = _own(descriptor)
        self._words = Words()
        self._waiting: list[Word] = []

    def say(self, word: Word) -> None:
        # It may be gone; then this process ends as well.
        with contextlib.suppress(OSError):
            self._socket.sendall(written(word))

    def hear(self) -> Word | None:
        """The next word; waits for it. None: the supervisor is gone."""
        while not self._waiting:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                return None
            if not data:
                return None
            self._waiting += self._words.feed(data)
        return self._waiting.pop(0)


class HubFront:
    """The supervisor, as the hub's server sees it."""

    def __init__(self, control: WorkerControl, is_demo: bool, has_administrator: bool) -> None:
        self.is_demo = is_demo
        self.has_administrator = has_administrator
        self._control = control

    def ready(self, server: Server, administrator: str | None) -> None:
        ports = {each.name: each.port for service in server.services for each in service.listeners()}
        lines = [] if administrator is None else [administrator]
        named = server.named_addresses()
        self._control.say(WorkerReady(server.addresses(), named, ports, server.api_address, lines))

    async def before_stop(self) -> None:
        """What runs along with the server is the supervisor's."""

    def reloaded(self, loaded: Loaded) -> None:
        self._control.say(ReloadDone())

    def level_set(self, category: str, level: str | None) -> None:
        self._control.say(LevelSet(category, level))

    def asked_to_stop(self, stop: Callable[[], None]) -> None:
        self._control.say(StopAsked())


def main() -> None:
    # The name is there to be seen in a list of processes.
    _, _, control, lines = sys.argv
    sys.exit(work(WorkerControl(int(control)), _own(int(lines))))


def work(control: WorkerControl, lines: socket.socket) -> int:
    """Do what the first word says; returns the exit code."""
    task = control.hear()
    if not isinstance(task, WorkerTask):
        return 1
    _end_with(task.supervisor)
    # Shared with that thread.
    given_up = list(task.given_up)
    threading.Thread(target=_listen, args=(control, task.directory, given_up), name="control", daemon=True).start()
    keep_to_owner()
    # For what goes wrong before the configuration is known.
    configure_levels("info", {})
    relay_to(lines)
    try:
        loaded = load(
            None if task.path is None else Path(task.path),
            task.overrides,
            demo_defaults() if task.demo else NOTHING,
            source=None if task.source is None else task.source.encode(),
            ports=task.ports,
        )
        _open_log(task, loaded, lines)
        if task.name == HUB:
            _be_hub(task, loaded, control, given_up)
        else:
            _be_edge(task, loaded, control)
    except (ConfigError, StartError) as error:
        control.say(WorkerFailed(str(error)))
        return left(1)
    return left(0)


def _open_log(task: WorkerTask, loaded: Loaded, lines: socket.socket) -> None:
    section = loaded.config.log
    relay_to(lines, section.max_repeats)
    configure_levels(section.level, section.levels)
    for category, level in task.levels.items():
        set_level(category, level)


# -- the hub -----------------------------------------------------------------------------------------------------------


def _be_hub(task: WorkerTask, loaded: Loaded, control: WorkerControl, given_up: list[WorkerGivenUp]) -> None:
    # Later hubs have larger ones, because nobody sets the clock back between two of them.
    epoch = time.time_ns()
    stream = planned(stream_entrances(loaded.config))
    front = HubFront(control, task.demo, task.is_replacement)
    node = loaded.config.server.node

    def bystanders() -> list[Bystander]:
        return [
            Bystander(each.name, f"{node}-{each.name}", "edge", "given up", __version__, each.since)
            for each in given_up
        ]

    serve_to_end(loaded, front, HubPart(LocalHub(Path(task.directory)), epoch, stream, bystanders=bystanders))


# -- an edge -----------------------------------------------------------------------------------------------------------


def _be_edge(task: WorkerTask, loaded: Loaded, control: WorkerControl) -> None:
    raise_limit()
    run_to_end(_serve_edge(task, loaded, control), Roster(), new_loop)


async def _serve_edge(task: WorkerTask, loaded: Loaded, control: WorkerControl) -> None:
    directory = Path(task.directory)
    node = f"{loaded.config.server.node}-{task.name}"
    server = EdgeServer(loaded.config, node, LocalEdge(directory, node), directory, task.api_ports)

    def ready() -> None:
        control.say(WorkerReady(server.addresses(), server.named_addresses(), {}))

    await serve_edge(server, loaded, ready)


# -- the supervisor ----------------------------------------------------------------------------------------------------


def _own(descriptor: int) -> socket.socket:
    """Not for processes that adapters start."""
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


def _end_with(supervisor: int) -> None:
    """Have the system end this process with its supervisor, where it can; the end of the socket says it everywhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != supervisor:
            sys.exit(1)


def _listen(control: WorkerControl, directory: str, given_up: list[WorkerGivenUp]) -> None:
    """On a thread of its own: an event loop may be stuck."""
    while (word := control.hear()) is not None:
        if isinstance(word, LevelSet):
            with contextlib.suppress(LevelError):
                set_level(word.category, word.level)
        elif isinstance(word, WorkerGivenUp):
            given_up.append(word)
    shutil.rmtree(directory, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()
