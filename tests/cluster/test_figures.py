"""Figures on their way from an edge to the hub: the same arrives, and a peak is told once."""

from __future__ import annotations

import pytest
from msgspec import Raw

from penstock.cluster.figures import decode_figures, encode_figures
from penstock.monitor.figures import Kind, counter, durations, info, labelled
from penstock.monitor.histogram import Histogram
from penstock.wire.fabric.calls import encode_body
from penstock.wire.fabric.figures import FamilyBody, HistogramBody
from penstock.wire.fabric.messages import FabricError


def test_samples_arrive_as_they_are() -> None:
    sent = [
        counter("a", "Text.", 7),
        labelled(Kind.GAUGE, "b", "Text.", "port", {"stream": 1.5, "api": 0}),
        info("c", "Text.", [("version", "1")]),
    ]
    assert decode_figures(Raw(encode_figures(sent))) == sent


def test_a_histogram_arrives_with_its_peak_which_is_told_once() -> None:
    lags = Histogram()
    lags.add(0.2)
    lags.add(0.001)
    sent = [durations("a", "Text.", lags)]
    for peak in (0.2, 0.0):
        ((_, _, _, _, ((histogram, labels),)),) = decode_figures(Raw(encode_figures(sent)))
        assert (histogram.counts, histogram.sum, labels) == (lags.counts, lags.sum, ())
        assert histogram.take_peak() == peak


def test_what_another_release_counts_in_another_way_is_left_out() -> None:
    strange = [
        FamilyBody("a", "summary", "", (), ()),
        FamilyBody("b", "histogram", "", (), (HistogramBody((1, 2), 1.0, 1.0, ()),)),
    ]
    (family,) = decode_figures(Raw(encode_body(strange)))
    assert (family.name, family.histograms) == ("b", ())


def test_what_is_no_figures_is_refused() -> None:
    with pytest.raises(FabricError):
        decode_figures(Raw(encode_body({"a": 1})))
