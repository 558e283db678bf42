"""Figures: what a part of the server counts and measures, under names and units that everybody uses.

Those who have them make them when asked (`Service.figures`); how they are written for Prometheus is in `exposition`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from penstock.monitor.histogram import Histogram, Labels

# The label that tells processes of one server apart, and its value for the one that has the adapters.
WORKER = "worker"
HUB = "hub"


class Kind(Enum):
    """A counter only ever grows; a gauge goes up and down; an info says what something is, in its labels; a histogram
    tells how often something took how long."""

    COUNTER = "counter"
    GAUGE = "gauge"
    INFO = "info"
    HISTOGRAM = "histogram"


class Sample(NamedTuple):
    """One value. Labels have few values that the configuration bounds: never a user, an item or a session."""

    value: float
    labels: Labels = ()


class Measured(NamedTuple):
    """How long something took, all together."""

    histogram: Histogram
    labels: Labels = ()


class Family(NamedTuple):
    """All samples of one name. The name has its unit at its end, such as `_seconds` or `_bytes`, and no `_total`."""

    name: str
    kind: Kind
    help: str
    samples: tuple[Sample, ...]
    histograms: tuple[Measured, ...] = ()


def counter(name: str, help: str, value: float) -> Family:
    return Family(name, Kind.COUNTER, help, (Sample(value),))


def gauge(name: str, help: str, value: float) -> Family:
    return Family(name, Kind.GAUGE, help, (Sample(value),))


def labelled(kind: Kind, name: str, help: str, label: str, values: Mapping[str, float]) -> Family:
    """One sample for each value of a label."""
    return Family(name, kind, help, tuple([Sample(value, ((label, key),)) for key, value in values.items()]))


def info(name: str, help: str, labels: Iterable[tuple[str, str]]) -> Family:
    return Family(name, Kind.INFO, help, (Sample(1, tuple(labels)),))


def durations(name: str, help: str, histogram: Histogram) -> Family:
    return Family(name, Kind.HISTOGRAM, help, (), (Measured(histogram),))


def merged(families: Iterable[Family]) -> list[Family]:
    """Those of one name as one, where the first was: several services, and several workers, may have samples of it."""
    found: dict[str, Family] = {}
    for family in families:
        before = found.get(family.name)
        if before is not None:
            family = before._replace(
                samples=(*before.samples, *family.samples), histograms=(*before.histograms, *family.histograms)
            )
        found[family.name] = family
    return list(found.values())


def of_worker(worker: str, families: Iterable[Family]) -> list[Family]:
    """The same, each sample with the name of the process that it is from."""
    own = (WORKER, worker)
    return [
        family._replace(
            samples=tuple([Sample(value, (*labels, own)) for value, labels in family.samples]),
            histograms=tuple([Measured(histogram, (*labels, own)) for histogram, labels in family.histograms]),
        )
        for family in families
    ]
