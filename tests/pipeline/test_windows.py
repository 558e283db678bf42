from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipeline.errors import BadOption
from penstock.pipeline.outlet import BatchRefused
from penstock.pipeline.target import Target
from penstock.pipeline.windows import WindowPublisher, WindowStep, advance, seconds_of
from tests.pipeline.sink_server import TOKEN, SinkServer

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DELAY = timedelta(seconds=2)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [("stock", pa.string()), ("size", pa.string()), ("start", TIME), ("end", TIME), ("n", pa.int64()), ("newest", TIME)]
)

# Stock, start and count; the newest event is half a second after the window's start unless told.
Window = tuple[str, float, int] | tuple[str, float, int, float]


def windows(*given: Window, seconds: int = 1) -> pa.Table:
    rows = []
    for stock, start, count, *newest in given:
        begin = BEGIN + timedelta(seconds=start)
        last = BEGIN + timedelta(seconds=newest[0]) if newest else begin + timedelta(seconds=0.5)
        end = begin + timedelta(seconds=seconds)
        rows.append({"stock": stock, "size": f"{seconds}s", "start": begin, "end": end, "n": count, "newest": last})
    return pa.Table.from_pylist(rows, SCHEMA)


def shown(table: pa.Table) -> list[tuple[str, float, int]]:
    return [(row["stock"], (row["start"] - BEGIN).total_seconds(), row["n"]) for row in table.to_pylist()]


def run(*batches: pa.Table) -> list[WindowStep]:
    steps: list[WindowStep] = []
    for batch in batches:
        steps.append(advance(steps[-1].left if steps else None, batch, ("stock",), DELAY))
    return steps


NOTHING = windows()


def test_a_window_that_grows_is_shown_each_time_and_closed_once() -> None:
    steps = run(windows(("a", 0, 1)), windows(("a", 0, 2)), windows(("a", 3, 1)), NOTHING, NOTHING)
    assert [shown(step.growing) for step in steps] == [[("a", 0, 1)], [("a", 0, 2)], [("a", 3, 1)], [], []]
    # The newest event is at 3.5: windows are closed up to 1.5, with the batch after it.
    assert [shown(step.closed) for step in steps] == [[], [], [], [("a", 0, 2)], []]


def test_a_window_is_closed_by_events_of_other_stocks_as_well() -> None:
    steps = run(windows(("a", 0, 1), ("b", 9, 1)), windows(("b", 9, 2)))
    assert [shown(step.closed) for step in steps] == [[], [("a", 0, 1)]]


def test_the_end_of_a_window_is_reached_exactly() -> None:
    assert shown(run(windows(("a", 0, 1), ("b", 3, 1, 3.0)), NOTHING)[1].closed) == [("a", 0, 1)]
    # Spark counts in milliseconds: less than one of them past is not yet past.
    assert shown(run(windows(("a", 0, 1), ("b", 2, 1, 2.9999)), NOTHING)[1].closed) == []


def test_late_events_change_a_window_that_is_still_open_but_do_not_bring_it_back() -> None:
    steps = run(windows(("a", 0, 1)), windows(("a", 1, 1)), windows(("a", 0, 2)), windows(("a", 4, 1)), NOTHING)
    assert [shown(step.growing) for step in steps] == [[("a", 0, 1)], [("a", 1, 1)], [], [("a", 4, 1)], []]
    assert shown(steps[4].closed) == [("a", 0, 2), ("a", 1, 1)]


def test_a_window_that_grows_in_the_batch_that_closes_it_has_its_last_figures_in_both() -> None:
    steps = run(windows(("a", 0, 1), ("b", 9, 1)), windows(("a", 0, 2)))
    assert shown(steps[1].growing) == [("a", 0, 2)]
    assert shown(steps[1].closed) == [("a", 0, 2)]


def test_what_was_closed_is_not_changed_or_closed_again() -> None:
    steps = run(windows(("a", 0, 1), ("b", 9, 1)), NOTHING, windows(("a", 0, 5)), NOTHING)
    assert [shown(step.closed) for step in steps] == [[], [("a", 0, 1)], [], []]
    assert shown(steps[2].growing) == []


