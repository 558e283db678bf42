"""A model of what many sessions take: processes, memory and bandwidth, from what each of them and each update costs.

Plain arithmetic, and the formulas of docs/capacity.md. The costs are measured by `python -m bench capacity --check` and
kept in `costs.json`; whether the model is right is checked there as well.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

COSTS = Path(__file__).with_name("costs.json")

# Seconds in which a hub collects events into one message, when it is not busy: a turn of its event loop.
TURN = 0.001

# The smallest share of all items at an edge that counts as all of them: then one message is for all edges.
ALL = 0.99

# Of a WebSocket frame's head, TCP, IP and Ethernet, for each write.
FRAME_BYTES = 2 + 32 + 20 + 18
# PROBE and its end of line, in a frame.
KEEPALIVE_BYTES = 7


@dataclass(frozen=True, slots=True)
class Costs:
    """What was measured: microCPU-seconds, bytes of memory, bytes between nodes."""

    # When and where; not used.
    measured: str
    # At an edge: a write to a session, an update in it, a keep-alive, an event from the hub, a message of events.
    write: float
    update: float
    keepalive: float
    edge_event: float
    edge_message: float
    # To open a session with a subscription, at the edge and at the hub.
    open: float
    hub_open: float
    # At the hub: an event, with the adapter that makes it; a message of events.
    hub_event: float
    hub_message: float
    # At a NATS server, for each copy that it sends.
    nats_event: float
    nats_message: float
    # Microseconds a second of a process without sessions.
    idle_process: float
    # Memory of a session at its edge and at the hub, of an item at a node that has it, of a process without sessions.
    session_bytes: float
    hub_session_bytes: float
    item_bytes: float
    process_bytes: float
    # On the fabric: of an event, and around a message.
    event_bytes: float
    message_bytes: float


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the reader knows better; all of it are options of the calculator."""

    # Updates per second and session, items each session is subscribed to, items that there are.
    updates: float = 1.0
    items_each: int = 10
    items: int = 10_000
    # Bytes of an update's line.
    update_bytes: float = 52.0
    # Seconds: at most one write to a session in this time (`tick`); silence before a keep-alive; a session's life.
    tick: float = 0.0
    keepalive: float = 5.0
    lifetime: float = 1800.0
    # The part of a core that a process may use, and of a machine's bandwidth; the rest is for peaks and failures.
    core_share: float = 0.6
    bandwidth_share: float = 0.5
    # A machine: cores, GiB of memory, Gbit/s; memory of Linux for a connection, in KiB; machines that may fail.
    cores: int = 16
    memory: float = 64.0
    bandwidth: float = 10.0
    socket: float = 8.0
    spare: int = 1


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one session, a second."""

    updates: float
    writes: float
    keepalives: float


def session_rates(given: Assumptions) -> Rates:
    """A session is written to when it has not been for a tick, and sent a keep-alive when there is nothing to write."""
    updates = given.updates
    writes = updates / (1 + updates * given.tick)
    silence = writes * given.keepalive
    # Intervals between writes are taken as random (exponential); none at all is a keep-alive each time.
    keepalives = 1 / given.keepalive if silence < 1e-9 else writes * math.exp(-silence) / -math.expm1(-silence)
    return Rates(updates, writes, keepalives)


def items_at(sessions: float, given: Assumptions) -> float:
    """Different items that so many sessions want, if each wants any of them."""
    return given.items * (1 - math.pow(1 - min(1.0, given.items_each / given.items), sessions))


@dataclass(frozen=True, slots=True)
class Flow:
    """What crosses the fabric, a second. `copies` is how often the hub sends the same."""

    events: float
    edge_events: float
    messages: float
    edge_messages: float
    copies: float


def flow(sessions: float, edges: int, given: Assumptions) -> Flow:
    per_item = given.updates / given.items_each
    wanted, wanted_each = items_at(sessions, given), items_at(sessions / edges, given)
    events, edge_events = wanted * per_item, wanted_each * per_item
    if edges == 1 or wanted_each >= ALL * given.items:
        messages = events / (1 + events * TURN)
        return Flow(events, edge_events, messages, messages, 1.0)
    # Each item may be wanted by another set of edges. The worst case: a message for each event and edge.
    return Flow(events, edge_events, events, edge_events, edges * wanted_each / max(wanted, 1e-9))


def edge_cpu(sessions: float, flows: Flow, given: Assumptions, costs: Costs) -> float:
    """Cores that an edge with so many sessions uses."""
    each = session_rates(given)
    micros = sessions * (
        each.writes * costs.write
        + each.updates * costs.update
        + each.keepalives * costs.keepalive
        + costs.open / given.lifetime
    )
    micros += flows.edge_events * costs.edge_event + flows.edge_messages * costs.edge_message + costs.idle_process
    return micros / 1e6


def hub_cpu(sessions: float, flows: Flow, given: Assumptions, costs: Costs) -> float:
    micros = flows.events * costs.hub_event + flows.messages * flows.copies * costs.hub_message
    return (micros + sessions / given.lifetime * costs.hub_open + costs.idle_process) / 1e6


def edge_memory(sessions: float, given: Assumptions, costs: Costs) -> float:
    """Bytes of an edge with so many sessions, with what Linux needs for their connections."""
    each = costs.session_bytes + given.socket * 1024
    return costs.process_bytes + sessions * each + items_at(sessions, given) * costs.item_bytes


def hub_memory(sessions: float, given: Assumptions, costs: Costs) -> float:
    return costs.process_bytes + sessions * costs.hub_session_bytes + items_at(sessions, given) * costs.item_bytes


def client_bytes(sessions: float, given: Assumptions, framed: bool = True) -> float:
    """Bytes a second to clients; without what is around the lines if not `framed`."""
    each = session_rates(given)
    around = (each.writes + each.keepalives) * FRAME_BYTES if framed else 0.0
    return sessions * (each.updates * given.update_bytes + each.keepalives * KEEPALIVE_BYTES + around)


@dataclass(frozen=True, slots=True)
class Plan:
    """What so many sessions take."""

    sessions: int
    # Processes with clients, and how much of a core each of them and the hub use; clusters, if one hub is not enough.
    edges: int
    edge_cpu: float
    hub_cpu: float
    clusters: int
    machines: int
    # Bytes: of all processes, and of the hub.
    memory: float
    hub_memory: float
    # A second: updates and bytes to clients; events and messages of the hub; bytes into NATS and out of it.
    updates: float
    bandwidth: float
    events: float
    opens: float
    nats_in: float
    nats_out: float
    nats_cpu: float
    # Seconds until the sessions of a machine that has failed are back at the others; 0: there is no other.
    recovery: float

    @property
    def is_local(self) -> bool:
        """Everything is on one machine, and needs no NATS."""
        return self.machines == 1


def plan(sessions: int, given: Assumptions, costs: Costs) -> Plan:
    """As few edges as the share of a core allows; a hub for as many clusters as its own share needs."""
    clusters = 1
    while True:
        found = _plan(sessions, clusters, given, costs)
        if found is not None:
            return found
        clusters += 1


def _plan(sessions: int, clusters: int, given: Assumptions, costs: Costs) -> Plan | None:
    """None if one hub is not enough for its part of the sessions and items."""
    part = replace(given, items=math.ceil(given.items / clusters)) if clusters > 1 else given
    share = sessions / clusters
    least = flow(share, 1, part)
    if clusters < 1000 and hub_cpu(share, least, part, costs) > given.core_share:
        return None
    edges = _edges(share, part, costs)
    flows = flow(share, edges, part)
    if clusters < 1000 and hub_cpu(share, flows, part, costs) > given.core_share:
        return None
    each = share / edges
    memory = clusters * (edges * edge_memory(each, part, costs) + hub_memory(share, part, costs))
    bandwidth = client_bytes(sessions, given)
    inward = clusters * flows.copies * (flows.events * costs.event_bytes + flows.messages * costs.message_bytes)
    outward = clusters * edges * (flows.edge_events * costs.event_bytes + flows.edge_messages * costs.message_bytes)
    cpu = clusters * edges * (flows.edge_events * costs.nats_event + flows.edge_messages * costs.nats_message) / 1e6
    machines = _machines(clusters * (edges + 1), memory, bandwidth, given)
    if machines > 1:
        machines += given.spare
    lost = sessions / max(1, machines)
    free = (machines - 1) * given.cores * (1 - given.core_share)
    recovery = (
        0.0
        if machines == 1
        else max(lost * costs.open / 1e6 / free, lost * costs.hub_open / 1e6 / clusters / (1 - given.core_share))
    )
    return Plan(
        sessions,
        clusters * edges,
        edge_cpu(each, flows, part, costs),
        hub_cpu(share, flows, part, costs),
        clusters,
        machines,
        memory,
        hub_memory(share, part, costs),
        sessions * session_rates(given).updates,
        bandwidth,
        clusters * flows.events,
        sessions / given.lifetime,
        inward,
        outward,
        cpu,
        recovery,
    )


def _edges(sessions: float, given: Assumptions, costs: Costs) -> int:
    """The fewest that use no more of their cores than they may."""

    def fits(edges: int) -> bool:
        each = sessions / edges
        return edge_cpu(each, flow(sessions, edges, given), given, costs) <= given.core_share

    high = 1
    while not fits(high):
        if high > sessions:
            raise ValueError("a single session is too much for an edge: fewer updates, or larger shares of a core")
        high *= 2
    low = high // 2 + 1 if high > 1 else 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _machines(processes: int, memory: float, bandwidth: float, given: Assumptions) -> int:
    by_cores = processes / given.cores
    by_memory = memory / (given.memory * 2**30)
    by_bandwidth = bandwidth * 8 / (given.bandwidth * 1e9 * given.bandwidth_share)
    return math.ceil(max(by_cores, by_memory, by_bandwidth))


def load_costs(path: Path = COSTS) -> Costs:
    return Costs(**json.loads(path.read_text()))


def save_costs(costs: Costs, path: Path = COSTS) -> None:
    """Three digits are more than they are good for."""
    rounded = {
        name: value if isinstance(value, str) else float(f"{value:.3g}") for name, value in asdict(costs).items()
    }
    path.write_text(json.dumps(rounded, indent=2) + "\n")
