"""All simulated devices of one demo, on a thread with an event loop of its own: started and stopped with the server.

A process of their own would take 60 MB more for a few messages a second. What each device does is in its own module.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.config import Config
from penstock.config.checks import serves_ditto
from penstock.devices.controllers import control, registered
from penstock.devices.intersection import TOWN
from penstock.devices.things import ThingsClient, report
from penstock.log import get

if TYPE_CHECKING:
    from collections.abc import Sequence

log = get(__name__)

# Seconds that they have to end.
GRACE = 5.0


class Partner(Protocol):
    """What runs along with a server."""

    def start(self, api: str) -> None: ...
    def stop(self) -> None: ...


class Devices:
    """`start` when the server is ready, `stop` before it stops."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._begun = threading.Event()

    def start(self, api: str) -> None:
        """Returns at once."""
        self._thread = threading.Thread(target=self._live, args=(api,), name="demo devices", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when they are gone."""
        if self._thread is None:
            return
        self._begun.wait(GRACE)
        if self._loop is not None and self._task is not None:
            # The loop may have ended by itself.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(GRACE)

    def _live(self, api: str) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._run(api))

    async def _run(self, api: str) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._begun.set()
        works: list[Coroutine[Any, Any, None]] = []
        if serves_ditto(self._config):
            works.append(report(ThingsClient(api)))
        if self._config.tlex.enabled and self._config.demo.traffic:
            works += await self._controllers(api)
        await asyncio.gather(*works)

    async def _controllers(self, api: str) -> list[Coroutine[Any, Any, None]]:
        from penstock.client.tlex import TlexApi

        directory = Path(self._config.server.data_dir)
        try:
            token = await asyncio.to_thread(registered, self._config.tlex.store, directory, TOWN)
        except Exception as error:
            log.warning(
                "the demo has no traffic lights, because its controllers cannot be registered", reason=str(error)
            )
            return []
        client = TlexApi(api, token)
        return [control(each, client) for each in TOWN]


class Company:
    """Several that run along with one server: started in this order, stopped in the reverse one."""

    def __init__(self, members: Sequence[Partner]) -> None:
        self._members = members

    def start(self, api: str) -> None:
        for each in self._members:
            each.start(api)

    def stop(self) -> None:
        for each in reversed(self._members):
            each.stop()
