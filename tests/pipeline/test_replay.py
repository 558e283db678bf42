from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.history.reader import History, JournaledEvent
from penstock.pipeline.errors import BadOption
from penstock.pipeline.outlet import Delivery
from penstock.pipeline.replay import TOGETHER, Replay, Replayed, past
from tests.pipeline.world import NOON, SECOND, make_journal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stage:
    """An outlet and a clock in one: `sent` says what was published when; a request takes as long as `takes` says."""

    def __init__(self, takes: Iterable[float] = ()) -> None:
        self.now = 100.0
        self.sent: list[tuple[float, list[dict[str, Any]]]] = []
        self.batches: list[int] = []
        self.modes: set[str] = set()
        self._takes = iter(takes)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def put_batch(self, query: str, batch: int, table: pa.Table, mode: str) -> Delivery:
        self.sent.append((round(self.now - 100.0, 6), table.to_pylist()))
        self.batches.append(batch)
        self.modes.add(mode)
        self.now += next(self._takes, 0.0)
        return Delivery(table.num_rows)

    @property
    def times(self) -> list[float]:
        return [when for when, _ in self.sent]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for _, rows in self.sent for row in rows]


def event(
    second: float, item: str = "a", kind: str = "update", value: str | None = None, **fields: Any
) -> JournaledEvent:
    text = value if value is not None or kind == "clear" else json.dumps(fields or {"at": str(second)})
    return JournaledEvent(int(second * 1_000) + 1, f"S/A/{item}", 1, NOON + int(second * SECOND), kind, "", text, None)


def replay(stage: Stage, events: Iterable[JournaledEvent], **more: Any) -> Replayed:
    return Replay(stage, clock=stage.clock, sleep=stage.sleep, **more).run(events)


def test_events_go_out_when_they_are_due() -> None:
    stage = Stage()
    result = replay(stage, [event(0), event(1), event(1.5), event(10)])
    assert stage.times == [0, 1, 1.5, 10]
    assert result == Replayed(4, 4, 0, 0.0)
    assert stage.batches == [0, 1, 2, 3]


@pytest.mark.parametrize("speed", [2, 10, 1_000])
def test_a_thousand_times_as_fast_is_a_thousand_times_as_fast(speed: float) -> None:
    stage = Stage()
    replay(stage, [event(0), event(1_000), event(3_000)], speed=speed)
    assert stage.times == [0, 1_000 / speed, 3_000 / speed]


def test_events_that_are_close_together_share_a_batch_in_their_order() -> None:
    stage = Stage()
    replay(stage, [event(number * TOGETHER / 4, at=str(number)) for number in range(12)])
    assert [int(row["at"]) for row in stage.rows] == list(range(12))
    assert len(stage.sent) == 3


def test_a_batch_has_no_more_rows_than_allowed() -> None:
    stage = Stage()
    replay(stage, [event(0) for _ in range(10)], max_rows=4)
    assert [len(rows) for _, rows in stage.sent] == [4, 4, 2]


def test_a_little_late_is_caught_up_with() -> None:
    stage = Stage(takes=[0.5])
    result = replay(stage, [event(0), event(0.2), event(0.4), event(2)])
    assert stage.times == [0, 0.5, 0.5, 2]
    assert result.shifted == 0


def test_after_a_long_pause_the_rest_is_shifted_and_nothing_is_skipped_or_comes_in_a_burst() -> None:
    stage = Stage(takes=[0, 30])
    result = replay(stage, [event(0), event(1), event(2), event(3)])
    assert stage.times == [0, 1, 32, 33]
    assert result.shifted == pytest.approx(30)


def test_times_that_fall_back_do_not_turn_back_the_order() -> None:
    stage = Stage()
    replay(stage, [event(5, at="1"), event(3, at="2"), event(6, at="3")])
    assert [row["at"] for row in stage.rows] == ["1", "2", "3"]
    assert stage.times == [0, 1]


