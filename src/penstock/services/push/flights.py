"""Notifications on their way to their providers, each a task of its own, so that none waits for another.

Which are sent when is decided in `penstock.push.sending`; what follows from an answer is in `engine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from penstock.log import get
from penstock.push.ports import Handover, Provider, Verdict
from penstock.push.records import Device, Notification
from penstock.push.sending import ApplicationKey

log = get(__name__)

# Seconds that notifications on their way have to arrive when the server stops.
LAST_SENDS = 5.0


class Flights:
    """`clock` is in milliseconds since 1970; `landed` is called after each flight."""

    def __init__(
        self, providers: Mapping[ApplicationKey, Provider], clock: Callable[[], int], landed: Callable[[], None]
    ) -> None:
        self.providers = providers
        self._clock = clock
        self._landed = landed
        # With the device that each is about.
        self._tasks: dict[asyncio.Task[None], str] = {}

    def begin(self, device: str, work: Coroutine[Any, Any, None]) -> None:
        """Something about a device that takes its time."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = device
        task.add_done_callback(self._ended)

    def devices(self) -> set[str]:
        """Those that a flight is about."""
        return set(self._tasks.values())

    async def hand_over(self, notification: Notification, device: Device) -> Handover:
        """The provider's answer; never raises."""
        provider = self.providers.get((device.key.platform, device.key.application))
        if provider is None:
            return Handover(Verdict.RETRY, "the application is not configured any more")
        try:
            return await provider.send(device.key.token, notification, self._clock() / 1000)
        except Exception as error:
            log.exception("a provider has failed", application=device.key.application)
            return Handover(Verdict.RETRY, type(error).__name__)

    async def close(self) -> None:
        """Wait a little for what is on its way."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(list(self._tasks), timeout=LAST_SENDS)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._landed()
