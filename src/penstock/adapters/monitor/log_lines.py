"""The lines of the log as items: `monitor_log_error`, `_warning`, `_info`, and all of them as `monitor_log_output`.

Lines come from a thread of the log's own. When more come than anybody can read, the rest of a second is counted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.log import LogLine

if TYPE_CHECKING:
    from penstock.adapters.api import DataAdapter
    from penstock.adapters.monitor.overview import Overview, Row, Stop

# Lines of one item a second; beyond it they are counted only.
MAX_LINES = 200

# The levels that each item shows; None: all of them.
LEVELS = {
    "monitor_log_error": ("error", "critical"),
    "monitor_log_warning": ("warning",),
    "monitor_log_info": ("info",),
    "monitor_log_output": None,
}


class LogLines:
    """One of the items, as long as somebody is subscribed to it."""

    def __init__(self, adapter: DataAdapter, item: str) -> None:
        self._adapter = adapter
        self._item = item
        self._levels = LEVELS[item]
        self._counter = 0
        # The second that lines are counted in, and how many came in it.
        self._second = 0
        self._lines = 0

    @classmethod
    def begin(cls, adapter: DataAdapter, overview: Overview, item: str) -> Stop | None:
        """None for what is not an item."""
        return overview.each_log_line(cls(adapter, item).tell) if item in LEVELS else None

    def tell(self, line: LogLine) -> None:
        """One line at a time."""
        if self._levels is not None and line.level not in self._levels:
            return
        second = int(line.time)
        if second != self._second:
            self._tell_left_out(line, self._lines - MAX_LINES)
            self._second, self._lines = second, 0
        self._tell_left_out(line, line.lost)
        self._lines += 1
        if self._lines <= MAX_LINES:
            self._publish(line, line.message)

    def _tell_left_out(self, line: LogLine, count: int) -> None:
        if count > 0:
            self._publish(line, f"{count:,} lines are left out here, because they came too fast; the log has them")

    def _publish(self, line: LogLine, message: str) -> None:
        self._counter += 1
        address = line.fields.get("address")
        client = None if address is None else str(address)
        row: Row = {
            "TIME": datetime.fromtimestamp(line.time, UTC).strftime("%H:%M:%S"),
            "TIME_MS": str(int(line.time * 1000)),
            "CLIENT.IP": client,
            "CLIENT.NAME": client,
            "MESSAGE": message,
            "THREAD": line.thread,
            "COUNTER": str(self._counter),
            "LEVEL": line.level.upper(),
            "LOGGER": line.category,
        }
        self._adapter.update(self._item, row)