def test_fields_that_an_update_does_not_have_are_as_they_were() -> None:
    stage = Stage()
    replay(stage, [event(0, bid="1", ask="2"), event(0, bid="3"), event(0, "b", bid="9"), event(5, ask=None)])
    assert stage.rows == [
        {"item": "a", "bid": "1", "ask": "2"},
        {"item": "a", "bid": "3", "ask": "2"},
        {"item": "b", "bid": "9", "ask": None},
        {"item": "a", "bid": "3", "ask": None},
    ]


def test_rows_of_a_table_are_each_as_they_were_until_they_are_deleted() -> None:
    stage = Stage()
    events = [
        event(0, key="k", command="ADD", v="1", w="1"),
        event(0, key="l", command="ADD", v="2"),
        event(0, key="k", command="UPDATE", v="3"),
        event(0, key="k", command="DELETE"),
        event(0, key="k", command="ADD", v="4"),
    ]
    replay(stage, events, mode="COMMAND")
    assert [(row["key"], row["command"], row["v"], row["w"]) for row in stage.rows] == [
        ("k", "ADD", "1", "1"),
        ("l", "ADD", "2", None),
        ("k", "UPDATE", "3", "1"),
        ("k", "DELETE", None, None),
        ("k", "ADD", "4", None),
    ]
    assert stage.modes == {"COMMAND"}


def test_distinct_events_have_what_they_had() -> None:
    stage = Stage()
    replay(stage, [event(0, a="1"), event(0, b="2")], mode="DISTINCT")
    assert stage.rows == [{"item": "a", "a": "1", "b": None}, {"item": "a", "a": None, "b": "2"}]


def test_what_has_no_fields_is_skipped_and_counted() -> None:
    stage = Stage()
    events = [event(0), event(0, kind="clear"), event(0, value="[1]"), event(0, value="{"), event(0, kind="batch")]
    assert replay(stage, events) == Replayed(1, 1, 4, 0.0)


def test_items_are_named_as_asked() -> None:
    stage = Stage()
    replay(stage, [event(0, "x/y")], item="again.{item}")
    replay(stage, [event(0, "x/y")], item="{entity}")
    assert [row["item"] for row in stage.rows] == ["again.x/y", "S/A/x/y"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"speed": 0}, "speed is 0; allowed: 1 to 1000"),
        ({"speed": 1_001}, "speed is 1001"),
        ({"speed": float("nan")}, "speed is nan"),
        ({"mode": "RAW"}, "mode is 'RAW'"),
        ({"item": ""}, "item is empty"),
    ],
)
def test_what_cannot_be_is_named(more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        Replay(Stage(), **more)


def moment(second: float) -> datetime:
    return EPOCH + timedelta(microseconds=NOON + int(second * SECOND))


def test_a_range_of_the_journal_is_replayed_in_the_order_in_which_it_was_journaled(tmp_path: Path) -> None:
    journal = make_journal(
        tmp_path / "journal",
        [(f"S/A/{'ab'[number % 2]}", "update", json.dumps({"n": str(number)})) for number in range(10)]
        + [("S/B/c", "update", '{"n":"99"}', NOON)],
    )
    history = History(journal, tmp_path / "lake")
    stage = Stage()
    result = replay(stage, past(history, ["S/A/*"], moment(2), moment(7)), speed=10)
    assert [(row["item"], row["n"]) for row in stage.rows] == [
        ("a", "2"), ("b", "3"), ("a", "4"), ("b", "5"), ("a", "6"),
    ]  # fmt: skip
    assert stage.times == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert result.events == 5
    with pytest.raises(BadOption, match="no journaled entity has such a name"):
        past(history, ["S/X/*"], moment(0), moment(1))
    with pytest.raises(BadOption, match="which is not before until"):
        past(history, ["S/A/*"], moment(1), moment(1))
    with pytest.raises(BadOption, match="need their zone"):
        past(history, ["S/A/*"], datetime(2026, 1, 1), moment(1))  # noqa: DTZ001
