"""A node of a cluster over NATS, as `[cluster]` says: a hub that is active or stands by, an edge, or both in one.

A hub with a lease opens nothing before it has it, and stops when it has lost it; then it stands by again. It may stand
by for months, so it reads the configuration when it takes over, not when its process starts. What nodes are made of is
in `penstock.server` and `penstock.services.cluster`. Read next: docs/cluster.md, "Many machines".
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
import time
from pathlib import Path

from msgspec.structs import replace

from penstock.adapters.loading import Loader
from penstock.adapters.outlive import run_to_end
from penstock.adapters.roster import Roster
from penstock.cluster.nats import NatsEdge, NatsHub
from penstock.cluster.nats_link import check_access
from penstock.cluster.standby import StandbyVoice
from penstock.cluster.tenure import Tenure
from penstock.config import Config, ConfigError, Loaded
from penstock.config.keys import all_keys, value_of
from penstock.config.schema.server import ServerSection
from penstock.durable import keep_to_owner
from penstock.log import change_levels, get
from penstock.loop import new_loop
from penstock.process import (
    Beside,
    Terminal,
    handle_signals,
    left,
    reload_when_asked,
    serve_edge,
    serve_until,
    start_unless,
)
from penstock.services.cluster.edge import EdgeServer
from penstock.services.cluster.hub import HubPart
from penstock.services.data_directory import data_directory
from penstock.services.errors import StartError
from penstock.services.log import open_log
from penstock.services.service import Listening
from penstock.transport.descriptors import raise_limit

log = get(__name__)


def join(loaded: Loaded, beside: Beside | None = None, *, names_page: bool = False) -> int:
    """Serve as a part of the cluster until told to stop; returns the exit code of the process."""
    keep_to_owner()
    try:
        open_log(loaded.config)
        raise_limit()
        _check_access(loaded)
        if loaded.config.cluster.role == "edge":
            run_to_end(_be_edge(loaded), Roster(), new_loop)
        else:
            while not (term := HubTerm(loaded, TermFront(beside, names_page))).serve():
                loaded = term.latest()
                log.info("this hub stands by again")
            if term.rival is not None:
                log.error("stopped because of another hub", hub=term.rival, reason=_only_one(term.rival, loaded.config))
                return left(1)
    except StartError as error:
        log.error("cannot start", reason=str(error))
        return left(1)
    return left(0)


def _check_access(loaded: Loaded) -> None:
    try:
        check_access(loaded.config.cluster)
    except OSError as error:
        raise StartError(str(error)) from None


def _only_one(rival: str, config: Config) -> str:
    """Why a hub without a lease gives way."""
    reason = "it was started after this one, and without cluster.store there can be only one hub in a cluster"
    if rival == config.server.node:
        default = ServerSection().node
        reason += f"; both are called {rival}: server.node is the name of a node, by default {default}"
    return reason


async def _be_edge(loaded: Loaded) -> None:
    config = loaded.config
    node = config.server.node
    server = EdgeServer(config, node, NatsEdge(config.cluster, node, secrets.token_hex(8)))

    def ready() -> None:
        print("  ".join(["penstock: ready", *server.addresses(), *server.named_addresses()]), flush=True)

    await serve_edge(server, loaded, ready)


class TermFront(Terminal):
    """Keeps what a reload has read: the next time as a hub may begin with it."""

    def __init__(self, beside: Beside | None, is_demo: bool) -> None:
        super().__init__(beside, is_demo)
        self.read: Loaded | None = None

    def reloaded(self, loaded: Loaded) -> None:
        self.read = loaded


class HubTerm:
    """One time as a hub: standing by, active, and stopped."""

    def __init__(self, loaded: Loaded, front: TermFront) -> None:
        self._loaded = loaded
        self._front = front
        self._section = loaded.config.cluster
        self._run = secrets.token_hex(8)
        self._is_ousted = False
        # Another hub that has come after this one, if no lease says whose turn it is.
        self.rival: str | None = None

    def serve(self) -> bool:
        """Until told to stop; False if another is active now, or may be. Raises StartError."""
        roster = Roster()
        run_to_end(self._serve(roster), roster, new_loop)
        return not self._is_ousted

    def latest(self) -> Loaded:
        """The configuration that was read last, of those that could be used."""
        read = self._front.read
        return self._loaded if read is None else _as_started(read, self._loaded.config)

    async def _serve(self, roster: Roster) -> None:
        stopped, reload_asked = asyncio.Event(), asyncio.Event()
        handle_signals(asyncio.get_running_loop(), stopped, reload_asked)
        if not self._section.store:
            with self._directory():
                # Later hubs have larger ones, because nobody sets the clock back between two of them.
                part = self._part(time.time_ns(), stopped)
                await serve_until(stopped, reload_asked, self._loaded, self._front, roster, part)
            return

        def ended(why: str) -> None:
            self._is_ousted = True
            stopped.set()

        node = self._loaded.config.server.node
        voice = StandbyVoice(self._section, node, self._run)
        tenure = Tenure(self._section, node, self._run, ended, voice.say)
        # Beside what follows: nobody waits for this hub any longer because NATS is slow.
        silent: asyncio.Task[None] | None = None
        try:
            is_active = await self._stand_by(tenure, stopped, reload_asked)
            silent = asyncio.get_running_loop().create_task(voice.close())
            if not is_active:
                log.info("stopped while standing by")
                return
            await self._take_over(reload_asked)
            with self._directory():
                part = self._part(tenure.epoch, stopped, tenure)
                await serve_until(stopped, reload_asked, self._loaded, self._front, roster, part)
        except Exception as error:
            # Whoever wanted to write something at the end could not, because it is another's by now.
            if not self._is_ousted:
                raise
            log.warning("this hub did not shut down properly", reason=f"{type(error).__name__}: {error}")
        finally:
            await tenure.close()
            if silent is not None:
                await silent

    # -- the configuration ----------------------------------------------------------------------------------------

    async def _stand_by(self, tenure: Tenure, stopped: asyncio.Event, reload_asked: asyncio.Event) -> bool:
        """Until it is this hub's turn; False if it is told to stop before."""
        reloads = asyncio.get_running_loop().create_task(reload_when_asked(self._reload, reload_asked))
        try:
            return await start_unless(_taken(tenure), stopped)
        finally:
            reloads.cancel()
            await asyncio.wait([reloads])

    async def _reload(self) -> None:
        """While it stands by. Raises ConfigError."""
        await self._read_again()
        log.info("configuration read; it takes effect when this hub is active")

    async def _take_over(self, reload_asked: asyncio.Event) -> None:
        """With the configuration as it is now. Whoever has just asked for that has it."""
        reload_asked.clear()
        try:
            await self._read_again()
        except ConfigError as error:
            log.error("configuration rejected, the last valid one is used", reason=str(error))

    async def _read_again(self) -> None:
        """Raises ConfigError; then it stays as it was."""
        found = await asyncio.to_thread(_read, self._loaded)
        self._loaded = _as_started(found, self._loaded.config)
        fixed = [key for key in all_keys() if value_of(found.config, key) != value_of(self._loaded.config, key)]
        if fixed:
            log.warning("changes need a restart", keys=fixed)
        change_levels(found.config.log.level, found.config.log.levels)

    # -- what it is made of ---------------------------------------------------------------------------------------

    def _directory(self) -> contextlib.AbstractContextManager[None]:
        path = Path(self._loaded.config.server.data_dir)
        return data_directory(path, is_leased=bool(self._section.store))

    def _part(self, epoch: int, stopped: asyncio.Event, tenure: Tenure | None = None) -> HubPart:
        from penstock.journal.fence import Fence  # takes its time to load, and edges need none

        def superseded(node: str, epoch: int) -> None:
            if self._section.store:
                self._is_ousted = True
            else:
                self.rival = node
            stopped.set()

        node = self._loaded.config.server.node
        stream: list[Listening] | None = None if self._section.role == "both" else []
        if tenure is None:
            return HubPart(
                NatsHub(self._section, node, self._run, superseded=superseded), epoch, stream, tells_levels=True
            )
        is_owner = tenure.is_owner
        fabric = NatsHub(self._section, node, self._run, is_owner=is_owner, superseded=superseded, is_leased=True)
        fence = Fence(epoch, is_owner)
        return HubPart(fabric, epoch, stream, fence, tenure.lease, fabric.standbys.bystanders, tells_levels=True)


def _read(before: Loaded) -> Loaded:
    """The same file as it is now. Blocks. Raises ConfigError, also for an adapter that cannot be made."""
    found = before.again()
    loader = Loader(found.directory, found.place)
    for name, table in found.config.adapters.items():
        if before.config.adapters.get(name) != table:
            # As a reload would do: a hub that cannot start with it would leave the cluster without one.
            loader.load(name, table)
    return found


def _as_started(found: Loaded, started: Config) -> Loaded:
    """But for what only a restart of the process changes: whom it is in the cluster, and where its log goes."""
    config = found.config
    section = replace(started.log, level=config.log.level, levels=config.log.levels)
    server = replace(config.server, node=started.server.node)
    kept = replace(config, cluster=started.cluster, server=server, log=section)
    return dataclasses.replace(found, config=kept)


async def _taken(tenure: Tenure) -> None:
    await tenure.take()
