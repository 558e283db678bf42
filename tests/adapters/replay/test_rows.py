from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.adapters.replay import rows
from penstock.adapters.replay.rows import BadReplayRow, MissingColumn, ReplayRow, as_seconds, as_text, read


def read_text(
    tmp_path: Path, text: str | bytes, format: str, *needed: str, delimiter: str = ","
) -> list[ReplayRow | BadReplayRow]:
    path = tmp_path / "file"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read(path, format, delimiter, needed))


def test_csv_rows_carry_the_line_they_end_on(tmp_path: Path) -> None:
    found = read_text(tmp_path, 'a,b\n1,"x\ny"\n\n2,\r\n', "csv", "a")
    assert found == [ReplayRow(3, {"a": "1", "b": "x\ny"}), ReplayRow(5, {"a": "2", "b": ""})]


def test_a_byte_order_mark_and_another_delimiter_do_no_harm(tmp_path: Path) -> None:
    assert read_text(tmp_path, "\ufeffa;b\n1;2,5\n", "csv", "a", delimiter=";") == [
        ReplayRow(2, {"a": "1", "b": "2,5"})
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"1\n", "1 cells; the header has 2"),
        (b"1,2,3\n", "3 cells; the header has 2"),
        (b"1,\xff\n", "not UTF-8"),
        (b'1,"x"y\n', "',' expected after '\"'"),
        (b"1," + b"x" * rows.MAX_LINE_BYTES + b"\n", "longer than 1048576 bytes"),
        (b"1," + b"x" * 200_000 + b"\n", "field larger than field limit (131072)"),
    ],
)
def test_a_bad_csv_row_is_told_by_its_line_and_the_next_is_read(tmp_path: Path, line: bytes, reason: str) -> None:
    found = read_text(tmp_path, b"a,b\n1,2\n" + line + b"3,4\n", "csv")
    assert found == [ReplayRow(2, {"a": "1", "b": "2"}), BadReplayRow(3, reason), ReplayRow(4, {"a": "3", "b": "4"})]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{\n", "truncated"),
        (b"[1]\n", "Expected `object`"),
        (b'{"a": {}}\n', "got `object`"),
        (b'{"a": "\xff"}\n', "can't decode"),
        (b'{"a": "\\ud800"}\n', ""),
        (b'{"a": "' + b"x" * rows.MAX_LINE_BYTES + b'"}\n', "longer than 1048576 bytes"),
    ],
)
def test_a_bad_json_line_is_told_by_its_number_and_the_next_is_read(tmp_path: Path, line: bytes, reason: str) -> None:
    first, bad, last = read_text(tmp_path, b'\n{"a": 1}\n' + line + b'{"a": null}', "jsonl", "a")
    assert (first, last) == (ReplayRow(2, {"a": 1}), ReplayRow(4, {"a": None}))
    assert isinstance(bad, BadReplayRow)
    assert bad.line == 3
    assert reason in bad.reason


def test_parquet_rows_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"a": ["x", None], "n": [1, 2]}), path)
    assert list(read(path, "parquet", ",", ["a"])) == [
        ReplayRow(1, {"a": "x", "n": 1}),
        ReplayRow(2, {"a": None, "n": 2}),
    ]


@pytest.mark.parametrize(("format", "text"), [("csv", "a,b\n1,2\n"), ("csv", ""), ("jsonl", '{"a": 1, "b": 2}\n')])
def test_a_missing_column_is_told_with_those_that_are_there(tmp_path: Path, format: str, text: str) -> None:
    with pytest.raises(MissingColumn, match=r"no column c; it has (a, b|none)"):
        read_text(tmp_path, text, format, "c")


def test_what_is_not_parquet_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a Parquet file"):
        read_text(tmp_path, "PAR0" * 10, "parquet")


def test_a_long_file_is_not_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("a\n" + "x\n" * 1_000_000)
    found = read(path, "csv", ",", ["a"])
    assert next(found) == ReplayRow(2, {"a": "x"})
    frame = getattr(found, "gi_frame", None)
    assert frame is not None
    assert frame.f_locals["file"].tell() < 100_000


@pytest.mark.parametrize(
    ("value", "unit", "seconds"),
    [
        ("2026-01-31T09:30:00.250Z", "auto", 1769851800.25),
        ("2026-01-31 09:30:00", "iso", 1769851800.0),
        ("2026-01-31T10:30:00+01:00", "auto", 1769851800.0),
        ("1769851800.5", "auto", 1769851800.5),
        (1769851800, "auto", 1769851800.0),
        (1769851800250, "auto", 1769851800.25),
        ("1769851800250000", "auto", 1769851800.25),
        (12, "ms", 0.012),
        ("12", "us", 0.000012),
        (5_000_000, "s", 5_000_000.0),
        (datetime(2026, 1, 31, 9, 30, tzinfo=UTC), "auto", 1769851800.0),
        (datetime(2026, 1, 31, 9, 30), "ms", 1769851800.0),  # noqa: DTZ001  # what Parquet has without a zone
    ],
)
def test_times_are_iso_or_numbers_since_1970(value: object, unit: str, seconds: float) -> None:
    assert as_seconds(value, unit) == pytest.approx(seconds, abs=1e-7)


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        ("", "auto"),
        ("soon", "auto"),
        ("soon", "ms"),
        ("12", "iso"),
        (None, "auto"),
        (True, "auto"),
        ("nan", "auto"),
        ("inf", "s"),
        ("1e300", "s"),
        (10**400, "auto"),
        ([], "auto"),
    ],
)
def test_what_is_no_time_is_told(value: object, unit: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time|is not a number of|is too far away"):
        as_seconds(value, unit)


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), (None, None), (True, "true"), (3, "3"), (2.5, "2.5"), (Decimal("1.10"), "1.10")],
)
def test_values_are_written_out(value: object, text: str | None) -> None:
    assert as_text("a", value) == text


@pytest.mark.parametrize("value", [[1], {"x": 1}, b"x"])
def test_what_has_no_text_is_told_with_its_column(value: object) -> None:
    with pytest.raises(ValueError, match="column a holds a"):
        as_text("a", value)
