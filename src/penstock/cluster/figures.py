"""Figures between edges and their hub: families as the bodies of calls, and back.

Who asks for them, and when, is in `penstock.services.cluster`. The records are in `penstock.wire.fabric.figures`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw

from penstock.monitor.figures import Family, Kind, Measured, Sample
from penstock.monitor.histogram import BOUNDS, Histogram
from penstock.wire.fabric.calls import decode_body, encode_body
from penstock.wire.fabric.figures import FamilyBody, HistogramBody, SampleBody

_KINDS = {kind.value: kind for kind in Kind}


def encode_figures(families: Iterable[Family]) -> bytes:
    """Takes the peaks of histograms: they are those since the last call."""
    return encode_body([_body(family) for family in families])


def decode_figures(body: Raw) -> list[Family]:
    """Raises a FabricError. What another release counts in another way is left out."""
    return [_family(each) for each in decode_body(list[FamilyBody], body) if each.kind in _KINDS]


def _body(family: Family) -> FamilyBody:
    return FamilyBody(
        family.name,
        family.kind.value,
        family.help,
        tuple([SampleBody(float(value), labels) for value, labels in family.samples]),
        tuple(
            [
                HistogramBody(tuple(histogram.counts), histogram.sum, histogram.take_peak(), labels)
                for histogram, labels in family.histograms
            ]
        ),
    )


def _family(body: FamilyBody) -> Family:
    return Family(
        body.name,
        _KINDS[body.kind],
        body.help,
        tuple([Sample(each.value, each.labels) for each in body.samples]),
        tuple(
            [
                Measured(Histogram(each.counts, each.sum, each.peak), each.labels)
                for each in body.histograms
                if len(each.counts) == len(BOUNDS) + 1
            ]
        ),
    )
