"""A server of several processes as it is started: ports taken, a task for each worker, and what people are told.

How workers are started and replaced is in `penstock.cluster.supervisor`, what they do in `penstock.worker`. A server of
one process is in `penstock.process`, and has nothing of this.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.cluster.control import WorkerReady, WorkerTask
from penstock.cluster.supervisor import Supervisor
from penstock.config import Config, ConfigError, Loaded
from penstock.config.schema.tlex import TLEX_PORT, TLEX_TLS_PORT
from penstock.durable import keep_to_owner
from penstock.log import change_levels, get
from penstock.services.errors import StartError, start_errors
from penstock.services.listening import page_line
from penstock.services.log import open_log
from penstock.transport.entrance import api_entrances, stream_entrances
from penstock.transport.reservation import Reservation, SharedListener

if TYPE_CHECKING:
    from penstock.process import Beside

log = get(__name__)


def launch(loaded: Loaded, beside: Beside | None = None, *, names_page: bool = False) -> int:
    """Serve with as many workers as the configuration says until told to stop; returns the exit code."""
    keep_to_owner()
    try:
        open_log(loaded.config)
        with start_errors():
            reservation = Reservation(shared_listeners(loaded.config))
    except StartError as error:
        log.error("cannot start", reason=str(error))
        return 1
    # For its owner only; and in a short place, because the names of Unix sockets may not be long.
    with tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as directory:
        run = Launch(loaded, beside, names_page, reservation.ports, directory)
        try:
            return run.supervisor.run()
        finally:
            reservation.release()


class SharedPort(NamedTuple):
    """A listener that is not for HTTP."""

    name: str
    host: str
    port: int


def shared_listeners(config: Config) -> list[SharedListener]:
    """Those that workers have together: of the streaming port, and of TLEX."""
    found: list[SharedListener] = [*stream_entrances(config)]
    tlex = config.tlex
    if tlex.enabled:
        found.append(SharedPort(TLEX_PORT, tlex.host, tlex.port))
        if tlex.certificate:
            found.append(SharedPort(TLEX_TLS_PORT, tlex.host, tlex.tls_port))
    return found


class Launch:
    """One server of several processes."""

    def __init__(
        self, loaded: Loaded, beside: Beside | None, names_page: bool, ports: dict[str, int], directory: str
    ) -> None:
        self._loaded = loaded
        self._beside = beside
        self._names_page = names_page
        self._ports = ports
        self._directory = directory
        self.supervisor = Supervisor(
            loaded.config.server.workers, self._task_of, self._reloaded, self._all_ready, self._before_stop
        )

    def _task_of(self, name: str, hub_ports: dict[str, int]) -> WorkerTask:
        loaded = self._loaded
        api = [hub_ports[each.name] for each in api_entrances(loaded.config) if each.name in hub_ports]
        return WorkerTask(
            name=name,
            supervisor=os.getpid(),
            directory=self._directory,
            path=None if loaded.path is None else str(loaded.path),
            source=None if loaded.source is None else loaded.source.decode(),
            overrides={key: _plain(value) for key, value in loaded.overrides.items()},
            # A hub that takes the place of another has its ports.
            ports=hub_ports | self._ports,
            api_ports=api,
            demo=self._names_page,
            is_replacement=bool(hub_ports),
        )

    def _reloaded(self) -> None:
        """What is in force is what the hub has read a moment ago; workers that are replaced begin with it."""
        try:
            self._loaded = self._loaded.again()
        except ConfigError as error:
            log.warning("the configuration has changed again and is now invalid", reason=str(error))
            return
        change_levels(self._loaded.config.log.level, self._loaded.config.log.levels)

    def _all_ready(self, workers: Sequence[WorkerReady]) -> None:
        hub, edge = workers[0], workers[1]
        if self._names_page:
            print(page_line(self._loaded.config, self._ports["stream"]), flush=True)
        print("  ".join(["penstock: ready", *edge.addresses, *hub.addresses, *edge.named, *hub.named]), flush=True)
        for line in hub.lines:
            print(line, flush=True)
        if self._beside is not None:
            self._beside.start(hub.api)

    def _before_stop(self) -> None:
        if self._beside is not None:
            self._beside.stop()


def _plain(value: object) -> str | int | bool:
    """Options are text, or switches of commands."""
    assert isinstance(value, str | int | bool)
    return value
