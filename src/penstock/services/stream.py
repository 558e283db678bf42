"""The streaming port as a service.

The protocols are in `penstock.doors.stream` and in the doors of the protocols on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.config import Config
from penstock.config.address import address_of
from penstock.doors.gate import Gate
from penstock.doors.reception import Reception
from penstock.doors.stream.door import StreamDoor, certificate_files
from penstock.doors.text6.door import Text6Door
from penstock.doors.tlcp.door import TlcpDoor
from penstock.monitor.figures import Family
from penstock.monitor.health import Answer
from penstock.services.kernel import KernelService
from penstock.services.port_figures import port_figures
from penstock.services.service import Service, Shown
from penstock.services.sets import SetsService


class StreamService(Service):
    """Listens when everything behind it is there."""

    name = "stream"
    renewed = frozenset({"stream.tls.certificate", "stream.tls.private_key", "stream.tls.client_ca"})

    def __init__(
        self,
        config: Config,
        kernel: KernelService,
        sets: SetsService,
        ready: Callable[[], Answer],
        max_connections: int,
        gate: Gate,
    ) -> None:
        self._config = config
        self._kernel = kernel.kernel
        reception = Reception(config, kernel.kernel, sets.open_sets, gate)
        self.tlcp = TlcpDoor(reception)
        self.door = StreamDoor(config, kernel.turns, self.tlcp, Text6Door(reception), ready, max_connections)

    async def open(self) -> None:
        try:
            await self.door.listen()
        except BaseException:
            # The plain listener may be there when that with TLS is not.
            self.door.close()
            raise

    async def drain(self) -> None:
        """Ask every client to bind again, and wait until that is written."""
        await self.door.stop(self._kernel.stop)

    def figures(self) -> Iterable[Family]:
        return port_figures("stream", self.door)

    def addresses(self) -> list[str]:
        schemes = ("stream=http", "tls=https")
        return [
            f"{scheme}://{address_of(self._config.stream.host, port)}"
            for scheme, port in zip(schemes, self.door.ports, strict=False)
        ]

    def certificates(self, config: Config) -> list[Shown]:
        if self.door.certificate is None or not config.stream.tls.enabled:
            return []
        return [Shown("stream.tls", self.door.certificate, certificate_files(config.stream.tls))]