def test_of_several_new_windows_the_newest_is_the_one_that_grows() -> None:
    step = run(windows(("a", 1, 1), ("a", 0, 4), ("b", 0, 2), ("a", 2, 3)))[0]
    assert shown(step.growing) == [("b", 0, 2), ("a", 2, 3)]


def test_each_size_has_its_own_windows() -> None:
    both = pa.concat_tables([windows(("a", 0, 1)), windows(("a", 0, 7), seconds=10)])
    steps = run(both, windows(("b", 5, 1)), windows(("b", 30, 1)), NOTHING)
    assert shown(steps[0].growing) == [("a", 0, 1), ("a", 0, 7)]
    assert shown(steps[2].closed) == [("a", 0, 1)]
    assert shown(steps[3].closed) == [("b", 5, 1), ("a", 0, 7)]


def test_nothing_at_all_is_no_problem() -> None:
    steps = run(NOTHING, NOTHING, windows(("a", 0, 1)))
    assert shown(steps[2].growing) == [("a", 0, 1)]


@pytest.mark.parametrize(("size", "seconds"), [("1s", 1), ("10s", 10), ("1m", 60), ("2h", 7_200), ("1d", 86_400)])
def test_sizes_are_a_number_and_a_unit(size: str, seconds: int) -> None:
    assert seconds_of(size) == seconds


@pytest.mark.parametrize("size", ["", "s", "0s", "1", "1.5s", "-1s", "1w", "1000000s", " 1s"])
def test_a_size_that_is_none_is_named(size: str) -> None:
    with pytest.raises(BadOption, match="expected a whole number and s, m, h or d"):
        seconds_of(size)


# -- published ----------------------------------------------------------------------------------------------------


@pytest.fixture
def sink() -> Iterator[SinkServer]:
    with SinkServer() as running:
        yield running


def publisher(sink: SinkServer, checkpoint: Path) -> WindowPublisher:
    def target(name: str, mode: str) -> Target:
        return Target(
            sink.url, "SET", "OUT", TOKEN, item_template=f"{name}.{{stock}}", mode=mode, fields=("start", "n")
        )

    return WindowPublisher(str(checkpoint), ("stock",), DELAY, target("candle", "MERGE"), target("candles", "DISTINCT"))


BATCHES = [
    windows(("a", 0, 1), ("b", 0, 1)),
    windows(("a", 0, 2), ("a", 1, 1)),
    windows(("b", 5, 1)),
    NOTHING,
    windows(("b", 5, 2), ("a", 9, 1)),
    NOTHING,
]
CLOSED = [("candles.a", 2), ("candles.b", 1), ("candles.a", 1), ("candles.b", 2)]


def closed(sink: SinkServer) -> list[tuple[str, int]]:
    return [(row["item"], row["n"]) for row in sink.rows("q.closed")]


def test_growing_and_closed_windows_are_published_under_names_of_their_own(sink: SinkServer, tmp_path: Path) -> None:
    each = publisher(sink, tmp_path)
    for number, batch in enumerate(BATCHES):
        each.take("q", number, batch)
    assert closed(sink) == CLOSED
    assert [(row["item"], row["n"]) for row in sink.rows("q.growing")][:2] == [("candle.a", 1), ("candle.b", 1)]
    assert set(sink.modes.values()) == {"MERGE", "DISTINCT"}


def test_batches_that_are_run_again_after_a_crash_at_any_point_publish_everything_once(tmp_path: Path) -> None:
    """Each batch is tried by a new process until it gets through; each try gets one request further than the last."""
    for crash_at in range(1, 4):
        with SinkServer() as sink:
            # A refusal ends the try, as a crash would; what came before it has been published.
            sink.faults = cycle([*[""] * crash_at, 500])
            for number, batch in enumerate(BATCHES):
                while True:
                    try:
                        publisher(sink, tmp_path / str(crash_at)).take("q", number, batch)
                        break
                    except BatchRefused:
                        continue
            assert closed(sink) == CLOSED
