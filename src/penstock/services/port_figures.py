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
            "Connections: WebSockets, and those of HTTP with and without a request under way.",
            tuple([Sample(count, (label, ("kind", kind))) for kind, count in kinds.items()]),
        ),
        one(Kind.GAUGE, "penstock_connections_max", "Connections that the port may have.", port.max_connections),
        one(Kind.COUNTER, "penstock_connections_accepted", "Connections that came.", port.accepted),
        one(Kind.COUNTER, "penstock_connections_refused", "Connections refused because of a limit.", port.refused),
        Family(
            "penstock_requests",
            Kind.COUNTER,
            "HTTP requests by what they are for.",
            tuple([Sample(count, (label, ("kind", kind))) for kind, count in port.requests.items()]),
        ),
        one(
            Kind.GAUGE,
            "penstock_unsent_connections",
            "Connections with bytes that their peers do not take.",
            len(waits),
        ),
        one(
            Kind.GAUGE,
            "penstock_unsent_bytes",
            "Bytes that peers do not take.",
            sum([each.holds() for each in port.slow]),
        ),
        one(
            Kind.GAUGE,
            "penstock_unsent_seconds",
            "Time for which these connections have waited, all together.",
            sum(waits),
        ),
        one(
            Kind.GAUGE,
            "penstock_unsent_oldest_seconds",
            "Time for which that connection has waited which waits longest.",
            max(waits, default=0.0),
        ),
    )
