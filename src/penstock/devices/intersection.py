"""One simulated intersection: which signals are lit at a time, and the payload that its controller sends.

A fixed plan of two phases, north-south and east-west, with all red in between. The time is an argument. Who sends the
payloads is in `controllers`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

RED, AMBER, GREEN = "red", "amber", "green"

# Seconds of a phase: its signals are green, then amber, then all are red.
AMBER_SECONDS = 2.0
CLEARANCE_SECONDS = 1.0

NORTH_SOUTH = ("N", "S")
EAST_WEST = ("E", "W")


@dataclass(frozen=True, slots=True)
class Intersection:
    """`x` and `y` are its place on the map, between 0 and 1. `offset` is when its plan begins."""

    identifier: str
    name: str
    x: float
    y: float
    green: float
    offset: float

    @property
    def phase(self) -> float:
        return self.green + AMBER_SECONDS + CLEARANCE_SECONDS

    def signals(self, now: float) -> dict[str, tuple[str, float]]:
        """The signal of each approach, and the seconds until it changes."""
        at = (now - self.offset) % (2 * self.phase)
        active, waiting = (NORTH_SOUTH, EAST_WEST) if at < self.phase else (EAST_WEST, NORTH_SOUTH)
        at %= self.phase
        left = self.phase - at
        if at < self.green:
            shown = GREEN, self.green - at
        elif at < self.green + AMBER_SECONDS:
            shown = AMBER, self.green + AMBER_SECONDS - at
        else:
            shown = RED, left + self.phase
        return dict.fromkeys(active, shown) | dict.fromkeys(waiting, (RED, left))

    def payload(self, now: float) -> bytes:
        signals = {
            approach: {"signal": signal, "left": round(left, 1)}
            for approach, (signal, left) in self.signals(now).items()
        }
        facts = {"name": self.name, "x": self.x, "y": self.y, "signals": signals}
        return json.dumps(facts, separators=(",", ":")).encode()


# A small town.
TOWN = (
    Intersection("PSDM0001", "Mill Bridge", 0.18, 0.28, 7.0, 0.0),
    Intersection("PSDM0002", "Market Square", 0.46, 0.28, 6.0, 3.0),
    Intersection("PSDM0003", "Station", 0.79, 0.28, 8.0, 6.5),
    Intersection("PSDM0004", "Weir Lane", 0.18, 0.72, 5.0, 9.0),
    Intersection("PSDM0005", "Town Hall", 0.46, 0.72, 9.0, 11.0),
    Intersection("PSDM0006", "Turbine House", 0.79, 0.72, 6.0, 14.0),
)
