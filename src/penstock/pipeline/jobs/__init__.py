"""The ready-made jobs, one module each, started by `penstock pipeline run NAME`.

This table is all that a command line needs to list them; the modules themselves import pyspark, `history` only to
start. Each has `Settings`, `transform(events, settings)` and `start(spark, place, settings, once=False)`. Read next:
`history`, the simplest.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Job:
    """`about` is one line for people; `publishes` says whether it needs the server, and a token for it."""

    name: str
    about: str
    module: str
    publishes: bool

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


def _job(name: str, about: str, *, publishes: bool = True) -> Job:
    return Job(name, about, f"{__name__}.{name}", publishes)


JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        _job(
            "history",
            "Moves the journal into the lake, a Delta table of Parquet files, each event exactly once.",
            publishes=False,
        ),
        _job("candles", "Open, high, low, close, volume and VWAP of every stock, for 1 s, 10 s and 1 min."),
        _job("movers", "The stocks that gained and lost most since the day's open, as a live table."),
        _job("traffic", "Events, latency and gaps of each traffic controller, window by window."),
    )
}
