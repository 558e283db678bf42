"""The process around a server: what it tells whoever has started it, signals, reloads, and its exit code.

What a server is made of is in `server`; several processes that are one server are in `launch`, `worker` and `member`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from penstock import BUILD, __version__
from penstock.adapters.loading import Loader
from penstock.adapters.outlive import run_to_end
from penstock.adapters.roster import Roster
from penstock.collector import settle
from penstock.config import ConfigError, Loaded
from penstock.config.loading import WITHOUT_JOURNAL
from penstock.durable import keep_to_owner
from penstock.log import change_levels, get, reopen
from penstock.loop import new_loop
from penstock.server import Server
from penstock.services.admin.demo import demo_administrator, demo_users
from penstock.services.admin.steering import ProcessHandle, Reloaded
from penstock.services.cluster.edge import EdgeServer
from penstock.services.cluster.hub import HubPart
from penstock.services.data_directory import data_directory
from penstock.services.errors import StartError
from penstock.services.journal import check_extras
from penstock.services.log import open_log
from penstock.terminal import reader_left
from penstock.transport.descriptors import raise_limit

# One category for all that people read about a server as a whole.
log = get("penstock.server")

# Seconds that threads of adapters have to end after everything else.
LAST_THREADS = 1.0


class Beside(Protocol):
    """What runs along with a server: started when that is ready, stopped before it stops."""

    def start(self, api: str) -> None: ...
    def stop(self) -> None: ...


class Front(Protocol):
    """Who has started a server, and hears how it goes."""

    # Whether it is the demo, which has an administrator of its own; and whether that was told to people by a server
    # whose place this one takes.
    is_demo: bool
    has_administrator: bool

    def ready(self, server: Server, administrator: str | None) -> None:
        """It is ready; the second is what to tell the person who has started it of its administrator."""

    async def before_stop(self) -> None: ...
    def reloaded(self, loaded: Loaded) -> None:
        """The server has taken over this configuration."""

    def level_set(self, category: str, level: str | None) -> None: ...
    def asked_to_stop(self, stop: Callable[[], None]) -> None:
        """An administrator wants the server to stop, whichever processes it has; `stop` stops this one."""


class Terminal:
    """The person who has typed the command is told on standard output."""

    def __init__(self, beside: Beside | None, is_demo: bool) -> None:
        self.is_demo = is_demo
        self.has_administrator = False
        self._beside = beside

    def ready(self, server: Server, administrator: str | None) -> None:
        if self.is_demo:
            _say(server.page_line())
        _say(server.ready_line())
        if administrator is not None:
            _say(administrator)
        if self._beside is not None:
            self._beside.start(server.api_address)

    async def before_stop(self) -> None:
        if self._beside is not None:
            await asyncio.to_thread(self._beside.stop)

    def reloaded(self, loaded: Loaded) -> None:
        """The log has it."""

    def level_set(self, category: str, level: str | None) -> None:
        """Edges of other machines hear of it from the hub."""

    def asked_to_stop(self, stop: Callable[[], None]) -> None:
        stop()


def _say(line: str) -> None:
    """Who has closed the output, or has filled the disk that it is on, still has a server."""
    try:
        print(line, flush=True)
    except OSError as error:
        reader_left()
        log.warning("the output cannot be written; the server runs", reason=error.strerror)


def run(loaded: Loaded, beside: Beside | None = None, *, names_page: bool = False) -> int:
    """Serve until told to stop; returns the exit code of the process. `names_page` prints the page's address."""
    config = loaded.config
    # Also for what libraries make, such as the database, and for what adapters keep.
    keep_to_owner()
    try:
        open_log(config)
        serve_to_end(loaded, Terminal(beside, names_page))
    except StartError as error:
        log.error("cannot start", reason=str(error))
        return left(1)
    return left(0)


def serve_to_end(loaded: Loaded, front: Front, hub: HubPart | None = None) -> None:
    """Serve on a loop of its own until told to stop; raises StartError."""
    raise_limit()
    with data_directory(Path(loaded.config.server.data_dir)):
        roster = Roster()
        run_to_end(_serve(loaded, front, roster, hub), roster, new_loop)


async def serve_edge(server: EdgeServer, loaded: Loaded, ready: Callable[[], None]) -> None:
    """Serve as an edge until told to stop by a signal. Raises StartError."""
    stopped, reload_asked = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    handle_signals(loop, stopped, reload_asked)
    server.stop_by(stopped.set)
    if not await start_unless(server.start(), stopped):
        log.info("stopped before it was ready")
        return
    reloads = loop.create_task(reload_when_asked(partial(_reload_edge, server, loaded), reload_asked))
    settle()
    log.info("started", version=__version__, build=str(BUILD))
    ready()
    await stopped.wait()
    reloads.cancel()
    await asyncio.wait([reloads])
    log.info("stopping", sessions=len(server.kernel.sessions))
    await server.stop()
    log.info("stopped")


