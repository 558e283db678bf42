"""What sessions, updates and events cost, measured at a hub with two edges: the numbers that `capacity` counts with.

Each cost is told apart from the others by two runs that differ in it: updates alone in a write and fifty in one, few
events in a message and many in one, idle sessions and none.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.rig import meter
from bench.rig.capacity import Costs
from bench.rig.child import ChildError, WorkersProgram
from bench.rig.crossing import EDGES, Crossing, Fabric, cross, woven
from bench.rig.load import Load, Run
from bench.rig.machine import Cores, facts

ITEMS, EACH = 100, 10

# Events a second that come two or three to a message, and that come many to a message. Not fewer: a message costs a hub
# the more the longer it has done nothing before (188 µs at 177 messages a second, 157 at 622), and a hub that has to be
# planned for is not idle.
SELDOM, OFTEN = 2_000.0, 20_000.0

# Seconds from the last session opened until memory and idleness are measured.
SETTLING = 6.0


@dataclass(frozen=True, slots=True)
class Used:
    """CPU-seconds and bytes of memory, of the hub and of all edges together; and writes of the hub."""

    hub: float
    edges: float
    hub_memory: int
    edge_memory: int
    hub_writes: int

    def since(self, before: Used) -> Used:
        return Used(
            self.hub - before.hub,
            self.edges - before.edges,
            self.hub_memory - before.hub_memory,
            self.edge_memory - before.edge_memory,
            self.hub_writes - before.hub_writes,
        )


def used(program: WorkersProgram) -> Used:
    hub, edges = program.process_id, program.edges()
    return Used(
        meter.cpu_seconds(hub),
        sum([meter.cpu_seconds(edge) for edge in edges]),
        meter.memory(hub),
        sum([meter.memory(edge) for edge in edges]),
        meter.writes(hub),
    )


@dataclass(frozen=True, slots=True)
class Size:
    """A load: sessions, and updates a second that are published, over how many items."""

    sessions: int
    rate: float
    items: int = ITEMS

    @property
    def each(self) -> int:
        return min(EACH, self.items)


@dataclass(frozen=True, slots=True)
class Observed:
    """Of one size: before any session, by opening them, while they were idle, at its rate, and at saturation."""

    size: Size
    base: Used
    unused: Used
    opening: Used
    idle: Used
    paced: Used
    full: Used
    unused_seconds: float
    idle_run: Run
    paced_run: Run
    full_run: Run | None

    @property
    def failures(self) -> list[str]:
        runs = [self.paced_run] if self.full_run is None else [self.paced_run, self.full_run]
        return [run.failure for run in runs if run.failure]


def observe(size: Size, seconds: float, settling: float, cores: Cores, *, window: int = 0) -> Observed:
    """Raises ChildError if it does not start, or a session does not open."""
    options = {"conflated": True, "subscribers": size.sessions, "items": size.items, "each": size.each}
    with tempfile.TemporaryDirectory() as directory, WorkersProgram(Path(directory), EDGES) as program:
        base, began = used(program), time.monotonic()
        time.sleep(seconds)
        unused, unused_seconds = used(program).since(base), time.monotonic() - began
        base = used(program)
        with Load(program, "tlcp", cores.load, options) as load:
            if load.opened.failure:
                raise ChildError(load.opened.failure)
            opening = used(program).since(base)
            load.idle(settling)
            before = used(program)
            quiet = load.idle(seconds)
            settled = used(program)
            # Memory is what all of the sessions have added.
            grown = settled.since(base)
            idle = replace(settled.since(before), hub_memory=grown.hub_memory, edge_memory=grown.edge_memory)
            load.rate(size.rate, 0.5)
            before = used(program)
            paced_run = load.rate(size.rate, seconds)
            paced = used(program).since(before)
            full, full_run = paced, None
            if window:
                load.window(window, 0.5)
                before = used(program)
                full_run = load.window(window, seconds)
                full = used(program).since(before)
        return Observed(size, base, unused, opening, idle, paced, full, unused_seconds, quiet, paced_run, full_run)


# -- the fabric --------------------------------------------------------------------------------------------------------


def crossing(fabric: Fabric, rate: float, seconds: float) -> Crossing:
    """At a pace. Raises ChildError if an event is lost."""
    found = cross(fabric, rate, seconds)
    if found.lost or found.wrong:
        raise ChildError(f"{found.lost} events did not cross; {found.wrong}")
    return found


@dataclass(frozen=True, slots=True)
class FabricCosts:
    """Microseconds for an event and for a message over NATS, at the hub, an edge, and NATS for an edge; bytes of both.

    Without what the hub's publisher takes for looking at the clock.
    """

    hub: tuple[float, float]
    edge: tuple[float, float]
    nats: tuple[float, float]
    size: tuple[float, float]


def apart(few: tuple[float, float, float], many: tuple[float, float, float]) -> tuple[float, float]:
    """Of two runs with events, messages and a sum: what an event and what a message adds to it."""
    events, messages, total = few
    events2, messages2, total2 = many
    divisor = events * messages2 - events2 * messages
    if not divisor:
        raise ChildError("two runs that do not differ tell nothing apart")
    event = (total * messages2 - total2 * messages) / divisor
    # Neither costs less than nothing; what noise has taken from one was given to the other.
    event = min(max(0.0, event), total2 / events2)
    return event, max(0.0, (total - event * events) / messages)


def fabric_costs(seldom: float, often: float, seconds: float) -> FabricCosts:
    """By events so seldom that few are a message, and so often that many are; and by none at all."""
    with woven(True, ITEMS, False) as fabric:
        none, few, many = [crossing(fabric, rate, seconds) for rate in (0.0, seldom, often)]

    def parts(spent: Callable[[Crossing], float]) -> tuple[float, float]:
        """Of what each pace has taken beyond what is taken anyway."""
        first, second = [
            (
                float(each.published),
                float(each.bursts),
                max(0.0, spent(each) - spent(none) / none.seconds * each.seconds),
            )
            for each in (few, many)
        ]
        return apart(first, second)

    edge_event, edge_message = parts(lambda each: each.edge_seconds * 1e6)
    nats_event, nats_message = parts(lambda each: each.nats_seconds * 1e6)
    return FabricCosts(
        parts(lambda each: each.hub_seconds * 1e6),
        (edge_event / EDGES, edge_message / EDGES),
        (nats_event / EDGES, nats_message / EDGES),
        parts(lambda each: float(each.bytes_in)),
    )


# -- all of them -------------------------------------------------------------------------------------------------------


def measure_costs(sessions: int, seconds: float, settling: float, cores: Cores) -> tuple[Costs, float]:
    """The costs, and the bytes of an update of the load. Raises ChildError."""
    fabric = fabric_costs(SELDOM, OFTEN, seconds)
    seen = observe(Size(sessions, 50.0), seconds, settling, cores, window=1000)
    # Items that are nobody else's: as many as fit ten to a session.
    apart_size = Size(max(10, sessions // 10), 50.0, max(10, sessions // 10) * EACH)
    unshared = observe(apart_size, seconds, settling, cores)
    for each in (seen, unshared):
        if each.failures:
            raise ChildError(each.failures[0])
    paced, full = seen.paced_run, seen.full_run
    assert full is not None
    idle_process = seen.unused.edges / EDGES / seen.unused_seconds * 1e6
    update, write = apart(
        (float(paced.delivered), float(paced.frames), _session_micros(seen.paced, paced, fabric, idle_process)),
        (float(full.delivered), float(full.frames), _session_micros(seen.full, full, fabric, idle_process)),
    )
    session_bytes = seen.idle.edge_memory / sessions
    items = apart_size.items
    item_bytes = max(0.0, unshared.idle.edge_memory - apart_size.sessions * session_bytes) / items
    keepalives = max(1, seen.idle_run.frames)
    costs = Costs(
        measured=f"{facts(Cores()).partition(';')[0]}; {time.strftime('%Y-%m-%d', time.gmtime())}",
        write=write,
        update=update,
        keepalive=max(0.0, seen.idle.edges * 1e6 - EDGES * idle_process * seen.idle_run.seconds) / keepalives,
        edge_event=fabric.edge[0],
        edge_message=fabric.edge[1],
        open=seen.opening.edges * 1e6 / sessions,
        hub_open=seen.opening.hub * 1e6 / sessions,
        hub_event=fabric.hub[0],
        hub_message=fabric.hub[1],
        nats_event=fabric.nats[0],
        nats_message=fabric.nats[1],
        idle_process=idle_process,
        session_bytes=session_bytes,
        hub_session_bytes=max(0.0, seen.idle.hub_memory / sessions),
        item_bytes=item_bytes,
        process_bytes=seen.base.edge_memory / EDGES,
        event_bytes=fabric.size[0],
        message_bytes=fabric.size[1],
    )
    return costs, paced.bytes / max(1, paced.delivered)


def _session_micros(spent: Used, run: Run, fabric: FabricCosts, idle_process: float) -> float:
    """What edges used for their sessions, without what they used for events and for being there."""
    event, message = fabric.edge
    # The hub writes each message to each edge, and nothing else that is worth counting.
    received = EDGES * (run.published * event + run.seconds * idle_process) + spent.hub_writes * message
    return max(0.0, spent.edges * 1e6 - received)
