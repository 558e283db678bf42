"""What `penstock top` knows: rows in order, against a naive sort; numbers; columns and rows for which there is room."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from rich.console import Console

from penstock.client.board import (
    ITEM_NUMBERS,
    ITEM_ORDERS,
    ITEM_TEXTS,
    SESSION_NUMBERS,
    SESSION_ORDERS,
    SESSION_TEXTS,
    STATISTICS,
    FigureBoard,
    Ranking,
    Row,
    number,
)
from penstock.client.board_picture import ITEM_COLUMNS, SESSION_COLUMNS, bits, fitting, picture, rate, shares, size
from penstock.monitor.statistics import FIELDS


def session(key: str, command: str = "ADD", **fields: str | None) -> Row:
    return {
        "command": command,
        **dict.fromkeys(SESSION_TEXTS),
        **dict.fromkeys(SESSION_NUMBERS, "0"),
        "key": key,
        **fields,
    }


def item(key: str, command: str = "ADD", **fields: str | None) -> Row:
    return {"command": command, **dict.fromkeys(ITEM_TEXTS), **dict.fromkeys(ITEM_NUMBERS, "0"), "key": key, **fields}


def drawn(board: FigureBoard, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(picture(board, "a title", width, *shares(board, height)))
    return capture.get().splitlines()


def test_every_statistic_that_is_asked_for_is_one_of_the_server() -> None:
    assert [name for name in STATISTICS if name not in FIELDS] == []
    assert len(set(STATISTICS)) == len(STATISTICS)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.sampled_from(["ADD", "UPDATE", "DELETE"]),
        st.integers(0, 3),
        st.sampled_from(["0.0", "7.5", "12.0"]),
    )
)


@given(CHANGES, st.sampled_from(list(SESSION_ORDERS)), st.integers(1, 7))
def test_the_first_rows_are_those_of_a_plain_sort(
    changes: list[tuple[str, str, int, str]], order: str, count: int
) -> None:
    ranking = Ranking(SESSION_ORDERS, order)
    plain: dict[str, Row] = {}
    for key, command, waiting, bandwidth in changes:
        row = session(key, command, unsent_bytes=str(waiting), bandwidth=bandwidth, lost=str(3 - waiting))
        ranking.take(row)
        plain.pop(key, None) if command == "DELETE" else plain.update({key: row})
    wanted = sorted(plain.values(), key=lambda row: [-number(row[field]) for field in SESSION_ORDERS[order]])
    assert ranking.first(count) == wanted[:count]


def test_orders_follow_one_another_and_begin_again() -> None:
    ranking = Ranking(ITEM_ORDERS, "events")
    seen = []
    for _ in range(4):
        seen.append(ranking.order)
        ranking.next_order()
    assert seen == ["events", "total", "subscribers", "events"]


def test_scripts_get_numbers_as_numbers() -> None:
    board = FigureBoard("slowest", "events")
    board.sample({"CLIENTS.SESSIONS": "3", "CPU.PERCENT": "1.5", "AGE.P50": None})
    board.sessions.take(session("s1", user="ada", bandwidth="12.5", max_bandwidth=None, lost="4"))
    board.items.take(item("A/B/c", item="c", events="7"))
    written: dict[str, Any] = board.as_json(10)
    statistics, (one,), (hot,) = written["statistics"], written["sessions"], written["items"]
    assert (statistics["CLIENTS.SESSIONS"], statistics["CPU.PERCENT"], statistics["AGE.P50"]) == (3, 1.5, None)
    assert (one["user"], one["bandwidth"], one["max_bandwidth"], one["lost"]) == ("ada", 12.5, None, 4)
    assert (hot["item"], hot["events"]) == ("c", 7)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (size(0), "0 B"),
        (size(999), "999 B"),
        (size(1500), "1.5 kB"),
        (size(999_600), "1.0 MB"),
        (size(123_000_000), "123 MB"),
        (size(5e15), "5,000.0 TB"),
        (bits(0.4), "0.4 kbit/s"),
        (bits(25_000), "25 Mbit/s"),
        (rate(0), "0/s"),
        (rate(0.25), "0.2/s"),
        (rate(12_345.6), "12,346/s"),
    ],
)
def test_numbers_are_short(text: str, shown: str) -> None:
    assert text == shown


@given(st.integers(1, 300))
def test_columns_fit_and_the_most_important_are_there_first(width: int) -> None:
    for columns in (SESSION_COLUMNS, ITEM_COLUMNS):
        shown = fitting(columns, width)
        assert sum(column.width + 1 for column in shown) <= width or shown == [columns[0]]
        left_out = [column.importance for column in columns if column not in shown]
        if len(shown) > 1:
            assert max(column.importance for column in shown) <= min(left_out, default=99)
    assert fitting(SESSION_COLUMNS, 200) == list(SESSION_COLUMNS)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(16, 70), st.integers(20, 220))
def test_the_picture_fits_into_the_terminal_and_uses_its_room(
    sessions: int, items: int, height: int, width: int
) -> None:
    board = FigureBoard("slowest", "events")
    board.sample(dict.fromkeys(STATISTICS, "1"))
    for index in range(sessions):
        board.sessions.take(session(f"s{index}", user="a name that is far too long for its column"))
    for index in range(items):
        board.items.take(item(f"i{index}", item=f"i{index}"))
    lines = drawn(board, width, height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    # One line is left for what comes.
    hidden = 5 + 8 + sessions + items - len(lines)
    assert hidden <= 0 or len(lines) == height


def test_what_is_wrong_stands_out_and_parts_that_are_not_there_are_left_out() -> None:
    board = FigureBoard("slowest", "events")
    assert "no figures yet" in drawn(board, 100, 30)[1]
    board.sample({"CLIENTS.SESSIONS": "1"})
    assert not [line for line in drawn(board, 100, 30) if line.startswith(("journal", "others"))]
    board.sample({"JOURNAL.FAILED": "1", "TLEX.SESSIONS": "2", "PIPELINE.QUERIES": "1", "PIPELINE.LAG": "2500"})
    text = "\n".join(drawn(board, 120, 30))
    assert "journal    CANNOT BE WRITTEN; 0/s records" in text
    assert "others     TLEX 2 sessions, 0/s payloads, 0 dropped; pipeline 1 queries, 2.5 s behind" in text


def test_names_can_neither_move_the_cursor_nor_be_markup() -> None:
    board = FigureBoard("slowest", "events")
    board.sessions.take(session("s1", user="\x1b[2J[red]\n"))
    lines = drawn(board, 200, 30)
    assert [line for line in lines if "\\x1b[2J[red]\\n" in line]
    assert not [line for line in lines if "\x1b" in line]
