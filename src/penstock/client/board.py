"""What `penstock top` knows of a server: its statistics, and the rows of sessions and items, in the wanted order.

Pure: updates go in, numbers come out. How it looks is in `board_picture`; what fields mean, in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest

Row = Mapping[str, str | None]

STATISTICS = (
    "CLIENTS.SESSIONS",
    "CLIENTS.MAX_SESSIONS",
    "CLIENTS.REFUSED_SESSIONS",
    "CLIENTS.STREAMING_SESSIONS",
    "CLIENTS.POLLING_SESSIONS",
    "CLIENTS.CONNECTIONS",
    "CLIENTS.ITEM_SUBSCR",
    "ITEMS.TOTAL",
    "ITEMS.EVENTS_SEC",
    "UPDATES.EVENTS_SEC",
    "UPDATES.FILTERED_SEC",
    "UPDATES.LOST_SEC",
    "UPDATES.TOTAL_LOST",
    "BANDWIDTH.CURRENT",
    "BANDWIDTH.HIGHEST",
    "MESSAGES.EVENTS_SEC",
    "LOOP.LAG_P50",
    "LOOP.LAG_P99",
    "LOOP.LAG_MAX",
    "AGE.P50",
    "AGE.P99",
    "AGE.MAX",
    "UNSENT.BYTES",
    "UNSENT.CONNECTIONS",
    "WAITING.BYTES",
    "CPU.PERCENT",
    "MEMORY.RSS",
    "THREADS",
    "DESCRIPTORS.OPEN",
    "DESCRIPTORS.LIMIT",
    "ADAPTERS.CALLS_SEC",
    "ADAPTERS.FAILED",
    "POOL.QUEUE",
    "JOURNAL.APPENDS_SEC",
    "JOURNAL.SYNCS_SEC",
    "JOURNAL.SYNC_P99",
    "JOURNAL.BYTES",
    "JOURNAL.FAILED",
    "DITTO.COMMANDS_SEC",
    "DITTO.STREAMS",
    "TLEX.SESSIONS",
    "TLEX.PAYLOADS_SEC",
    "TLEX.DROPPED",
    "PIPELINE.QUERIES",
    "PIPELINE.LAG",
)
SESSION_TEXTS = ("key", "user", "address", "adapter_set", "library", "protocol", "transport")
SESSION_NUMBERS = (
    "opened_ms",
    "bandwidth",
    "max_bandwidth",
    "updates_sec",
    "updates",
    "bytes",
    "lost",
    "subscriptions",
    "items",
    "unsent_bytes",
)
ITEM_TEXTS = ("key", "item", "adapter_set", "data_adapter", "mode")
ITEM_NUMBERS = ("subscribers", "events_sec", "events")
# By what rows are sorted, the largest first: the name of an order, and its fields. The first is the one to begin with:
# clients that do not take what is sent to them, then those that are sent most.
SESSION_ORDERS = {
    "slowest": ("unsent_bytes", "bandwidth"),
    "bandwidth": ("bandwidth",),
    "updates": ("updates_sec",),
    "lost": ("lost", "unsent_bytes"),
    "items": ("items",),
    "newest": ("opened_ms",),
}
ITEM_ORDERS = {
    "events": ("events_sec", "events"),
    "total": ("events",),
    "subscribers": ("subscribers", "events_sec"),
}

# Samples of the statistics after which all rates are known: the first comes at once, and rates of rows are those
# between two samples.
COMPLETE_AFTER = 3


def number(text: str | None) -> float:
    """Of a field that has a number; 0 where there is none."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


class Ranking:
    """The rows of a table that a server keeps up to date."""

    def __init__(self, orders: Mapping[str, tuple[str, ...]], order: str) -> None:
        self._orders = orders
        self.order = order
        self.rows: dict[str, Row] = {}

    def take(self, row: Row) -> None:
        """As it comes in COMMAND mode."""
        key = row["key"] or ""
        if row["command"] == "DELETE":
            self.rows.pop(key, None)
        else:
            self.rows[key] = row

    def next_order(self) -> None:
        names = list(self._orders)
        self.order = names[(names.index(self.order) + 1) % len(names)]

    def first(self, count: int) -> list[Row]:
        """Those that are largest by the order."""
        fields = self._orders[self.order]
        return nlargest(count, self.rows.values(), key=lambda row: [number(row[field]) for field in fields])


class FigureBoard:
    """All of it."""

    def __init__(self, session_order: str, item_order: str) -> None:
        self.statistics: Row = {}
        self.sessions = Ranking(SESSION_ORDERS, session_order)
        self.items = Ranking(ITEM_ORDERS, item_order)
        # Samples of this session, and whether all rows with their rates have come in it.
        self.samples = 0
        self.is_complete = False

    def sample(self, statistics: Row) -> None:
        self.statistics = statistics
        self.samples += 1

    def begin_again(self) -> None:
        """A new session: rows come again, and those that have gone meanwhile do not."""
        self.samples = 0
        self.is_complete = False
        self.sessions.rows.clear()
        self.items.rows.clear()

    def figure(self, name: str) -> float:
        return number(self.statistics.get(name))

    def as_json(self, count: int) -> dict[str, object]:
        """For scripts: numbers as numbers, and of each table the first rows."""
        return {
            "statistics": _numbers(self.statistics, STATISTICS),
            "sessions": [_row(row, SESSION_TEXTS, SESSION_NUMBERS) for row in self.sessions.first(count)],
            "items": [_row(row, ITEM_TEXTS, ITEM_NUMBERS) for row in self.items.first(count)],
        }


def _row(row: Row, texts: tuple[str, ...], numbers: tuple[str, ...]) -> dict[str, object]:
    return {**{name: row[name] for name in texts}, **_numbers(row, numbers)}


def _numbers(row: Row, names: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in names:
        text = row.get(name)
        value = number(text)
        found[name] = None if text is None else int(value) if value.is_integer() else value
    return found