async def _reload_edge(server: EdgeServer, loaded: Loaded) -> None:
    """The hub has accepted it, and tells of adapter sets."""
    found = await asyncio.to_thread(loaded.again)
    await server.reload(found.config)
    change_levels(found.config.log.level, found.config.log.levels)


def left(code: int) -> int:
    """The exit code. If adapters keep threads busy the process ends here, because Python would wait for ever."""
    deadline = time.monotonic() + LAST_THREADS
    busy = [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
    for thread in busy:
        thread.join(max(0.0, deadline - time.monotonic()))
    if left := [thread.name for thread in busy if thread.is_alive()]:
        log.warning("exiting although threads are still busy", threads=left)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


async def _serve(loaded: Loaded, front: Front, roster: Roster, hub: HubPart | None) -> None:
    stopped, reload_asked = asyncio.Event(), asyncio.Event()
    handle_signals(asyncio.get_running_loop(), stopped, reload_asked)
    await serve_until(stopped, reload_asked, loaded, front, roster, hub)


async def serve_until(
    stopped: asyncio.Event,
    reload_asked: asyncio.Event,
    loaded: Loaded,
    front: Front,
    roster: Roster,
    hub: HubPart | None,
) -> None:
    """Serve until the first is set; the configuration is read again when the second is. Raises StartError."""
    loop = asyncio.get_running_loop()
    data_dir = Path(loaded.config.server.data_dir)
    check_extras(loaded)
    loader = Loader(loaded.directory, loaded.place)
    administrator, users = None, None
    if front.is_demo and not loaded.config.admin.users:
        users = demo_users(data_dir)
        if not front.has_administrator:
            administrator = await asyncio.to_thread(demo_administrator, data_dir)
    server = Server(loaded.config, [], loader, data_dir, roster, loaded.origins, users, hub)
    if not await start_unless(server.start(), stopped):
        log.info("stopped before it was ready")
        return
    reload = Reloader(server, loaded, front)
    server.steering.process = ProcessHandle(reload, partial(front.asked_to_stop, stopped.set), front.level_set)
    reloads = loop.create_task(reload_when_asked(reload, reload_asked))
    settle()
    log.info("started", version=__version__, build=str(BUILD))
    if loaded.origins["journal.enabled"] == WITHOUT_JOURNAL:
        log.info("there is no journal, because its extra is not installed: pip install 'penstock[journal]'")
    front.ready(server, None if administrator is None else administrator.line())
    await stopped.wait()
    await front.before_stop()
    reloads.cancel()
    await asyncio.wait([reloads])
    log.info("stopping", sessions=len(server.kernel.sessions))
    await server.stop()
    log.info("stopped")


def handle_signals(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event, reload_asked: asyncio.Event) -> None:
    """SIGTERM and SIGINT stop the server, a second one immediately; SIGHUP reads the configuration again.

    Not by `loop.add_signal_handler`: that waits for the loop's next turn, which may never come when an adapter blocks
    it, and loses signals in the moment after an adapter has stopped the loop (adapters/outlive.py).
    """
    signals = 0

    def tell(event: asyncio.Event) -> None:
        # During shutdown the loop may be closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(event.set)

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            # The log may be in the middle of a line, and is not reentrant.
            with contextlib.suppress(RuntimeError):
                log.warning("stopped immediately")
            os._exit(1)
        tell(stopped)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, lambda number, frame: tell(reload_asked))


async def start_unless(starting: Coroutine[Any, Any, None], stopped: asyncio.Event) -> bool:
    """Start a server; False if it is told to stop before that is done, because adapters may take long to start."""
    loop = asyncio.get_running_loop()
    start, stop = loop.create_task(starting), loop.create_task(stopped.wait())
    await asyncio.wait([start, stop], return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not start.done():
        start.cancel()
        await asyncio.wait([start])
        return False
    await start
    return True


class Reloader:
    """Reads the configuration again and has the server take it over; who asks meanwhile waits for the next time."""

    def __init__(self, server: Server, loaded: Loaded, front: Front) -> None:
        self._server = server
        self._loaded = loaded
        self._front = front
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> Reloaded:
        """Raises ConfigError before anything has changed."""
        async with self._one_at_a_time:
            found = await asyncio.to_thread(self._loaded.again)
            reloaded = await self._server.reload(found.config)
            change_levels(found.config.log.level, found.config.log.levels)
            if self._server.hub is not None:
                # Some of those that were set may be no more.
                self._server.hub.spread_levels()
            self._front.reloaded(found)
            return reloaded


async def reload_when_asked(reload: Callable[[], Awaitable[object]], asked: asyncio.Event) -> None:
    while True:
        await asked.wait()
        asked.clear()
        # First, and whatever is wrong with the configuration: who has moved the file waits for that.
        await asyncio.to_thread(reopen)
        try:
            await reload()
        except ConfigError as error:
            log.error("new configuration rejected, the old one stays in force", reason=str(error))
        except Exception:
            log.exception("reload failed")
