"""Fan-out: how many updates one server process delivers for each second of its processor.

A hundred items are published in turn, each subscriber takes ten of them. Updates are published as fast as the load
takes them in, at most `window` ahead, which bounds how many the server can put into one write.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.child import Child
from bench.machine import Cores
from bench.swarm import Feed, Member, Swarm
from bench.table import print_failures, print_table, row
from bench.workload import (
    ADAPTER_SET,
    DATA_ADAPTER,
    FIELDS,
    GROUPS,
    NOTE,
    item_name,
    items_of,
    value,
)
from penstock.wire.tlcp.values import decode_values

ABOUT = "updates delivered per second of the server's processor, beside a bare server that writes once per update"

FEED = Feed(ADAPTER_SET, DATA_ADAPTER, FIELDS, snapshot=False)

# After publishing has stopped, what is under way must arrive within this many seconds.
DRAIN_PATIENCE = 30.0

# Lists of values whose decoded form is remembered; all are forgotten when there are this many.
MAX_KNOWN = 100_000


class Tally:
    """What all subscribers together have received, and the acknowledgements that keep the server going."""

    def __init__(self, subscribers: int, acknowledge: Callable[[int], None]) -> None:
        self.delivered = 0
        # Every ten subscribers have all items once.
        self.per_publish = subscribers // GROUPS
        self._known: dict[bytes, tuple[int, int]] = {}
        self._acknowledge = acknowledge
        self._step = 0
        self._next = 0
        self._goal: int | None = None
        self._reached = asyncio.Event()

    def start(self, window: int) -> None:
        """Publishing begins; half of the window is acknowledged at a time."""
        self._step = max(1, window // 2) * self.per_publish
        self._next = self.delivered + self._step

    async def wait_for(self, delivered: int) -> None:
        """Return when so many have been delivered, or when patience is at its end."""
        self._goal = delivered
        self._check_goal()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reached.wait(), DRAIN_PATIENCE)

    def _check_goal(self) -> None:
        if self._goal is not None and self.delivered >= self._goal:
            self._reached.set()

    def add(self, count: int) -> None:
        self.delivered += count
        self._check_goal()
        if self.delivered >= self._next:
            self._next = self.delivered + self._step
            self._acknowledge(self.delivered // self.per_publish)

    def decode(self, values: bytes) -> tuple[int, int]:
        """Item and sequence of a list of values; raises ValueError if it is not one of the workload.

        Many subscribers get the same, so it is decoded once and then known.
        """
        found = self._known.get(values)
        if found is None:
            sequence, text, note = decode_values(values.decode(), ("", "", NOTE), len(FIELDS))
            if sequence is None or text is None:
                raise ValueError
            found = (int(text.partition(".")[0]), int(sequence))
            if text != value(*found) or note != NOTE:
                raise ValueError
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[values] = found
        return found


class Subscriber(Member):
    """Expects every update of each of its items, in order, none twice."""

    __slots__ = ("_numbers", "_tally", "sequences")

    def __init__(self, tally: Tally, numbers: Sequence[int]) -> None:
        super().__init__(FEED, [item_name(item) for item in numbers])
        self.sequences = [0] * len(numbers)
        self._numbers = numbers
        self._tally = tally

    def streamed(self, payload: bytes) -> None:
        lines = payload.split(b"\r\n")
        if lines.pop():
            self.failed("a message does not end at the end of a line")
        sequences = self.sequences
        count = 0
        for line in lines:
            if line == b"PROBE" or line.startswith(b"SYNC,"):
                continue
            try:
                tag, subscription, number, values = line.split(b",", 3)
                item, sequence = self._tally.decode(values)
                place = int(number) - 1
                is_right = tag == b"U" and subscription == b"1" and item == self._numbers[place]
            except Exception:
                is_right = False
            if not is_right:
                self.failed(f"not an update of the workload: {line[:80].decode('utf-8', 'replace')}")
                continue
            if sequence != sequences[place] + 1:
                self.failed("an update is missing, comes twice or out of order")
            sequences[place] = sequence
            count += 1
        self._tally.add(count)


@dataclass(frozen=True, slots=True)
class FanoutFigures:
    """One server's cost of delivering."""

    delivered: int
    per_cpu_second: float
    per_second: float
    per_write: float
    failures: Counter[str]


async def measure(child: Child, subscribers: int, window: int, seconds: float) -> FanoutFigures:
    """Subscribe, let the server publish for some seconds, check that every update has arrived."""
    tally = Tally(subscribers, lambda publishes: child.tell(f"acknowledged {publishes}"))
    swarm = Swarm(child.host, child.port, [Subscriber(tally, items_of(number)) for number in range(subscribers)])
    await swarm.open(0, subscribers)
    cpu = child.cpu_seconds()
    writes = child.writes()
    start = time.monotonic()
    tally.start(window)
    child.tell(f"window {window}")
    await asyncio.sleep(seconds)
    child.tell("stop")
    published = int(await asyncio.to_thread(child.read_line))
    expected = published * tally.per_publish
    await tally.wait_for(expected)
    duration = time.monotonic() - start
    cpu = child.cpu_seconds() - cpu
    writes = child.writes() - writes
    await swarm.leave()
    failures = swarm.failures()
    if tally.delivered != expected:
        failures[f"{tally.delivered:,} updates delivered of {expected:,}"] += 1
    return FanoutFigures(
        delivered=tally.delivered,
        per_cpu_second=tally.delivered / cpu,
        per_second=tally.delivered / duration,
        per_write=tally.delivered / writes,
        failures=failures,
    )


def server(directory: Path, core: int | None) -> Child:
    return Child(directory, core, "bench.server")


def baseline(directory: Path, core: int | None) -> Child:
    return Child(directory, core, "bench.baseline", "fanout")


async def compare(subscribers: int, window: int, seconds: float, cores: Cores) -> tuple[FanoutFigures, FanoutFigures]:
    """The server, then the baseline, one after the other on the same core."""
    figures = []
    starters: tuple[Callable[[Path, int | None], Child], ...] = (server, baseline)
    for start in starters:
        with tempfile.TemporaryDirectory() as directory, start(Path(directory), cores.server) as child:
            figures.append(await measure(child, subscribers, window, seconds))
    return figures[0], figures[1]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--subscribers",
        type=_tens,
        nargs="+",
        default=[100, 1000],
        help="how many clients, in tens; several numbers are measured one after the other (default 100 1000)",
    )
    parser.add_argument(
        "--windows", type=int, nargs="+", default=[100, 1000], help="updates under way at the most (default 100 1000)"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement (default %(default)s)")


def _tens(text: str) -> int:
    number = int(text)
    if number < GROUPS or number % GROUPS:
        raise argparse.ArgumentTypeError(f"{number} is not a multiple of {GROUPS}")
    return number


def connections(options: argparse.Namespace) -> int:
    return int(max(options.subscribers))


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and print; False when an update was wrong, missing or late."""
    good = True
    for subscribers in options.subscribers:
        for window in options.windows:
            ours, theirs = await compare(subscribers, window, options.seconds, cores)
            print_table(
                f"{subscribers:,} subscribers, window {window:,}, {options.seconds:g} s",
                ("penstock", "bare", "ratio"),
                (
                    row("updates per second of processor", ours.per_cpu_second, theirs.per_cpu_second, ",.0f"),
                    row("updates per second", ours.per_second, theirs.per_second, ",.0f"),
                    row("updates per system call", ours.per_write, theirs.per_write, ".1f"),
                ),
            )
            print_failures("penstock", ours.failures)
            print_failures("bare", theirs.failures)
            good = good and not ours.failures and not theirs.failures
    return good
