"""A node of a cluster over NATS, as `[cluster]` says: a hub that is active or stands by, an edge, or both in one.

A hub with a lease opens nothing before it has it, and stops when it has lost it; then it stands by again. What nodes
are made of is in `penstock.server` and `penstock.services.cluster`. Read next: docs/cluster.md, "Many machines".
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from pathlib import Path

from penstock.adapters.outlive import run_to_end
from penstock.adapters.roster import Roster
from penstock.cluster.nats import NatsEdge, NatsHub
from penstock.cluster.nats_link import check_access
from penstock.cluster.standby import StandbyVoice
from penstock.cluster.tenure import Tenure
from penstock.config import Loaded
from penstock.durable import keep_to_owner
from penstock.log import get
from penstock.loop import new_loop
from penstock.process import Beside, Terminal, handle_signals, left, serve_edge, serve_until, start_unless
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
            while not (term := HubTerm(loaded, Terminal(beside, names_page))).serve():
                log.info("this hub stands by again")
            if term.rival is not None:
                raise StartError(f"the hub {term.rival!r} was started after this one, and there can be only one")
    except StartError as error:
        log.error("cannot start", reason=str(error))
        return left(1)
    return left(0)


def _check_access(loaded: Loaded) -> None:
    try:
        check_access(loaded.config.cluster)
    except OSError as error:
        raise StartError(str(error)) from None


async def _be_edge(loaded: Loaded) -> None:
    config = loaded.config
    node = config.server.node
    server = EdgeServer(config, node, NatsEdge(config.cluster, node, secrets.token_hex(8)))

    def ready() -> None:
        print("  ".join(["penstock: ready", *server.addresses(), *server.named_addresses()]), flush=True)

    await serve_edge(server, loaded, ready)


class HubTerm:
    """One time as a hub: standing by, active, and stopped."""

    def __init__(self, loaded: Loaded, front: Terminal) -> None:
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
            is_active = await start_unless(_taken(tenure), stopped)
            silent = asyncio.get_running_loop().create_task(voice.close())
            if not is_active:
                log.info("stopped while standing by")
                return
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


async def _taken(tenure: Tenure) -> None:
    await tenure.take()
