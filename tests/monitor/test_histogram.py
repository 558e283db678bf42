"""Histograms: what they count, and quantiles against those of a sorted list."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.monitor.histogram import BOUNDS, Histogram, Span

SECONDS = st.floats(min_value=0.0, max_value=100.0)


def test_bounds_grow() -> None:
    assert sorted(set(BOUNDS)) == list(BOUNDS)


@given(st.lists(SECONDS))
def test_each_value_is_in_the_one_place_whose_bounds_hold_it(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    edges = [-math.inf, *BOUNDS, math.inf]
    naive = [sum(low < value <= high for value in values) for low, high in itertools.pairwise(edges)]
    assert histogram.counts == naive
    assert math.isclose(histogram.sum, math.fsum(values), abs_tol=1e-6)


@given(st.lists(SECONDS), st.lists(SECONDS, min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_between_the_bounds_around_the_real_one_of_what_is_new(
    old: list[float], new: list[float], share: float
) -> None:
    histogram, span = Histogram(), Span()
    for value in old:
        histogram.add(value)
    span.look([(histogram, ())])
    for value in new:
        histogram.add(value)
    span.look([(histogram, ())])
    real = sorted(new)[max(0, math.ceil(share * len(new)) - 1)]
    low = max([0.0, *[bound for bound in BOUNDS if bound < real]])
    high = min([bound for bound in BOUNDS if bound >= real], default=math.inf)
    assert low <= span.quantile(share) <= min(high, max(new))
    assert span.peak == max(new)
    assert math.isclose(span.mean, math.fsum(new) / len(new), rel_tol=1e-6, abs_tol=1e-6)


def test_of_nothing_new_everything_is_zero() -> None:
    histogram, span = Histogram(), Span()
    histogram.add(3.0)
    span.look([(histogram, ())])
    span.look([(histogram, ())])
    assert (span.quantile(0.5), span.mean, span.peak) == (0.0, 0.0, 0.0)
