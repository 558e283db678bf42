"""Where a board is shown: the whole of a terminal, which is left as it was found, or text and JSON for scripts.

Not here: how it looks (`board_picture`), what is on it (`board`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import termios
import tty
from datetime import datetime
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from penstock.client.board import FigureBoard
from penstock.client.board_picture import picture, shares
from penstock.client.status import Status
from penstock.client.views import Reports, output_encoding, plain, print_line

# Seconds from a change to its picture: rows of one sample come together.
DRAWING_SECONDS = 0.1

# Columns of a page for scripts: all columns fit.
PAGE_WIDTH = 200


class BoardView(Protocol):
    """Where a board is seen."""

    # Set when it is to be seen no longer.
    left: asyncio.Event

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> object: ...
    def sampled(self) -> None: ...
    def changed(self) -> None: ...
    def take_status(self, status: Status) -> None: ...


class BoardPages:
    """A page for each sample, beginning with the first that is complete."""

    def __init__(self, board: FigureBoard, title: str, as_json: bool, once: bool, rows: int) -> None:
        self.left = asyncio.Event()
        self._board = board
        self._title = title
        self._as_json = as_json
        self._once = once
        self._rows = rows
        self._reports = Reports(events_count=False)

    def __enter__(self) -> BoardPages:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def take_status(self, status: Status) -> None:
        self._reports.tell(status)

    def changed(self) -> None:
        pass

    def sampled(self) -> None:
        if self.left.is_set() or not self._board.is_complete:
            return
        if self._as_json:
            time = datetime.now().astimezone().isoformat(timespec="milliseconds")
            written = {"time": time, **self._board.as_json(self._rows)}
            print_line(json.dumps(written, ensure_ascii=not output_encoding().startswith("utf")))
        else:
            self._print_page()
        if self._once:
            self.left.set()

    def _print_page(self) -> None:
        console = Console(width=PAGE_WIDTH, color_system=None, force_terminal=False)
        with console.capture() as capture:
            console.print(picture(self._board, _title(self._title), PAGE_WIDTH, self._rows, self._rows))
        for line in capture.get().splitlines():
            print_line(line.rstrip())
        print_line("")


class BoardScreen:
    """The whole terminal, drawn again when something has changed; keys choose orders."""

    def __init__(self, board: FigureBoard, title: str) -> None:
        self.left = asyncio.Event()
        self._board = board
        self._title = title
        self._reports = Reports(events_count=False)
        self._report = ""
        self._is_stale = False
        self._console = Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False, get_renderable=self._picture)
        self._drawing: asyncio.TimerHandle | None = None
        # How the terminal took what is typed, before.
        self._typing: list[Any] | None = None

    def __enter__(self) -> BoardScreen:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self.draw)
        # Else the terminal would be left without a cursor and on its other screen.
        loop.add_signal_handler(signal.SIGTERM, self.left.set)
        if sys.stdin.isatty():
            self._typing = termios.tcgetattr(sys.stdin)
            # A key at a time, and not shown; Ctrl-C stays what it is.
            tty.setcbreak(sys.stdin)
            loop.add_reader(sys.stdin, self._read_keys)
        self._live.start()
        self.draw()
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_signal_handler(signal.SIGTERM)
        if self._drawing is not None:
            self._drawing.cancel()
        try:
            self._live.stop()
        finally:
            if self._typing is not None:
                loop.remove_reader(sys.stdin)
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._typing)

    def sampled(self) -> None:
        self.changed()

    def changed(self) -> None:
        if self._drawing is None:
            self._drawing = asyncio.get_running_loop().call_later(DRAWING_SECONDS, self.draw)

    def draw(self) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            self._drawing = None
        self._live.refresh()

    def take_status(self, status: Status) -> None:
        self._report = self._reports.of(status)
        self._is_stale = not status.connected
        # The first comes before there is a screen.
        if self._live.is_started:
            self.changed()

    def _read_keys(self) -> None:
        keys = os.read(sys.stdin.fileno(), 64)
        if not keys:
            asyncio.get_running_loop().remove_reader(sys.stdin)
        for key in keys.decode("ascii", "replace").lower():
            if key == "q":
                self.left.set()
            elif key == "s":
                self._board.sessions.next_order()
            elif key == "i":
                self._board.items.next_order()
        self.draw()

    def _picture(self) -> Group:
        width, height = self._console.size
        title = f"{_title(self._title)}   q quit, s order of sessions, i order of items"
        if not self._report:
            return picture(self._board, title, width, *shares(self._board, height))
        report = Text(f"penstock: {plain(self._report)}", "bold red" if self._is_stale else "green", no_wrap=True)
        report.truncate(width, overflow="ellipsis")
        return Group(report, picture(self._board, title, width, *shares(self._board, height - 1)))


def _title(title: str) -> str:
    return f"penstock top: {title}, {datetime.now().astimezone():%H:%M:%S}"
