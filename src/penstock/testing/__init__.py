"""The public testing kit: a clock the test moves, memory instead of sockets, sources and handlers driven by hand.

`Harness` puts them around a real kernel, `Peer` is a client of it, `Model` says naively what that client must see, and
`Meter` when it came. Nothing here opens a socket or waits; for a whole server see `penstock.server.Server`.
"""

from penstock.testing.channel import MemoryChannel
from penstock.testing.clock import Clock
from penstock.testing.hands import HandHandler, HandSource, ManualWaker
from penstock.testing.harness import Harness
from penstock.testing.meter import Meter, Setting
from penstock.testing.model import Model
from penstock.testing.peer import Peer
from penstock.testing.truth import TruthSource

__all__ = [
    "Clock",
    "HandHandler",
    "HandSource",
    "Harness",
    "ManualWaker",
    "MemoryChannel",
    "Meter",
    "Model",
    "Peer",
    "Setting",
    "TruthSource",
]
