"""The rows of a CSV, Parquet or JSON-lines file, one by one, so that memory is bounded by the longest row.

A row that cannot be read is handed on as a `BadReplayRow` with its line number; what is done about it is decided in
`adapter`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from penstock.extras import has_journal, lack_of
from penstock.kernel.ports import Value

FORMATS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
TIME_UNITS = ("auto", "iso", "s", "ms", "us")

# A longer line is skipped as a bad row, however long it goes on.
MAX_LINE_BYTES = 1_048_576

# Rows of a Parquet file decoded at a time.
BATCH_ROWS = 1_000

# Numbers from here on are milliseconds, or microseconds, if nothing is said about them: as seconds they would be the
# years 5138 and later, as milliseconds likewise.
FIRST_MILLIS = 100_000_000_000
FIRST_MICROS = 100_000_000_000_000


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """What a row holds, by column."""

    line: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BadReplayRow:
    """An invalid row."""

    line: int
    reason: str


class MissingColumn(Exception):
    """The file does not have a column that it should have."""


def read(path: Path, format: str, delimiter: str, needed: Sequence[str]) -> Iterator[ReplayRow | BadReplayRow]:
    """The rows in their order. Raises OSError, or MissingColumn, before the first one."""
    if format == "csv":
        return _csv_rows(path, delimiter, needed)
    if format == "parquet":
        return _parquet_rows(path, needed)
    return _json_rows(path, needed)


def _require(needed: Sequence[str], found: Sequence[str]) -> None:
    for name in needed:
        if name not in found:
            raise MissingColumn(f"no column {name}; it has {', '.join(found) or 'none'}")


# -- lines --------------------------------------------------------------------------------------------------------


class FileLines:
    """The lines of a file; one that is too long is cut off and remembered."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.number = 0
        self.too_long = False

    def __iter__(self) -> Iterator[bytes]:
        while line := self._file.readline(MAX_LINE_BYTES):
            self.number += 1
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                while (rest := self._file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                self.too_long = True
                line = b"\n"
            yield line

    def text(self) -> Iterator[str]:
        """For the CSV reader; what is not UTF-8 is marked, to be found in its row."""
        for line in self:
            yield line.decode(errors="surrogateescape")


TOO_LONG = f"longer than {MAX_LINE_BYTES} bytes"


def _csv_rows(path: Path, delimiter: str, needed: Sequence[str]) -> Iterator[ReplayRow | BadReplayRow]:
    with path.open("rb") as file:
        lines = FileLines(file)
        reader = csv.reader(lines.text(), delimiter=delimiter, strict=True)
        try:
            header = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
        except csv.Error as error:
            raise MissingColumn(f"no header: {error}") from error
        _require(needed, header)
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield BadReplayRow(lines.number, str(error))
                continue
            if cells is None:
                return
            if lines.too_long:
                lines.too_long = False
                yield BadReplayRow(lines.number, TOO_LONG)
            elif cells:
                yield _csv_row(lines.number, header, cells)


def _csv_row(line: int, header: list[str], cells: list[str]) -> ReplayRow | BadReplayRow:
    if len(cells) != len(header):
        return BadReplayRow(line, f"{len(cells)} cells; the header has {len(header)}")
    if not _is_unicode("".join(cells)):
        return BadReplayRow(line, "not UTF-8")
    return ReplayRow(line, dict(zip(header, cells, strict=True)))


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_rows(path: Path, needed: Sequence[str]) -> Iterator[ReplayRow | BadReplayRow]:
    decoder = msgspec.json.Decoder(dict[str, str | int | float | bool | None])
    checked = False
    with path.open("rb") as file:
        lines = FileLines(file)
        for line in lines:
            if lines.too_long:
                lines.too_long = False
                yield BadReplayRow(lines.number, TOO_LONG)
                continue
            if not line.strip():
                continue
            try:
                values = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                yield BadReplayRow(lines.number, str(error))
                continue
            if not checked:
                # There is no header: a column that the first row lacks is most likely misspelt.
                _require(needed, list(values))
                checked = True
            yield ReplayRow(lines.number, values)


def _parquet_rows(path: Path, needed: Sequence[str]) -> Iterator[ReplayRow | BadReplayRow]:
    if not has_journal():
        raise OSError(f"Parquet files cannot be read, because {lack_of('pyarrow')}")
    import pyarrow  # takes its time to load
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise OSError(f"not a Parquet file: {error}") from error
    with file:
        names = list(file.schema_arrow.names)
        _require(needed, names)
        line = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            for values in batch.to_pylist():
                line += 1
                yield ReplayRow(line, values)


# -- values -------------------------------------------------------------------------------------------------------


def as_text(column: str, value: object) -> Value:
    """A value as a field carries it. Raises ValueError for what has no text of its own."""
    match value:
        case None | str():
            return value
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case list() | dict() | bytes():
            raise ValueError(f"column {column} holds a {type(value).__name__}, not a single value")
        case _:
            # Dates and decimals of Parquet files.
            return str(value)


def as_seconds(value: object, unit: str) -> float:
    """A recorded time in seconds since 1970. Raises ValueError if it is none."""
    if isinstance(value, datetime):
        return _seconds_of(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{_shown(value)} is not a time")
    if unit == "iso":
        return _from_iso(str(value))
    try:
        number = float(value)
    except ValueError:
        if unit != "auto":
            raise ValueError(f"{_shown(value)} is not a number of {unit} since 1970") from None
        return _from_iso(str(value))
    except OverflowError:
        raise ValueError(f"{_shown(value)} is too far away") from None
    if unit == "auto":
        unit = "s" if abs(number) < FIRST_MILLIS else "ms" if abs(number) < FIRST_MICROS else "us"
    number /= {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    # Also false for what is not a number at all.
    if not abs(number) < FIRST_MILLIS:
        raise ValueError(f"{_shown(value)} is too far away")
    return number


def _from_iso(text: str) -> float:
    try:
        return _seconds_of(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise ValueError(f"{_shown(text)} is not a time; expected one like 2026-01-31T09:30:00.250Z") from None


def _seconds_of(moment: datetime) -> float:
    """A time without a zone is taken for UTC."""
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _shown(value: object) -> str:
    return repr(value)[:60]
