"""The streaming port as a service.

The protocols are in `penstock.doors.stream` and in the doors of the protocols on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path

from penstock.config import Config
from penstock.doors.gate import Gate
from penstock.doors.reception import OpenSet, Reception
from penstock.doors.stream.door import StreamDoor
from penstock.doors.text6.door import Text6Door
from penstock.doors.tlcp.door import TlcpDoor
from penstock.doors.tlcp.push import PushDesk
from penstock.monitor.figures import Family, counter
from penstock.monitor.health import ProbeAnswer
from penstock.services.kernel import KernelService
from penstock.services.listening import listening, renewed, shown
from penstock.services.port_figures import port_figures
from penstock.services.service import Listening, Service, Shown
from penstock.transport.entrance import STREAM, STREAM_TLS, stream_entrances
from penstock.transport.neighbours import Neighbours


class Listens(Enum):
    """Where the streaming port is: in this process alone, in several that share it, or only in others."""

    ALONE = "alone"
    TOGETHER = "together"
    NOWHERE = "nowhere"


class StreamService(Service):
    """Listens when everything behind it is there."""

    name = "stream"

    def __init__(
        self,
        config: Config,
        kernel: KernelService,
        sets: Mapping[str, OpenSet],
        ready: Callable[[], ProbeAnswer],
        max_connections: int,
        gate: Gate,
        desk: PushDesk | None = None,
        listens: Listens = Listens.ALONE,
        hand_directory: Path | None = None,
    ) -> None:
        """`desk` does what clients ask for about push notifications; None: they are disabled.

        `hand_directory` is where the workers of one server on this machine hand connections over to one another; None:
        there is only this one.
        """
        self.renewed = renewed(stream_entrances(config))
        self._kernel = kernel.kernel
        self._listens = listens
        self._neighbours = neighbours = (
            None if hand_directory is None else Neighbours(hand_directory, config.server.node)
        )
        self._reception = Reception(config, kernel.kernel, sets, gate, neighbours)
        self.tlcp = TlcpDoor(self._reception, desk)
        text6 = Text6Door(self._reception)
        self.door = StreamDoor(config, kernel.turns, self.tlcp, text6, ready, max_connections, gate, neighbours)

    async def open(self) -> None:
        if self._listens is Listens.NOWHERE:
            return
        try:
            await self.door.listen(shared=self._listens is Listens.TOGETHER)
        except BaseException:
            # Some listeners may be open when another is not.
            self.door.close()
            raise

    async def join(self, takes_part: bool) -> None:
        """Listen at the ports that others have as well, or leave them to those; sessions stay."""
        if takes_part:
            await self.door.come_back()
        else:
            self.door.leave()

    async def drain(self) -> None:
        """Ask every client to bind again, and wait until that is written."""
        await self.door.stop(self._kernel.stop)
        self._reception.close()

    def figures(self) -> Iterable[Family]:
        yield from port_figures("stream", self.door)
        if self._neighbours is not None:
            given, taken, relayed = self._neighbours.given, self._neighbours.taken, self._neighbours.relayed
            yield counter("penstock_hand_given", "Connections handed over to another worker.", given)
            yield counter("penstock_hand_taken", "Connections taken over from another worker.", taken)
            yield counter("penstock_hand_relayed", "Connections relayed to another worker, because of TLS.", relayed)

    def addresses(self) -> list[str]:
        names = {STREAM: "stream", STREAM_TLS: "tls"}
        return [f"{names[each.name]}={each.url}" for each in self.listeners() if each.name in names]

    def listeners(self) -> list[Listening]:
        return listening(self.door)

    def certificates(self, config: Config) -> list[Shown]:
        return shown(self.door, stream_entrances(config))
