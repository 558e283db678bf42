"""How a query is doing, in a file that anybody may read: `data_dir/pipeline/NAME.json`, written whole once a second.

The process that runs a query holds a lock beside it, so that a reader knows whether the writer still lives, and a
second process does not run the same query. Not here: where the figures come from (progress). Read next: runner.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from penstock.durable import OWNER_FILE
from penstock.journal.damage import Damage
from penstock.pipeline.errors import BadOption

QueryState = Literal["starting", "running", "failed", "stopped"]

# Longer reasons are cut in tables; the file has them whole.
_REASON_WIDTH = 100

# Damaged places that are shown one by one.
_PLACES = 10


class QueryStatus(msgspec.Struct, kw_only=True):
    """Times are ISO 8601 in UTC; what is not known yet is None."""

    name: str
    state: QueryState = "starting"
    # Why it failed, or what it waits for.
    reason: str | None = None
    pid: int = 0
    started: str | None = None
    updated: str | None = None
    restarts: int = 0
    batch: int | None = None
    # When the last batch began, and how long it took.
    batch_time: str | None = None
    batch_millis: int | None = None
    rows_per_second: float | None = None
    # What the journal has and the query has not taken in: how many events, and for how long the oldest has waited.
    lag_events: int | None = None
    lag_seconds: float | None = None
    # What the query keeps between batches: rows and bytes.
    state_rows: int | None = None
    state_bytes: int | None = None
    # Rows that came too late for their window and were left out, since the process started.
    late_rows: int = 0
    # Values of typed tables that were not of the type of their column, since the process started.
    misfits: int = 0
    # Places of the journal that could not be read, whichever query met them.
    damaged: int = 0


class Found(msgspec.Struct):
    """A status as a reader sees it: `gone` says that the process that wrote it ended without a word."""

    status: QueryStatus
    gone: bool


def now() -> str:
    return as_text(datetime.now(UTC))


def as_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def write(directory: Path, status: QueryStatus) -> None:
    """Replace the file in one step: a reader sees the old or the new one, never a part."""
    temporary = directory / f".{status.name}.json.new"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(status)) + b"\n")
    temporary.replace(directory / f"{status.name}.json")


def read(directory: Path) -> list[Found]:
    """The status of every query that ever ran here, by name. A file that is not a status is passed over."""
    found = []
    for path in sorted(directory.glob("*.json")):
        try:
            status = msgspec.json.decode(path.read_bytes(), type=QueryStatus)
        except (OSError, msgspec.DecodeError):
            continue
        gone = status.state != "stopped" and not _is_held(directory / f"{status.name}.lock")
        found.append(Found(status, gone))
    return found


@contextmanager
def held(directory: Path, names: Iterable[str]) -> Iterator[None]:
    """Be the one process that runs these queries in this data directory; raises BadOption if there is another."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption(f"the directory {directory} cannot be used: {error.strerror}") from None
    locks = []
    try:
        for name in names:
            path = directory / f"{name}.lock"
            try:
                locks.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE))
                fcntl.flock(locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadOption(f"job {name} is already run by another process in {directory.parent}") from None
            except OSError as error:
                raise BadOption(f"the lock {path} cannot be taken: {error.strerror}") from None
        yield
    finally:
        for lock in locks:
            os.close(lock)


def _is_held(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


# -- for people ----------------------------------------------------------------------------------------------------

_HEAD = (
    "QUERY",
    "STATE",
    "ROWS/S",
    "LAG",
    "BEHIND",
    "BATCH",
    "LAST BATCH",
    "TOOK",
    "STATE ROWS",
    "MEMORY",
    "LATE",
    "RESTARTS",
)


def table(found: list[Found]) -> str:
    """A line for each query; under it what there is to say in words."""
    rows = [_HEAD, *(_row(each) for each in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row, each in zip(rows, [None, *found], strict=True):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if each is not None and each.gone:
            lines.append(f"    the process {each.status.pid} that ran it has ended; last update {each.status.updated}")
        if each is not None and each.status.misfits:
            lines.append(f"    values that did not fit: {_number(each.status.misfits)}; side tables have them")
        if each is not None and each.status.reason:
            lines.append(f"    {_cut(each.status.reason)}")
    return "\n".join(lines)


def line(statuses: Sequence[QueryStatus]) -> str:
    """All queries in one line, for a terminal on which it is rewritten."""
    return " · ".join(f"{status.name} {_in_short(status)}" for status in statuses)


def _in_short(status: QueryStatus) -> str:
    if status.state != "running" or status.rows_per_second is None:
        return status.state
    return f"{_number(status.rows_per_second)}/s, {status.lag_seconds or 0.0:.1f} s behind"


def damage_lines(damaged: Sequence[Damage], directory: Path) -> list[str]:
    """What there is to say about notes in a directory; nothing if there are none."""
    if not damaged:
        return []
    places = "1 place" if len(damaged) == 1 else f"{len(damaged)} places"
    lines = [f"The journal is damaged in {places}, which queries step over; notes are in {directory}:"]
    lines += [f"    {place}" for place in damaged[:_PLACES]]
    if len(damaged) > _PLACES:
        lines.append(f"    … and {len(damaged) - _PLACES} more")
    return lines


def _row(found: Found) -> tuple[str, ...]:
    status = found.status
    return (
        status.name,
        "gone" if found.gone else status.state,
        _number(status.rows_per_second),
        _number(status.lag_events),
        "-" if status.lag_seconds is None else f"{status.lag_seconds:.1f} s",
        _number(status.batch),
        status.batch_time or "-",
        "-" if status.batch_millis is None else f"{status.batch_millis} ms",
        _number(status.state_rows),
        "-" if status.state_bytes is None else f"{status.state_bytes / 1_048_576:.1f} MB",
        _number(status.late_rows),
        str(status.restarts),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _REASON_WIDTH else f"{line[: _REASON_WIDTH - 1]}…"
