"""What is written for Prometheus, read back by its own parsers: every kind of figure, any label, both formats."""

from __future__ import annotations

import asyncio
import math
import shutil
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from penstock.monitor.exposition import OPEN_METRICS, PLAIN, chosen_format, exposition, number
from penstock.monitor.figures import Family, Kind, Sample, counter, durations, gauge, info, labelled, merged
from penstock.monitor.histogram import BOUNDS, Histogram

HOSTILE = [
    'a"b',
    "back\\slash",
    "two\nlines",
    'x"} 1\npenstock_evil 1',
    "\\n",
    "",
    "é 漢 🚦",
    "tab\there",
    "#",
    "\x00",
    "{}",
    "\r",
]

# Values of labels that UTF-8 can carry.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def text(families: Sequence[Family], format: str) -> str:
    return asyncio.run(exposition(families, format)).decode()


def read(families: Sequence[Family], format: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What Prometheus' own parser makes of them: samples by name and labels."""
    parse = parse_open_metrics if format == OPEN_METRICS else parse_plain
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in parse(text(families, format)):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


NONE: frozenset[tuple[str, str]] = frozenset()
both = pytest.mark.parametrize("format", [PLAIN, OPEN_METRICS])


@both
def test_every_kind_of_figure_is_read_as_what_it_was(format: str) -> None:
    lags = Histogram()
    for seconds in (0.00001, 0.0004, 0.0004, 99.0):
        lags.add(seconds)
    found = read(
        [
            counter("penstock_a", "Counts.", 3),
            gauge("penstock_b_bytes", "Measures.", 2.5),
            info("penstock_c", "Says.", [("version", "1")]),
            durations("penstock_d_seconds", "Lasts.", lags),
        ],
        format,
    )
    assert found["penstock_a_total", NONE] == 3
    assert found["penstock_b_bytes", NONE] == 2.5
    assert found["penstock_c_info", frozenset({("version", "1")})] == 1
    assert found["penstock_d_seconds_count", NONE] == 4
    assert found["penstock_d_seconds_sum", NONE] == pytest.approx(99.00081)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert [float(bound) for bound in buckets] == [*[pytest.approx(bound) for bound in BOUNDS], math.inf]
    assert (buckets["1e-05"], buckets["0.0003"], buckets["0.0005"], buckets["10.0"], buckets["+Inf"]) == (1, 1, 3, 3, 4)


@both
@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_label_is_read_as_what_it_was_and_breaks_nothing(format: str, value: str) -> None:
    families = [labelled(Kind.GAUGE, "penstock_a", "Measures.", "adapter", {value: 1}), gauge("penstock_b", "Too.", 2)]
    assert read(families, format) == {
        ("penstock_a", frozenset({("adapter", value)})): 1,
        ("penstock_b", NONE): 2,
    }


@given(st.sampled_from([PLAIN, OPEN_METRICS]), st.dictionaries(TEXT, st.integers(0, 2**53)), TEXT)
def test_any_label_and_any_help_is_read_as_what_it_was(format: str, values: dict[str, int], help: str) -> None:
    found = read([labelled(Kind.COUNTER, "penstock_a", help, "adapter", dict(values))], format)
    assert found == {("penstock_a_total", frozenset({("adapter", key)})): value for key, value in values.items()}


@both
def test_half_a_surrogate_pair_in_a_label_becomes_a_question_mark(format: str) -> None:
    families = [labelled(Kind.GAUGE, "penstock_a", "Measures.", "adapter", {"\ud800": 1})]
    assert read(families, format) == {("penstock_a", frozenset({("adapter", "?")})): 1}


@both
def test_families_of_one_name_are_written_as_one(format: str) -> None:
    families = [Family("penstock_a", Kind.GAUGE, "Measures.", (Sample(i, (("port", str(i)),)),)) for i in range(3)]
    families.insert(1, gauge("penstock_b", "Comes between.", 0))
    written = text(families, format)
    assert written.count("# TYPE penstock_a gauge") == 1
    assert [family.name for family in merged(families)] == ["penstock_a", "penstock_b"]
    assert len(read(families, format)) == 4


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (True, "1"),
        (3.0, "3"),
        (0.1, "0.1"),
        (1e300, str(int(1e300))),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_both_formats_have_them(value: float, expected: str) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, PLAIN),
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/plain", PLAIN),
        ("application/openmetrics-text", OPEN_METRICS),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", OPEN_METRICS),
        # Prometheus 2 and 3.
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            OPEN_METRICS,
        ),
        ("text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5", PLAIN),
        ("application/openmetrics-text;version=0.0.1,*/*;q=0.1", PLAIN),
        ("application/openmetrics-text;q=0", PLAIN),
        ("application/openmetrics-text;q=much", PLAIN),
        (";;,=,q=;q", PLAIN),
    ],
)
def test_the_format_is_what_the_accept_header_prefers(accept: str | None, expected: str) -> None:
    assert chosen_format(accept) == expected


def test_promtool_finds_nothing_wrong_with_hostile_labels() -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None, "make system-setup installs it"
    families = [
        labelled(
            Kind.GAUGE, "penstock_adapters", 'A "help" with \\ and\ntwo lines.', "adapter", dict.fromkeys(HOSTILE, 1)
        ),
        counter("penstock_events", "Counts.", 1),
        durations("penstock_lag_seconds", "Lasts.", Histogram()),
        info("penstock_build", "Says.", [("version", "1")]),
    ]
    written = asyncio.run(exposition(families, PLAIN))
    done = subprocess.run([promtool, "check", "metrics"], input=written, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_long_expositions_let_others_have_their_turn() -> None:
    async def main() -> int:
        turns = 0
        task = asyncio.ensure_future(exposition([gauge(f"penstock_{i}", "", i) for i in range(200)], PLAIN))
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(main()) >= 8
