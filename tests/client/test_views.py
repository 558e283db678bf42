"""The table of `penstock watch`: ages, colours, bars, and how the connection is."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from penstock.client.status import Status
from penstock.client.subscription import ItemUpdate
from penstock.client.views import BARS, LiveTable, Reports, age, bars, number


def update(item: str, **values: str | None) -> ItemUpdate:
    return ItemUpdate(item, values, values, False)


def shown(table: LiveTable, width: int = 80, **options: bool) -> str:
    file = StringIO()
    Console(file=file, width=width, **options).print(table._shown())  # type: ignore[arg-type]
    return file.getvalue()


def test_bars_are_as_high_as_the_values() -> None:
    assert bars([]) == ""
    assert bars([5.0]) == BARS[0]
    assert bars([1.0, 1.0]) == BARS[0] * 2
    assert bars([float(value) for value in range(8)]) == BARS
    assert bars([-1.7e308, 1.7e308]) == BARS[0] + BARS[-1]


@pytest.mark.parametrize(("seconds", "text"), [(-1, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600, "1 h")])
def test_an_age_is_short(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_an_outage_begins_when_the_connection_is_lost_not_when_the_server_was_last_heard() -> None:
    now = 1_003.2
    reports = Reports(events_count=False, clock=lambda: now)
    assert reports.of(Status(True, 900.0, sessions=1)) == ""
    # The server had nothing to say for three seconds.
    assert reports.of(Status(False, 1_000.0, "gone", 1)).startswith("connection lost")
    now = 1_003.4
    assert reports.of(Status(False, 1_000.0, "nothing listens there", 1)).startswith("still no connection")
    assert reports.of(Status(True, 1_003.6, sessions=1)) == "connected again after 0.4 s"


@pytest.mark.parametrize("value", [None, "", "abc", "nan", "inf"])
def test_what_cannot_be_drawn_is_no_number(value: str | None) -> None:
    assert number(value) is None


def test_the_table_says_how_old_a_value_is_and_that_nothing_has_come_yet() -> None:
    now = 100.0
    table = LiveTable(("a", "b"), ("price",), clock=lambda: now)
    assert "connecting…" in shown(table)
    table.take_status(Status(True, 0.0))
    table.take(update("a", price="1"))
    now = 107.0
    lines = shown(table).splitlines()
    assert lines[0].strip() == "penstock: connected"
    assert lines[2].split() == ["a", "1", "7", "s"]
    assert lines[3].split() == ["b", "-", "-"]


def test_a_number_is_green_when_it_goes_up_and_red_when_it_goes_down_unless_colours_are_off() -> None:
    table = LiveTable(("a",), ("price",), clock=lambda: 0.0)
    table.take_status(Status(True, 0.0))
    for price in ("1", "2"):
        table.take(update("a", price=price))
    assert "\x1b[32m2" in shown(table, force_terminal=True)
    assert "\x1b[3" not in shown(table, force_terminal=True, no_color=True)
    table.take(update("a", price="1"))
    assert "\x1b[31m1" in shown(table, force_terminal=True)


def test_the_last_values_of_a_field_are_bars() -> None:
    table = LiveTable(("a",), ("price", "name"), sparkline="price", clock=lambda: 0.0)
    for price in range(8):
        table.take(update("a", price=str(price), name="x"))
    table.take(update("a", price="n/a", name="x"))
    assert BARS in shown(table)


def test_a_narrow_terminal_gets_a_table_all_the_same() -> None:
    table = LiveTable(("a-long-name-of-an-item",), ("price", "name"), sparkline="price", clock=lambda: 0.0)
    table.take(update("a-long-name-of-an-item", price="1", name="also long" * 5))
    assert all(len(line) <= 20 for line in shown(table, width=20).splitlines())
