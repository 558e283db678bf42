"""Figures of an edge on their way to the hub: what the call `figures` is answered with.

What they stand for is in `penstock.monitor.figures`, how one becomes the other in `penstock.cluster.figures`.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

LabelPairs: TypeAlias = tuple[tuple[str, str], ...]


class SampleBody(Struct, array_like=True, frozen=True):
    value: float
    labels: LabelPairs


class HistogramBody(Struct, array_like=True, frozen=True):
    """`peak` is the largest since the last question."""

    counts: tuple[int, ...]
    sum: float
    peak: float
    labels: LabelPairs


class FamilyBody(Struct, array_like=True, frozen=True):
    name: str
    kind: str
    help: str
    samples: tuple[SampleBody, ...]
    histograms: tuple[HistogramBody, ...]
