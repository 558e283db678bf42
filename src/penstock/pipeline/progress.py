"""Where the figures of a status come from: what Spark says of a query, and how far the journal is ahead of it.

And where they go besides the file: items of a data adapter, so that a page can show them. Classic Spark and Spark
Connect say the same thing in different words; both are read here. Not here: the file (status). Read next: runner.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from penstock.journal.errors import Expired
from penstock.journal.reader import JournalReader
from penstock.log import get
from penstock.pipeline.place import Place
from penstock.pipeline.remote import RemoteError, RemoteJournal, RemoteJournalAddress
from penstock.pipeline.status import QueryStatus

log = get(__name__)

# Rates are those of the last seconds: batches come unevenly.
RATE_SECONDS = 10.0

# Seconds that the server has to take in figures; nobody waits for them, but the next ones come every second.
PUBLISH_TIMEOUT = 2.0

# Bytes of an answer that are read.
_MAX_ANSWER = 1_000

# Events of the log.
UNREACHED = "server not reached; queries that publish to it wait"
REFUSED = "server refuses the figures of queries"

# Names of metrics that queries over typed tables observe begin so: how many values did not fit.
OBSERVED = "table "

# Offsets come as text, as JSON or as Python writes a dict, depending on how Spark is reached.
_SEQUENCE = re.compile(r"[\"']?sequence[\"']?\s*:\s*(-?\d+)")


class QueryMeter:
    """The figures of one query. For one thread."""

    def __init__(
        self,
        journal: Path | RemoteJournalAddress,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        # A server that is away is asked again with the next figures: nobody waits for it here.
        self._reader: JournalReader | RemoteJournal = (
            JournalReader(journal) if isinstance(journal, Path) else RemoteJournal(replace(journal, retry_seconds=0))
        )
        self._clock = clock
        self._wall = wall
        # Where the query stood at a time: (clock, sequence).
        self._points: deque[tuple[float, int]] = deque()
        # The last batch whose late rows and misfits were counted.
        self._counted = -1

    def restarted(self) -> None:
        """A query that was started again may begin before where it ended."""
        self._points.clear()

    def take(self, status: QueryStatus, recent: Sequence[Mapping[str, Any]]) -> None:
        """Bring a status up to date with what its query did of late, the oldest first; nothing if it did nothing."""
        if not recent:
            return
        late, misfits = self._counted_once(recent)
        status.late_rows += late
        status.misfits += misfits
        progress = recent[-1]
        status.batch = progress.get("batchId")
        status.batch_time = progress.get("timestamp")
        status.batch_millis = progress.get("batchDuration")
        status.state_rows = _of_states(progress, "numRowsTotal")
        status.state_bytes = _of_states(progress, "memoryUsedBytes")
        sequence = _sequence(progress.get("sources") or [])
        if sequence is not None:
            status.rows_per_second = self._rate(sequence)
            # Else the figures stay as they were: the query itself says what is wrong.
            with suppress(RemoteError):
                status.lag_events, status.lag_seconds = self._lag(sequence)

    def _counted_once(self, recent: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """Rows that came too late for their window, and values that did not fit, in batches not counted yet."""
        late = misfits = 0
        for progress in recent:
            batch = int(progress.get("batchId") or 0)
            if batch > self._counted:
                self._counted = batch
                late += _of_states(progress, "numRowsDroppedByWatermark")
                misfits += _misfits(progress.get("observedMetrics") or {})
        return late, misfits

    def _rate(self, sequence: int) -> float:
        now = self._clock()
        self._points.append((now, sequence))
        while len(self._points) > 2 and self._points[1][0] <= now - RATE_SECONDS:
            self._points.popleft()
        first, before = self._points[0]
        return round((sequence - before) / (now - first), 1) if now > first else 0.0

    def _lag(self, sequence: int) -> tuple[int, float]:
        events = max(0, self._reader.poll() - sequence)
        if not events:
            return 0, 0.0
        return events, round(max(0.0, self._wall() - self._written(sequence + 1)), 3)

    def _written(self, sequence: int) -> float:
        """When a record was written; of the first one left, if retention has dropped it."""
        try:
            batch = next(self._reader.read(sequence, sequence + 1, rows=1), None)
        except Expired as expired:
            try:
                batch = next(self._reader.read(expired.earliest, expired.earliest + 1, rows=1), None)
            except Expired:
                batch = None
        if batch is None:
            return self._wall()
        return float(batch.column("timestamp").cast("int64")[0].as_py()) / 1e6


def _of_states(progress: Mapping[str, Any], figure: str) -> int:
    return sum(int(_member(each, figure) or 0) for each in progress.get("stateOperators") or [])


def _misfits(observed: Mapping[str, Any]) -> int:
    """Of all tables that a query reads; a batch without rows has none."""
    return sum(_observed(row) for name, row in observed.items() if name.startswith(OBSERVED))


def _observed(row: Any) -> int:
    """Through Spark Connect the values come as a list, in their order, and not by their names."""
    values = row.asDict() if hasattr(row, "asDict") else dict(row)
    return int((values["misfits"] if "misfits" in values else values["values"][1]) or 0)


def _sequence(sources: Iterable[Any]) -> int | None:
    """How far the query has come: the source that is farthest behind. None if it does not read a journal."""
    found = []
    for source in sources:
        match = _SEQUENCE.search(str(_member(source, "endOffset")))
        if match is not None:
            found.append(int(match[1]))
    return min(found, default=None)


def _member(thing: Any, name: str) -> Any:
    """Parts of a progress are dicts that are also objects; older and newer Sparks have only one of the two."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


