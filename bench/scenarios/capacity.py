"""What 10 thousand, 1 million and 10 million sessions take: a calculator, and a check of it at sizes that fit here.

`python -m bench capacity` counts with the costs in `bench/rig/costs.json` and measures nothing. With `--check` the
costs are measured, used to predict other sizes, and compared with what these take; `--keep` keeps them for the next
time. The formulas are in `bench/rig/capacity.py` and in docs/capacity.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace

from bench.rig import capacity
from bench.rig.capacity import Assumptions, Costs, Plan, load_costs, plan, save_costs
from bench.rig.child import ChildError
from bench.rig.costing import EACH, ITEMS, SETTLING, Observed, Size, crossing, measure_costs, observe
from bench.rig.crossing import EDGES, woven
from bench.rig.machine import Cores
from bench.rig.results import RESULTS, Report
from bench.rig.table import print_table

ABOUT = "what 10 thousand to 10 million sessions take, and a check of that at sizes that fit here"

SESSIONS = (10_000, 1_000_000, 10_000_000)

# A prediction may be this many times what is measured, or that part of it: machines are planned with more room.
FACTOR = 1.5

# What is checked: sessions and events a second; over NATS, events a second. Not fewer than costs are measured with
# (`costing.SELDOM`): a hub that does next to nothing pays more for each message, and nobody plans for that.
SIZES = (Size(1_000, 100.0), Size(2_000, 25.0), Size(4_000, 50.0))
NATS_RATES = (3_000.0, 10_000.0)

# Sessions with which costs are measured: as many as make the last digit of a figure matter little.
CALIBRATED = 1_000

HELP = {
    "updates": "updates per second and session",
    "items_each": "items that a session is subscribed to",
    "items": "items that there are",
    "update_bytes": "bytes of an update's line",
    "tick": "seconds: at most one write to a session in this time",
    "keepalive": "seconds of silence before a keep-alive",
    "lifetime": "seconds that a session lasts",
    "core_share": "part of a core that a process may use",
    "bandwidth_share": "part of a machine's bandwidth that may be used",
    "cores": "of a machine",
    "memory": "GiB of a machine",
    "bandwidth": "Gbit/s of a machine",
    "socket": "KiB of Linux for a connection",
    "spare": "machines that may fail at the same time",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sessions", type=int, nargs="+", default=list(SESSIONS))
    for field in fields(Assumptions):
        assert field.default is not MISSING
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=f"{HELP[field.name]} (default %(default)s)",
        )
    parser.add_argument("--check", action="store_true", help="measure costs, predict other sizes, and compare")
    parser.add_argument("--keep", action="store_true", help="keep the costs that --check has measured")
    parser.add_argument("--seconds", type=float, default=5.0, help="of one measurement of --check")
    parser.add_argument("--scale", type=float, default=1.0, help="sessions of --check times this, for a busy machine")


def connections(options: argparse.Namespace) -> int:
    return max(size.sessions for size in sizes(options.scale)) if options.check else 0


def sizes(scale: float) -> list[Size]:
    return [replace(size, sessions=scaled(size.sessions, scale)) for size in SIZES]


def scaled(sessions: int, scale: float) -> int:
    """A multiple of the groups that the items are in."""
    groups = ITEMS // EACH
    return max(1, round(sessions * scale / groups)) * groups


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    good = True
    if options.check:
        report = Report("capacity-check")
        try:
            calibrated = scaled(CALIBRATED, options.scale)
            costs = check(report, calibrated, sizes(options.scale), NATS_RATES, options.seconds, SETTLING, cores)
        except ChildError as error:
            report.failure("the check", str(error))
        else:
            if options.keep and report.good and report.is_quiet():
                save_costs(costs)
            elif options.keep:
                report.remark("These costs are not kept: something was wrong, or the machine was not quiet.")
        good = report.save()
    given = Assumptions(**{field.name: getattr(options, field.name) for field in fields(Assumptions)})
    costs = load_costs()
    plans = [plan(sessions, given, costs) for sessions in options.sessions]
    for title, columns, rows in tables(given, costs, plans):
        print_table(title, columns, rows)
    if options.sessions == list(SESSIONS) and given == Assumptions():
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "capacity.md").write_text(page())
    return good


# -- the calculator ----------------------------------------------------------------------------------------------------

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]


def page() -> str:
    """What docs/capacity.md shows: the plans for the usual sizes, with the assumptions and costs that are kept."""
    given, costs = Assumptions(), load_costs()
    parts = []
    for title, columns, rows in tables(given, costs, [plan(sessions, given, costs) for sessions in SESSIONS]):
        lines = [f"**{title}**", "", f"| | {' | '.join(columns)} |", f"|{'---|' * (len(columns) + 1)}"]
        parts.append("\n".join(lines + [f"| {' | '.join(cells)} |" for cells in rows]))
    return "\n\n".join(parts) + "\n"


def tables(given: Assumptions, costs: Costs, plans: Sequence[Plan]) -> list[Table]:
    assumed = [(HELP[name], f"`--{name.replace('_', '-')}`", f"{value:,g}") for name, value in asdict(given).items()]
    return [
        ("Assumptions", ("option", "here"), assumed),
        (f"Costs ({costs.measured})", ("", "here"), cost_rows(costs)),
        ("What it takes", [f"{each.sessions:,} sessions" for each in plans], plan_rows(plans)),
    ]


def cost_rows(costs: Costs) -> list[tuple[str, str, str]]:
    def micros(name: str, symbol: str, value: float) -> tuple[str, str, str]:
        return name, f"`{symbol}`", f"{value:,.0f} µs" if value >= 100 else f"{value:.3g} µs"

    def size(name: str, symbol: str, value: float) -> tuple[str, str, str]:
        shown = f"{value / 2**20:.3g} MiB" if value >= 2**20 else f"{value:,.0f} bytes"
        return name, f"`{symbol}`", shown

    return [
        micros("a write to a session, at its edge", "write", costs.write),
        micros("an update in it", "update", costs.update),
        micros("a keep-alive", "keepalive", costs.keepalive),
        micros("opening a session with a subscription, at its edge", "open", costs.open),
        micros("the same at the hub", "hub_open", costs.hub_open),
        micros("an event, at the hub, with the adapter that makes it", "hub_event", costs.hub_event),
        micros("a message of events, at the hub", "hub_message", costs.hub_message),
        micros("an event, at an edge", "edge_event", costs.edge_event),
        micros("a message of events, at an edge", "edge_message", costs.edge_message),
        micros("an event that NATS sends to an edge", "nats_event", costs.nats_event),
        micros("a message that NATS sends to an edge", "nats_message", costs.nats_message),
        micros("a process without sessions, each second", "idle_process", costs.idle_process),
        size("memory of a session, at its edge", "session_bytes", costs.session_bytes),
        size("memory of a session, at the hub", "hub_session_bytes", costs.hub_session_bytes),
        size("memory of an item that a session has for itself", "item_bytes", costs.item_bytes),
        size("memory of a process", "process_bytes", costs.process_bytes),
        size("an event on the fabric", "event_bytes", costs.event_bytes),
        size("around a message on the fabric", "message_bytes", costs.message_bytes),
    ]


def plan_rows(plans: Sequence[Plan]) -> list[list[str]]:
    def gibibytes(value: float) -> str:
        return f"{value / 2**30:,.1f} GiB"

    def megabytes(value: float) -> str:
        return f"{value / 1e6:,.2f} MB/s"

    def row(name: str, cells: Sequence[str]) -> list[str]:
        return [name, *cells]

    return [
        row("updates per second to clients", [f"{each.updates:,.0f}" for each in plans]),
        row("bandwidth to clients", [f"{each.bandwidth * 8 / 1e9:,.2f} Gbit/s" for each in plans]),
        row("edges (processes)", [f"{each.edges:,}" for each in plans]),
        row("of a core, each edge", [f"{each.edge_cpu:.0%}" for each in plans]),
        row("of a core, each hub", [f"{each.hub_cpu:.0%}" for each in plans]),
        row("clusters, each with one active hub", [f"{each.clusters:,}" for each in plans]),
        row("memory of all", [gibibytes(each.memory) for each in plans]),
        row("memory of each hub", [gibibytes(each.hub_memory) for each in plans]),
        row("machines", [f"{each.machines:,}" for each in plans]),
        row("events per second from adapters", [f"{each.events:,.0f}" for each in plans]),
        row("sessions opened per second", [f"{each.opens:,.0f}" for each in plans]),
        row("into NATS", ["no NATS" if each.is_local else megabytes(each.nats_in) for each in plans]),
        row("out of NATS", ["no NATS" if each.is_local else megabytes(each.nats_out) for each in plans]),
        row("cores of NATS", ["no NATS" if each.is_local else f"{each.nats_cpu:.2f}" for each in plans]),
        row(
            "until the sessions of a failed machine are back",
            ["-" if each.is_local else f"{each.recovery:,.0f} s" for each in plans],
        ),
    ]


# -- the check ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """One prediction beside what was measured."""

    where: str
    what: str
    predicted: float
    measured: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured if self.measured else float("inf")

    def is_within(self, factor: float) -> bool:
        return 1 / factor <= self.ratio <= factor


def check(
    report: Report,
    calibrated: int,
    sizes: Sequence[Size],
    nats_rates: Sequence[float],
    seconds: float,
    settling: float,
    cores: Cores,
    factor: float = FACTOR,
) -> Costs:
    """Measure costs, predict, compare, and tell of it; what is off by more than the factor is a failure."""
    costs, update_bytes = measure_costs(calibrated, seconds, settling, cores)
    report.table(f"Costs, of {calibrated:,} sessions", ("", "measured now"), cost_rows(costs))
    compared: list[Compared] = []
    for size in sizes:
        seen = observe(size, seconds, settling, cores)
        for failure in seen.failures:
            report.failure(f"{size.sessions:,} sessions", failure)
        compared += compare(seen, costs, update_bytes)
    compared += compare_nats(nats_rates, costs, seconds)
    judge(report, compared, factor)
    return costs


def judge(report: Report, compared: Sequence[Compared], factor: float) -> None:
    rows = []
    for each in compared:
        rows.append(
            (
                f"{each.where}: {each.what}",
                f"{each.predicted:,.3g}",
                f"{each.measured:,.3g}",
                f"{each.ratio:.2f}",
                "yes" if each.is_within(factor) else "NO",
            )
        )
        if not each.is_within(factor):
            report.failure(each.where, f"the model is off by more than {factor}: {each.what}, ratio {each.ratio:.2f}")
    report.table(
        f"Predicted and measured, {factor} times or the {factor}th part allowed",
        ("predicted", "measured", "predicted / measured", "within"),
        rows,
    )


def compare(seen: Observed, costs: Costs, update_bytes: float) -> list[Compared]:
    """CPU time of edges, memory, and bytes to clients, of a size that was not used for the costs."""
    size, run = seen.size, seen.paced_run
    given = Assumptions(
        # What a machine that is busy has really published.
        updates=run.published / run.seconds * size.each / size.items,
        items_each=size.each,
        items=size.items,
        update_bytes=update_bytes,
        tick=capacity.TURN,
        lifetime=float("inf"),
        socket=0.0,
    )
    each, flows = size.sessions / EDGES, capacity.flow(size.sessions, EDGES, given)
    edge_memory = EDGES * capacity.edge_memory(each, given, costs)
    hub_memory = capacity.hub_memory(size.sessions, given, costs)
    client_bytes = capacity.client_bytes(size.sessions, given, framed=False)
    where = f"{size.sessions:,} sessions, {size.rate:g} events/s"
    return [
        Compared(
            where,
            "cores, edges",
            EDGES * capacity.edge_cpu(each, flows, given, costs),
            seen.paced.edges / run.seconds,
        ),
        Compared(where, "MiB, edges", edge_memory / 2**20, (seen.base.edge_memory + seen.idle.edge_memory) / 2**20),
        Compared(where, "MiB, hub", hub_memory / 2**20, (seen.base.hub_memory + seen.idle.hub_memory) / 2**20),
        Compared(where, "MB/s to clients", client_bytes / 1e6, run.bytes / run.seconds / 1e6),
    ]


def compare_nats(rates: Sequence[float], costs: Costs, seconds: float) -> list[Compared]:
    """CPU time of the hub, and bytes into NATS and out of it."""
    compared = []
    with woven(True, ITEMS, False) as fabric:
        # What the hub's publisher takes for looking at the clock is not of the model.
        unused = crossing(fabric, 0.0, seconds)
        for rate in rates:
            found = crossing(fabric, rate, seconds)
            given = Assumptions(
                updates=found.reached / ITEMS * EACH, items_each=EACH, items=ITEMS, lifetime=float("inf")
            )
            # As many sessions as make sure that each edge wants all items.
            flows = capacity.flow(1e9, EDGES, given)
            bytes_in = flows.events * costs.event_bytes + flows.messages * costs.message_bytes
            where = f"NATS, {rate:g} events/s"
            compared += [
                Compared(
                    where,
                    "cores, hub",
                    capacity.hub_cpu(0, flows, given, replace(costs, idle_process=0.0)),
                    found.hub_seconds / found.seconds - unused.hub_seconds / unused.seconds,
                ),
                Compared(where, "MB/s in", bytes_in / 1e6, found.bytes_in / found.seconds / 1e6),
                Compared(where, "MB/s out", EDGES * bytes_in / 1e6, found.bytes_out / found.seconds / 1e6),
            ]
    return compared
