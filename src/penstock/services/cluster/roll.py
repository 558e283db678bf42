"""The roll of a hub's edges: which there are, since when, and what they said of themselves last, once a second.

Figures of a whole server are made of it (`penstock.services.sampling`), and its status. An edge that does not answer is
left out after a while; whether it is lost is decided in `hub`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator

from penstock.cluster.figures import decode_figures
from penstock.cluster.guests import Guests
from penstock.kernel.errors import Refusal
from penstock.kernel.ports import Clock
from penstock.log import get
from penstock.monitor.figures import Family, of_worker
from penstock.monitor.histogram import Histogram
from penstock.transport.episode import Episode
from penstock.wire.fabric.messages import FabricError, Hello

log = get(__name__)

# The call that edges answer by their figures.
FIGURES = "figures"

# Seconds that an edge has for its answer, and after which its last one is too old.
PATIENCE = 5.0
MAX_AGE = 5.0

# Seconds that a sample waits for answers.
PROMPT = 0.5


class EdgeEntry:
    """One edge that has been welcomed."""

    def __init__(self, hello: Hello, came: float) -> None:
        self.hello = hello
        # Seconds since 1970.
        self.came = came
        self.families: list[Family] = []
        # When it answered last, by the clock of the roll; None: not yet.
        self.answered: float | None = None
        # Seconds between the last question and its answer.
        self.lag: float | None = None
        self.asking: asyncio.Task[None] | None = None


class EdgeRoll:
    """By the names that the fabric has for edges. Lives on the event loop."""

    def __init__(self, node: str, guests: Guests, clock: Clock, wall: Callable[[], float] = time.time) -> None:
        """`node` is the hub's name: workers of one machine are called after it, which nobody needs to see."""
        self.entries: dict[str, EdgeEntry] = {}
        # Between questions and answers.
        self.lags = Histogram()
        self._node = node
        self._guests = guests
        self._clock = clock
        self._wall = wall
        self._silent = Episode(log, "an edge does not report its figures", "edges report their figures again")

    def came(self, edge: str, hello: Hello) -> None:
        found = self.entries.get(edge)
        if found is None or found.hello.run != hello.run:
            self.lost(edge)
            self.entries[edge] = EdgeEntry(hello, self._wall())

    def lost(self, edge: str) -> None:
        entry = self.entries.pop(edge, None)
        if entry is not None and entry.asking is not None:
            entry.asking.cancel()

    def close(self) -> None:
        for edge in list(self.entries):
            self.lost(edge)
        self._silent.close()

    async def refresh(self) -> None:
        """Once a second, before a sample is taken: what it is made of is then of one moment.

        Whoever has not answered the last time is neither asked again nor waited for before that is given up.
        """
        loop = asyncio.get_running_loop()
        asked = []
        for edge, entry in self.entries.items():
            if entry.asking is None or entry.asking.done():
                entry.asking = loop.create_task(self._ask(edge, entry))
                asked.append(entry.asking)
        if asked:
            await asyncio.wait(asked, timeout=PROMPT)

    async def _ask(self, edge: str, entry: EdgeEntry) -> None:
        begun = self._clock()
        try:
            families = decode_figures(await self._guests.ask(edge, FIGURES, None, PATIENCE))
        except (Refusal, FabricError) as error:
            self._silent.occurred(edge=edge, reason=str(error))
            return
        entry.answered = self._clock()
        entry.lag = entry.answered - begun
        entry.families = families
        self.lags.add(entry.lag)

    def is_fresh(self, entry: EdgeEntry) -> bool:
        """Whether it has answered lately."""
        return entry.answered is not None and self._clock() - entry.answered < MAX_AGE

    def named(self) -> Iterator[tuple[str, str, EdgeEntry]]:
        """Each edge by the fabric's name and by the one that people see: two nodes may be called alike. Always in the
        same order, w2 before w10.
        """
        nodes = Counter([entry.hello.node for entry in self.entries.values()])
        for edge, entry in sorted(self.entries.items(), key=lambda each: (len(each[0]), each[0])):
            node = entry.hello.node
            yield edge, node.removeprefix(f"{self._node}-") if nodes[node] == 1 else edge, entry

    def families(self) -> list[Family]:
        """Of all edges that answer, each sample with the name of its edge."""
        return [
            family
            for _, worker, entry in self.named()
            if self.is_fresh(entry)
            for family in of_worker(worker, entry.families)
        ]
