"""Where `penstock watch` shows updates: a line for each, or a table that changes. Both say when the server is away.

Not here: what is watched (`watching`).
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import typer

if TYPE_CHECKING:
    from rich.console import Group

    from penstock.client import ItemUpdate, Status


class UpdateView(Protocol):
    """Where updates are seen."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> object: ...
    def take(self, update: ItemUpdate) -> None: ...
    def take_status(self, status: Status) -> None: ...


def choose(
    items: tuple[str, ...],
    fields: tuple[str, ...],
    mode: str,
    as_json: bool,
    all_fields: bool = False,
    sparkline: str | None = None,
) -> UpdateView:
    # One row for each item is all there is to see only where values replace each other.
    if mode == "MERGE" and sys.stdout.isatty() and not as_json:
        return LiveTable(items, fields, sparkline)
    always = fields if all_fields else ROW if mode == "COMMAND" else ()
    return UpdateLines(as_json, always, mode != "MERGE")


# Which row of a table an update is about, and what becomes of it.
ROW = "key", "command"


class Reports:
    """What there is to say about the connection."""

    def __init__(self, events_count: bool, clock: Callable[[], float] = time.time) -> None:
        # Whether each event counts: then what has happened while there was no session is missing for good.
        self._events_count = events_count
        self._clock = clock
        self._before: Status | None = None
        # When the connection was lost. The server may have said nothing for long before that.
        self._lost = 0.0

    def of(self, status: Status) -> str:
        """Empty if all is as it should be from the beginning."""
        before, self._before = self._before, status
        if not status.connected:
            since = f"{datetime.fromtimestamp(status.since).astimezone():%H:%M:%S}"
            if before is None or before.connected:
                self._lost = self._clock()
                return f"connection lost, trying again; nothing is known since {since}: {status.reason}"
            return f"still no connection since {since}, trying again: {status.reason}"
        if before is None:
            return ""
        back = f"connected again after {max(0.0, status.since - self._lost):.1f} s"
        if self._events_count and status.sessions > before.sessions:
            return f"{back}, in a new session: updates of this time may be missing"
        return back

    def tell(self, status: Status) -> None:
        """Beside the lines, which programs may read."""
        report = self.of(status)
        if report:
            typer.echo(f"penstock: {report}", err=True)


class UpdateLines:
    """An update a line: when, which item, and what has changed; of a snapshot, everything; some fields in any case."""

    def __init__(self, as_json: bool, always: tuple[str, ...] = (), events_count: bool = False) -> None:
        self._as_json = as_json
        self._always = always
        self._reports = Reports(events_count)

    def __enter__(self) -> UpdateLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def take_status(self, status: Status) -> None:
        self._reports.tell(status)

    def take(self, update: ItemUpdate) -> None:
        now = datetime.now().astimezone()
        fields = {
            name: value for name, value in update.values.items() if name in update.changed or name in self._always
        }
        if self._as_json:
            time = now.isoformat(timespec="milliseconds")
            written = {"time": time, "item": update.item, "snapshot": update.is_snapshot, "fields": fields}
            # JSON has escapes of its own for what the output's encoding may lack.
            print_line(json.dumps(written, ensure_ascii=not output_encoding().startswith("utf")))
            return
        changes = "  ".join(f"{name}={plain(value)}" for name, value in fields.items())
        print_line(f"{f'{now:%H:%M:%S.%f}'[:-3]}  {update.item}  {changes}")


BARS = "▁▂▃▄▅▆▇█"
SPARKS = 24
"""Values of a sparkline; more would not fit beside the others."""


def number(value: str | None) -> float | None:
    """None if it is not one that can be drawn."""
    try:
        found = float(value or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def bars(values: Sequence[float]) -> str:
    """As high as the values are between the lowest and the highest of them."""
    if not values:
        return ""
    low, high = min(values), max(values)
    # Halved before they are subtracted: the difference of two numbers may be too large to be one.
    step = high / 2 - low / 2
    scale = len(BARS) - 1
    return "".join(BARS[round((value / 2 - low / 2) / step * scale) if step else 0] for value in values)


def age(seconds: float) -> str:
    """Short, because it changes all the time."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h"


class LiveTable:
    """A row for each item, always as it is now: how old it is, and a number in green or red after it went up or down.

    Grey while it may be out of date; the line above says how the connection is.
    """

    def __init__(
        self,
        items: tuple[str, ...],
        fields: tuple[str, ...],
        sparkline: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.live import Live

        self._fields = fields
        self._sparkline = sparkline
        self._clock = clock
        self._rows: dict[str, tuple[str | None, ...]] = dict.fromkeys(items, (None,) * len(fields))
        self._styles: dict[str, tuple[str, ...]] = {}
        self._came: dict[str, float] = {}
        self._past: dict[str, deque[float]] = {item: deque(maxlen=SPARKS) for item in items}
        self._reports = Reports(events_count=False)
        self._report = "connecting…"
        self._is_stale = True
        self._live = Live(get_renderable=self._shown, refresh_per_second=10)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def take(self, update: ItemUpdate) -> None:
        item = update.item
        before, now = self._rows[item], tuple(update.values[name] for name in self._fields)
        self._rows[item] = now
        self._came[item] = self._clock()
        self._styles[item] = tuple(map(_direction, before, now))
        if self._sparkline is not None and (value := number(update.values[self._sparkline])) is not None:
            self._past[item].append(value)

    def take_status(self, status: Status) -> None:
        self._report = self._reports.of(status) or "connected"
        self._is_stale = not status.connected

    def _shown(self) -> Group:
        from rich.console import Group
        from rich.table import Table as Grid
        from rich.text import Text

        now = self._clock()
        grid = Grid("item", *self._fields, *([] if self._sparkline is None else [""]), "age", box=None)
        for item, values in self._rows.items():
            styles = self._styles.get(item, ("",) * len(values))
            # As text: what looks like markup is data.
            cells = [
                Text(plain(value), "dim" if self._is_stale else style)
                for value, style in zip(values, styles, strict=True)
            ]
            if self._sparkline is not None:
                cells.append(Text(bars(self._past[item])))
            came = self._came.get(item)
            grid.add_row(Text(item), *cells, Text("-" if came is None else age(now - came), "dim"))
        # Above: what is below a table may be below the end of the terminal.
        return Group(Text(f"penstock: {plain(self._report)}", "bold red" if self._is_stale else "green"), grid)


def _direction(before: str | None, now: str | None) -> str:
    """The style of a value that has become another one."""
    first, second = number(before), number(now)
    if first is None or second is None or first == second:
        return ""
    return "green" if second > first else "red"


def print_line(line: str) -> None:
    """A line of output; what its encoding does not have is written as an escape."""
    print(line.encode(output_encoding(), "backslashreplace").decode(output_encoding()), flush=True)


def output_encoding() -> str:
    return (sys.stdout.encoding or "utf-8").lower()


def plain(value: str | None) -> str:
    """For a terminal: nothing in it may move the cursor or break the line."""
    if value is None:
        return "-"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in value)