class StatusPublisher:
    """Sends statuses to an ingest adapter: item `query.NAME` for each query, and all in the COMMAND item `queries`.

    In a thread of its own. What cannot be sent is dropped: the next figures are a second away.
    """

    def __init__(self, place: Place, adapter_set: str, adapter: str) -> None:
        self._place = place
        self._path = f"/api/ingest/{quote(adapter_set, safe='')}/{quote(adapter, safe='')}"
        self._told: str | None = None
        self._waiting: bytes | None = None
        self._something = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="pipeline status", daemon=True)
        self._thread.start()

    def publish(self, statuses: Iterable[QueryStatus]) -> None:
        """Never waits. Figures that were not sent yet are replaced."""
        with self._something:
            self._waiting = lines(statuses)
            self._something.notify()

    def close(self) -> None:
        """Send what is left, if that is quickly done."""
        with self._something:
            self._ended = True
            self._something.notify()
        self._thread.join(PUBLISH_TIMEOUT)

    def _run(self) -> None:
        while True:
            with self._something:
                while self._waiting is None and not self._ended:
                    self._something.wait()
                body, self._waiting = self._waiting, None
            if body is None:
                return
            self._tell(*self._send(body))

    def _send(self, body: bytes) -> tuple[str, str] | tuple[None, None]:
        """What happened and why, or nothing to tell."""
        try:
            self._place = self._place.with_token()
            if self._place.token is None:
                return UNREACHED, f"there is no token in {self._place.token_file} yet"
            request = urllib.request.Request(
                self._place.api + self._path,
                data=body,
                headers={"Authorization": f"Bearer {self._place.token}", "Content-Type": "application/x-ndjson"},
            )
            with urllib.request.urlopen(request, timeout=PUBLISH_TIMEOUT):
                return None, None
        except urllib.error.HTTPError as error:
            with error:
                return REFUSED, _reason(error.code, error.read(_MAX_ANSWER))
        except urllib.error.URLError as error:
            return UNREACHED, str(error.reason)
        except Exception as error:
            # Whatever it is, a query must not suffer from figures about it.
            return UNREACHED, f"{type(error).__name__}: {error}"

    def _tell(self, event: str | None, reason: str | None) -> None:
        """Once for each outage."""
        if event is not None and event != self._told:
            log.warning(event, api=self._place.api, reason=reason)
        elif event is None and self._told is not None:
            log.info("server accepts figures again", api=self._place.api)
        self._told = event


def _reason(status: int, answer: bytes) -> str:
    """What the server says, and what helps where there is nobody to take figures."""
    try:
        said = str(json.loads(answer)["errors"][0]["error"])
    except (ValueError, TypeError, LookupError):
        said = answer.decode("utf-8", "replace").strip()
    hint = '; pipeline.status names an adapter, or is "" for none' if status == HTTPStatus.NOT_FOUND else ""
    return f"{status} {said}{hint}"


def lines(statuses: Iterable[QueryStatus]) -> bytes:
    """JSON lines as the ingest port takes them."""
    written = []
    for status in statuses:
        fields = msgspec.to_builtins(status)
        written.append(json.dumps({"item": f"query.{status.name}", "fields": fields}))
        row = {"key": status.name, "command": "UPDATE", **fields}
        written.append(json.dumps({"item": "queries", "fields": row}))
    return "".join(f"{line}\n" for line in written).encode()
