"""Samples of several processes as of one: sums that do not go backwards, whoever comes and goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.monitor.figures import Family, Kind, Sample, counter, merged, of_worker
from penstock.monitor.readings import Readings


def said(**counts: float) -> list[Family]:
    """A counter as each of these workers has it."""
    return merged([each for worker, count in counts.items() for each in of_worker(worker, [counter("a", "", count)])])


def test_of_one_process_everything_is_its_own() -> None:
    readings = Readings()
    readings.take([counter("a", "", 5)])
    assert (readings.sum("a"), readings.own("a"), readings.total("a"), readings.grown("a")) == (5, 5, 5, 5)
    readings.take([counter("a", "", 7)])
    assert (readings.grown("a"), readings.own_grown("a")) == (2, 2)
    assert (readings.sum("b"), readings.least("b"), readings.largest("b"), readings.grown("b")) == (0, 0, 0, 0)


def test_what_is_the_hubs_own_is_told_apart() -> None:
    readings = Readings()
    readings.take(said(hub=1, w1=10, w2=20))
    readings.take(said(hub=2, w1=14, w2=28))
    assert (readings.sum("a"), readings.own("a"), readings.least("a"), readings.largest("a")) == (44, 2, 2, 28)
    assert (readings.grown("a"), readings.own_grown("a")) == (13, 1)


def test_samples_are_found_by_the_label_that_they_have_beside_their_worker() -> None:
    samples = (Sample(1, (("transport", "x"),)), Sample(2, (("transport", "y"),)))
    readings = Readings()
    family = Family("a", Kind.GAUGE, "", samples)
    readings.take(merged([*of_worker("w1", [family]), *of_worker("w2", [family])]))
    assert (readings.sum("a", "x"), readings.sum("a", "y"), readings.sum("a", "z")) == (2, 4, 0)


def test_a_process_that_is_met_later_counts_from_then_on() -> None:
    readings = Readings()
    readings.take(said(hub=1))
    readings.take(said(hub=1, w1=1_000_000))
    assert (readings.grown("a"), readings.total("a")) == (0, 1_000_001)
    readings.take(said(hub=1, w1=1_000_005))
    assert readings.grown("a") == 5


def test_a_process_that_is_away_for_a_while_is_not_counted_twice() -> None:
    readings = Readings()
    readings.take(said(hub=1, w1=10))
    readings.take(said(hub=1))
    assert (readings.sum("a"), readings.total("a")) == (1, 11)
    readings.take(said(hub=1, w1=12))
    assert readings.total("a") == 13


steps = st.lists(
    st.tuples(st.sampled_from(["hub", "w1", "w2"]), st.sampled_from(["count", "replace", "hide", "show"])), max_size=40
)


@given(steps)
def test_totals_are_what_all_processes_that_ever_were_have_counted(steps: list[tuple[str, str]]) -> None:
    """Each replaced process has counted more than its successor has when it is first seen."""
    counts = {"hub": 100, "w1": 100, "w2": 100}
    hidden: set[str] = set()
    counted_before = 0.0
    readings = Readings()
    readings.take(said(**counts))
    for worker, step in steps:
        if step == "count":
            counts[worker] += 7
        elif step == "replace" and worker not in hidden and counts[worker] > 1:
            counted_before += counts[worker]
            counts[worker] = 1
        elif step == "hide":
            hidden.add(worker)
        elif step == "show":
            hidden.discard(worker)
        before = readings.total("a")
        readings.take(said(**{name: count for name, count in counts.items() if name not in hidden}))
        assert readings.total("a") >= before
        assert readings.grown("a") >= 0
    readings.take(said(**counts))
    assert readings.total("a") == sum(counts.values()) + counted_before
