"""The data adapter `monitor`: which items there are, and what happens when somebody subscribes to one.

Nothing is done for items that nobody is subscribed to. Who may see them is for the metadata adapter of the set to
decide. Read next: docs/operations.md; where the values come from: `overview`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.api import DataAdapter
from penstock.adapters.monitor.log_lines import LogLines
from penstock.adapters.monitor.tables import ShownTable

if TYPE_CHECKING:
    from penstock.adapters.monitor.overview import Overview, Row, Stop

STATISTICS = "monitor_statistics"
IDENTIFICATION = "monitor_identification"
DETAILS = "monitor_details"
LIBRARIES = "monitor_client_libs"
SOCKET = "monitor_socket_"
LOG = "monitor_log_"
HISTORY = "monitor_history"
TABLE = "monitor_"


class MonitorAdapter(DataAdapter):
    """Made by the configuration, introduced to the server by the server."""

    quick = True

    def __init__(self) -> None:
        self.overview: Overview | None = None
        # What ends the work for each item that somebody is subscribed to.
        self._ends: dict[str, Stop] = {}

    def start(self) -> None:
        self._server()

    def check_start(self) -> None:
        self._server()

    def _server(self) -> Overview:
        if self.overview is None:
            raise RuntimeError("there is no server to monitor: this adapter works only inside a server")
        return self.overview

    def stop(self) -> None:
        for end in self._ends.values():
            end()
        self._ends.clear()

    def has_snapshot(self, item: str) -> bool:
        """Statistics and the log have none (4.2.1)."""
        return item != STATISTICS and not item.startswith(LOG)

    def subscribe(self, item: str) -> None:
        end = self._begin(item)
        if end is not None:
            self._ends[item] = end

    def unsubscribe(self, item: str) -> None:
        end = self._ends.pop(item, None)
        if end is not None:
            end()

    def _begin(self, item: str) -> Stop | None:
        overview = self._server()
        if item == STATISTICS:
            return self._begin_statistics(overview)
        if item == HISTORY:
            return self._begin_history(overview)
        if item.startswith(LOG):
            return LogLines.begin(self, overview, item)
        table = overview.table(item.removeprefix(TABLE)) if item.startswith(TABLE) else None
        if table is not None:
            return ShownTable(self, item, table).begin(overview)
        for key, row in self._facts(overview, item):
            self.update(item, row if key is None else {"key": key, "command": "ADD", **row}, snapshot=True)
        # Also for what is not an item here: nobody is to wait for its snapshot.
        self.end_of_snapshot(item)
        return None

    def _facts(self, overview: Overview, item: str) -> list[tuple[str | None, Row]]:
        """Of an item that consists of a snapshot only; with keys if it is a table."""
        if item == IDENTIFICATION:
            return [(None, overview.identification())]
        if item == DETAILS:
            return [(None, overview.details())]
        if item == LIBRARIES:
            return list(overview.libraries())
        if item.startswith(SOCKET):
            found = overview.socket(item.removeprefix(SOCKET))
            return [] if found is None else [(None, found)]
        return []

    def _begin_statistics(self, overview: Overview) -> Stop:
        def publish() -> None:
            self.update(STATISTICS, overview.statistics())

        publish()
        return overview.each_sample(publish)

    def _begin_history(self, overview: Overview) -> Stop:
        for point in overview.history():
            self.update(HISTORY, point, snapshot=True)
        self.end_of_snapshot(HISTORY)
        return overview.each_point(self._publish_point)

    def _publish_point(self, point: Row) -> None:
        self.update(HISTORY, point)
