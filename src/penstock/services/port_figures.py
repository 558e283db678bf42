"""Figures of a port that speaks HTTP: connections, requests, and what slow peers leave unsent; the same for all ports.

Who counts is in `penstock.transport`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from penstock.monitor.figures import Family, Kind, Sample
from penstock.transport.port import HttpPort


def port_figures(name: str, port: HttpPort) -> Iterable[Family]:
    label = ("port", name)
    alone = (label,)
    idle, websockets = len(port.idle), port.websockets
    kinds = {"websocket": websockets, "busy": max(0, len(port.connections) - websockets - idle), "idle": idle}
    now = time.monotonic()
    waits = [now - each.since for each in port.slow]

    def one(kind: Kind, name: str, help: str, value: float) -> Family:
        return Family(name, kind, help, (Sample(value, alone),))

    return (
        Family(
            "penstock_connections",
            Kind.GAUGE,
            "Open connections: WebSockets, and HTTP connections with and without a request in progress.",
            tuple([Sample(count, (label, ("kind", kind))) for kind, count in kinds.items()]),
        ),
        one(Kind.GAUGE, "penstock_connections_max", "Maximum number of connections of the port.", port.max_connections),
        one(Kind.COUNTER, "penstock_connections_accepted", "Connections accepted.", port.accepted),
        one(Kind.COUNTER, "penstock_connections_refused", "Connections refused because of a limit.", port.refused),
        Family(
            "penstock_requests",
            Kind.COUNTER,
            "HTTP requests by purpose.",
            tuple([Sample(count, (label, ("kind", kind))) for kind, count in port.requests.items()]),
        ),
        one(
            Kind.GAUGE,
            "penstock_unsent_connections",
            "Connections whose peers do not read what was sent.",
            len(waits),
        ),
        one(
            Kind.GAUGE,
            "penstock_unsent_bytes",
            "Bytes that wait because peers do not read them.",
            sum([each.holds() for each in port.slow]),
        ),
        one(
            Kind.GAUGE,
            "penstock_unsent_seconds",
            "Total time that connections have waited for their peers.",
            sum(waits),
        ),
        one(
            Kind.GAUGE,
            "penstock_unsent_oldest_seconds",
            "Longest time that one connection has waited for its peer.",
            max(waits, default=0.0),
        ),
    )
