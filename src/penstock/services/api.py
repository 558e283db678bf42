"""The API port as a service: the application with the routes of all services, and the port that serves it.

It closes after everything else has drained, because it answers /ready and requests under way until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from penstock.config import Config
from penstock.kernel.ledger import Ledger
from penstock.monitor.api import build_api
from penstock.monitor.figures import Family
from penstock.monitor.health import ProbeAnswer
from penstock.services.listening import listening, renewed, shown
from penstock.services.port_figures import port_figures
from penstock.services.service import Listening, Service, Shown
from penstock.transport.asgi import AsgiPort
from penstock.transport.entrance import api_entrances

# Seconds that requests have to end when the server stops; a stream may have a reader who reads nothing.
LAST_REQUESTS = 3.0


class ApiService(Service):
    """Opened when all services that bring routes are open."""

    name = "api"

    def __init__(
        self,
        config: Config,
        others: Callable[[], Sequence[Service]],
        ready: Callable[[], ProbeAnswer],
        figures: Callable[[], Iterable[Family]],
        max_connections: int,
        ledger: Ledger,
    ) -> None:
        """`others` are services that may have routes and WebSockets at this port; `figures` are those of /metrics."""
        self.renewed = renewed(api_entrances(config))
        self._config = config
        self._others = others
        self._ready = ready
        self._figures = figures
        self._max_connections = max_connections
        self._ledger = ledger
        # There once it is open.
        self.port: AsgiPort | None = None

    async def open(self) -> None:
        application = build_api(self._ready, self._figures if self._config.api.metrics else None)
        take_over = None
        for service in self._others():
            service.mount(application)
            take_over = take_over or service.take_over()
        port = AsgiPort(self._config, application, self._max_connections, self._ledger, take_over)
        try:
            await port.listen()
        except BaseException:
            # Some listeners may be open when another is not.
            port.close()
            raise
        self.port = port

    async def close(self) -> None:
        if self.port is not None:
            await self.port.stop(LAST_REQUESTS)

    def figures(self) -> Iterable[Family]:
        return () if self.port is None else port_figures("api", self.port)

    @property
    def number(self) -> int:
        """Of the port that was really taken; 0 until it is open."""
        return 0 if self.port is None else self.port.ports[0]

    @property
    def address(self) -> str:
        """Of that port; only while it is open."""
        return self.listeners()[0].url

    def addresses(self) -> list[str]:
        return [f"api={self.address}"]

    def listeners(self) -> list[Listening]:
        return [] if self.port is None else listening(self.port)

    def certificates(self, config: Config) -> list[Shown]:
        return [] if self.port is None else shown(self.port, api_entrances(config))
