"""Wire size: the bytes of an update of the demo stock list as a TLCP line, beside the same update as JSON.

Framing is left out: WebSocket adds 2 to 4 bytes to a message, and TLCP puts many lines into one. Runs no server.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heapify, heapreplace
from random import Random

from bench.rig.machine import Cores
from bench.rig.results import Report
from penstock.adapters.demo.market import Market
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.values import decode_values
from penstock.wire.tlcp.version import NEWEST

ABOUT = "bytes of an update of the demo stock list as a TLCP line and as JSON objects"

# The same walk in every run, from the same time of day.
SEED = 7
OPENING = datetime(2024, 1, 2, 9, 0, tzinfo=UTC)

Fields = Mapping[str, str]


def trades(count: int) -> Iterator[tuple[int, Fields]]:
    """Number and fields of a stock: all thirty once, then `count` trades as the market makes them."""
    market = Market(Random(SEED))
    names = list(market.stocks)
    for number, name in enumerate(names, start=1):
        market.stocks[name].time = f"{OPENING:%H:%M:%S}"
        yield number, market.stocks[name].fields()
    due = [(market.next_delay(name), number) for number, name in enumerate(names, start=1)]
    heapify(due)
    for _ in range(count):
        seconds, number = due[0]
        name = names[number - 1]
        market.trade(name)
        # The market takes the time from the system's clock, which stands still during a simulation.
        market.stocks[name].time = f"{OPENING + timedelta(seconds=seconds):%H:%M:%S}"
        yield number, market.stocks[name].fields()
        heapreplace(due, (seconds + market.next_delay(name), number))


@dataclass(slots=True)
class Sizes:
    """Bytes in all, and how many were measured."""

    updates: int = 0
    tlcp: int = 0
    json_changed: int = 0
    json_all: int = 0
    wrong: int = 0


def measure(count: int) -> tuple[Sizes, Sizes]:
    """The sizes of snapshots and of updates; every TLCP line is decoded and compared."""
    codec = TlcpCodec(NEWEST)
    snapshots, updates = Sizes(), Sizes()
    last: dict[int, Fields] = {}
    for number, fields in trades(count):
        before = last.get(number)
        last[number] = fields
        sizes = snapshots if before is None else updates
        values = tuple(fields.values())
        previous = None if before is None else tuple(before.values())
        prefix, (body, _) = codec.update_prefix(1, number), codec.update_body(values, previous, (), 0)
        changed = {name: text for name, text in fields.items() if before is None or before[name] != text}
        sizes.updates += 1
        sizes.tlcp += len(prefix) + len(body)
        sizes.json_changed += json_size(number, changed)
        sizes.json_all += json_size(number, fields)
        decoded = decode_values(body.removesuffix(b"\r\n").decode(), previous, len(values))
        sizes.wrong += decoded != values
    return snapshots, updates


def json_size(number: int, fields: Fields) -> int:
    """As short as JSON with named fields can be."""
    return len(json.dumps({"item": number, "fields": fields}, separators=(",", ":"), ensure_ascii=False).encode())


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--updates", type=int, default=100_000, help="trades to encode (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 0


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    """Measure and report; False when a line did not decode to what was encoded."""
    report = Report("wire-size")
    snapshots, updates = measure(options.updates)
    rows = []
    for name, snapshot_bytes, update_bytes in (
        ("TLCP", snapshots.tlcp, updates.tlcp),
        ("JSON, changed fields", snapshots.json_changed, updates.json_changed),
        ("JSON, all fields", snapshots.json_all, updates.json_all),
    ):
        per_update = update_bytes / updates.updates
        ratio = update_bytes / updates.tlcp
        rows.append((name, f"{snapshot_bytes / snapshots.updates:.1f}", f"{per_update:.1f}", f"{ratio:.2f}"))
    report.table(
        f"{updates.updates:,} updates of 30 stocks with 12 fields", ("bytes per snapshot", "per update", "ratio"), rows
    )
    wrong = snapshots.wrong + updates.wrong
    if wrong:
        report.failure("TLCP", f"{wrong:,} lines decode to something else")
    return report.save()
