"""How a board looks: statistics on top, then sessions and items, as many rows and columns as there is room for.

Not here: what is on it (`board`), where it is shown (`board_views`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from penstock.client.board import FigureBoard, Ranking, Row, number
from penstock.client.views import plain

# Lines that a table needs beside its rows: its title and its heads.
TABLE_LINES = 2

# Rows of a table however small the terminal is: one too many is better than none.
FEWEST_ROWS = 1


@dataclass(frozen=True, slots=True)
class Column:
    """The less important, the sooner it is left out of a narrow terminal."""

    title: str
    width: int
    importance: int
    text: Callable[[Row], str]
    is_number: bool = False


def picture(board: FigureBoard, title: str, width: int, sessions: int, items: int) -> Group:
    """With at most so many rows of each table."""
    parts: list[RenderableType] = [_line(title, width, "bold")]
    parts += [_line(line, width, style) for line, style in _head(board)]
    parts += _table("sessions", board.sessions, SESSION_COLUMNS, width, sessions)
    parts += _table("items", board.items, ITEM_COLUMNS, width, items)
    return Group(*parts)


def shares(board: FigureBoard, height: int) -> tuple[int, int]:
    """Rows of both tables: half of the room for each, and what one of them does not need for the other."""
    room = height - 1 - len(_head(board)) - 2 * TABLE_LINES
    items = len(board.items.rows)
    sessions = min(len(board.sessions.rows), max(room - min(items, room // 2), FEWEST_ROWS))
    return sessions, max(room - sessions, FEWEST_ROWS)


# -- statistics -------------------------------------------------------------------------------------------------------


def _head(board: FigureBoard) -> list[tuple[str, str]]:
    """Lines with their styles; those of parts that the server does not have or use are left out."""
    if not board.statistics:
        return [("no figures yet", "dim")]
    get = board.figure
    lines = [
        (
            f"sessions   {count(get('CLIENTS.SESSIONS'))} now, {count(get('CLIENTS.MAX_SESSIONS'))} most, "
            f"{count(get('CLIENTS.REFUSED_SESSIONS'))} refused; {count(get('CLIENTS.STREAMING_SESSIONS'))} streaming, "
            f"{count(get('CLIENTS.POLLING_SESSIONS'))} polling; {count(get('CLIENTS.CONNECTIONS'))} connections",
            "",
        ),
        (
            f"updates    {rate(get('ITEMS.EVENTS_SEC'))} in, {rate(get('UPDATES.EVENTS_SEC'))} out, "
            f"{rate(get('UPDATES.FILTERED_SEC'))} filtered, {rate(get('UPDATES.LOST_SEC'))} lost "
            f"({count(get('UPDATES.TOTAL_LOST'))} in all); {count(get('ITEMS.TOTAL'))} items, "
            f"{count(get('CLIENTS.ITEM_SUBSCR'))} subscribed; {rate(get('MESSAGES.EVENTS_SEC'))} messages",
            "yellow" if get("UPDATES.LOST_SEC") else "",
        ),
        (
            f"bandwidth  {bits(get('BANDWIDTH.CURRENT'))} now, {bits(get('BANDWIDTH.HIGHEST'))} highest; "
            f"unsent {size(get('UNSENT.BYTES'))} to {count(get('UNSENT.CONNECTIONS'))} connections, "
            f"waiting {size(get('WAITING.BYTES'))}",
            "",
        ),
        (
            f"lag        {_quantiles(board, 'LOOP.LAG_P50', 'LOOP.LAG_P99', 'LOOP.LAG_MAX')}; "
            f"age of data {_quantiles(board, 'AGE.P50', 'AGE.P99', 'AGE.MAX')}",
            "",
        ),
        (
            f"process    {get('CPU.PERCENT'):.0f} % of a core, {size(get('MEMORY.RSS'))}, "
            f"{count(get('THREADS'))} threads, "
            f"{count(get('DESCRIPTORS.OPEN'))} of {count(get('DESCRIPTORS.LIMIT'))} descriptors",
            "",
        ),
        (
            f"adapters   {rate(get('ADAPTERS.CALLS_SEC'))} calls, {count(get('POOL.QUEUE'))} waiting, "
            f"{count(get('ADAPTERS.FAILED'))} failed",
            "bold red" if get("ADAPTERS.FAILED") else "",
        ),
    ]
    if get("JOURNAL.BYTES") or get("JOURNAL.FAILED"):
        failed = get("JOURNAL.FAILED")
        lines.append(
            (
                f"journal    {'CANNOT BE WRITTEN; ' if failed else ''}{rate(get('JOURNAL.APPENDS_SEC'))} records, "
                f"{rate(get('JOURNAL.SYNCS_SEC'))} syncs, p99 {get('JOURNAL.SYNC_P99'):.1f} ms, "
                f"{size(get('JOURNAL.BYTES'))}",
                "bold red" if failed else "",
            )
        )
    others = []
    if get("DITTO.STREAMS") or get("DITTO.COMMANDS_SEC"):
        others.append(f"Ditto {rate(get('DITTO.COMMANDS_SEC'))} commands, {count(get('DITTO.STREAMS'))} streams")
    if get("TLEX.SESSIONS"):
        others.append(
            f"TLEX {count(get('TLEX.SESSIONS'))} sessions, {rate(get('TLEX.PAYLOADS_SEC'))} payloads, "
            f"{count(get('TLEX.DROPPED'))} dropped"
        )
    if get("PIPELINE.QUERIES"):
        others.append(f"pipeline {count(get('PIPELINE.QUERIES'))} queries, {get('PIPELINE.LAG') / 1000:.1f} s behind")
    return [*lines, *([("others     " + "; ".join(others), "")] if others else [])]


def _quantiles(board: FigureBoard, *names: str) -> str:
    values = zip(("p50", "p99", "max"), names, strict=True)
    return ", ".join([f"{label} {board.figure(name):.1f}" for label, name in values]) + " ms"


# -- tables -----------------------------------------------------------------------------------------------------------


def _texts(name: str) -> Callable[[Row], str]:
    return lambda row: plain(row[name])


def _counts(name: str) -> Callable[[Row], str]:
    return lambda row: count(number(row[name]))


def _rates(name: str) -> Callable[[Row], str]:
    return lambda row: f"{number(row[name]):,.1f}"


def _opened(row: Row) -> str:
    return f"{datetime.fromtimestamp(number(row['opened_ms']) / 1000).astimezone():%d. %H:%M:%S}"


SESSION_COLUMNS = (
    Column("session", 17, 5, _texts("key")),
    Column("user", 14, 1, _texts("user")),
    Column("address", 15, 3, _texts("address")),
    Column("set", 12, 7, _texts("adapter_set")),
    Column("library", 22, 8, _texts("library")),
    Column("transport", 14, 6, _texts("transport")),
    Column("opened", 12, 10, _opened),
    Column("kbit/s", 10, 1, _rates("bandwidth"), is_number=True),
    Column("updates/s", 10, 2, _rates("updates_sec"), is_number=True),
    Column("lost", 8, 4, _counts("lost"), is_number=True),
    Column("items", 6, 9, _counts("items"), is_number=True),
    Column("unsent", 9, 2, lambda row: size(number(row["unsent_bytes"])), is_number=True),
)
ITEM_COLUMNS = (
    Column("item", 34, 1, _texts("item")),
    Column("set", 12, 3, _texts("adapter_set")),
    Column("adapter", 14, 2, _texts("data_adapter")),
    Column("mode", 8, 4, _texts("mode")),
    Column("subscribers", 11, 1, _counts("subscribers"), is_number=True),
    Column("events/s", 10, 1, _rates("events_sec"), is_number=True),
    Column("events", 14, 2, _counts("events"), is_number=True),
)

# Between two columns.
GAP = 1


def fitting(columns: tuple[Column, ...], width: int) -> list[Column]:
    """The most important ones for which there is room, in their order."""
    chosen: set[str] = set()
    room = width
    for column in sorted(columns, key=lambda each: each.importance):
        if column.width + GAP > room:
            break
        chosen.add(column.title)
        room -= column.width + GAP
    return [column for column in columns if column.title in chosen] or [columns[0]]


def _table(title: str, ranking: Ranking, columns: tuple[Column, ...], width: int, rows: int) -> list[RenderableType]:
    shown = fitting(columns, width)
    grid = Grid(box=None, padding=(0, GAP, 0, 0), header_style="bold")
    for column in shown:
        grid.add_column(
            column.title,
            width=column.width,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if column.is_number else "left",
        )
    for row in ranking.first(rows):
        # As text: what looks like markup is data.
        grid.add_row(*[Text(column.text(row)) for column in shown])
    known = count(len(ranking.rows))
    return [_line(f"{title}: {known}, by {ranking.order}", width, "reverse"), grid]


def _line(text: str, width: int, style: str) -> Text:
    line = Text(plain(text), style, no_wrap=True, overflow="ellipsis")
    line.truncate(width, overflow="ellipsis")
    return line


# -- numbers ----------------------------------------------------------------------------------------------------------


def count(value: float) -> str:
    return f"{value:,.0f}"


def rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 10 or not value else f"{value:.1f}/s"


def size(value: float) -> str:
    """Bytes in the unit that leaves at most three digits."""
    return _scaled(value, ("B", "kB", "MB", "GB", "TB"))


def bits(value: float) -> str:
    """Of kbit/s."""
    return _scaled(value, ("kbit/s", "Mbit/s", "Gbit/s"))


def _scaled(value: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        # As it will be rounded.
        if value < 999.5:
            return f"{value:.0f} {unit}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} {units[-1]}"
