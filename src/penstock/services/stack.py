"""The stack: opens services one after the other, and ends those that are open in reverse order, whatever fails.

It knows nothing of what services do. What a service is: `service`; which there are: `penstock.server`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from penstock.log import get
from penstock.services.errors import start_errors
from penstock.services.service import Service

log = get(__name__)


class Stack:
    """`open` once, `close` once after it. Nothing is open after an `open` that has failed."""

    def __init__(self, layers: Sequence[Sequence[Service]]) -> None:
        """Layers in the order in which they open; the services of one layer drain at the same time."""
        self._layers = layers
        self._opened: list[list[Service]] = []

    @property
    def services(self) -> list[Service]:
        """All of them, in the order in which they open."""
        return [service for layer in self._layers for service in layer]

    async def check(self) -> list[str]:
        """Check all services and open none: what is wrong with what is optional. Raises what `open` would raise."""
        with start_errors():
            return [complaint for service in self.services for complaint in await service.check()]

    async def open(self) -> None:
        """Open all services; raises what one of them raises, with a note that names it."""
        for layer in self._layers:
            self._opened.append([])
            for service in layer:
                try:
                    with start_errors():
                        await service.open()
                except BaseException as error:
                    _blame(service, "open", error)
                    # The failures of others are in the log; the reason is this one.
                    await self._unwind()
                    raise
                self._opened[-1].append(service)

    async def close(self) -> None:
        """Drain all that is open, then close it. One that fails is logged and does not keep the others from ending;
        the first failure is raised in the end.
        """
        failures = await self._unwind()
        if failures:
            raise failures[0]

    async def _unwind(self) -> list[BaseException]:
        failures: list[BaseException] = []
        for layer in reversed(self._opened):
            try:
                outcomes = await asyncio.gather(*[_end(service, "drain", service.drain) for service in layer])
            except asyncio.CancelledError as error:
                failures.append(error)
            else:
                failures += [failure for failure in outcomes if failure is not None]
        while self._opened:
            layer = self._opened.pop()
            for service in reversed(layer):
                failure = await _end(service, "close", service.close)
                if failure is not None:
                    failures.append(failure)
        return failures


async def _end(service: Service, phase: str, end: Callable[[], Awaitable[None]]) -> BaseException | None:
    """What a phase of a service has raised, if anything; the log has it too."""
    try:
        await end()
    except BaseException as error:
        _blame(service, phase, error)
        log.raised("service failed during shutdown", error, service=service.name, phase=phase)
        return error
    return None


def _blame(service: Service, phase: str, error: BaseException) -> None:
    error.add_note(f"raised by the service {service.name} in its phase {phase}")
