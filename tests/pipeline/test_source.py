"""The readers driven as Spark drives them, without a JVM: what is planned, what is read, what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from penstock.journal.disk import DirectoryDisk
from penstock.journal.erasing import erase
from penstock.journal.errors import Expired
from penstock.journal.journal import Journal
from penstock.journal.record import SCHEMA
from penstock.journal.retention import Retention
from penstock.pipeline import reports
from penstock.pipeline import source as source_module
from penstock.pipeline.errors import BadOption, PipelineError
from penstock.pipeline.schema import EVENTS
from penstock.pipeline.source import JournalShare, JournalSource, SparkJournalReader, SparkJournalStreamReader
from tests.pipeline.world import NOON, SECOND, append, held, journal, make_journal, some

MANY = ReadAllAvailable()


def source(path: Path, /, **options: str) -> JournalSource:
    return JournalSource({"path": str(path), **options})


def batch(path: Path, /, **options: str) -> SparkJournalReader:
    reader = source(path, **options).reader(EVENTS)
    assert isinstance(reader, SparkJournalReader)
    return reader


def stream(path: Path, /, **options: str) -> SparkJournalStreamReader:
    reader = source(path, **options).streamReader(EVENTS)
    assert isinstance(reader, SparkJournalStreamReader)
    return reader


def read(reader: SparkJournalReader | SparkJournalStreamReader, shares: Iterable[InputPartition]) -> list[list[int]]:
    """The sequences each task gives; reader and partition travel as they do in Spark."""
    result = []
    for share in shares:
        there, piece = pickle.loads(pickle.dumps((reader, share)))
        tables = list(there.read(piece))
        assert all(table.schema.equals(SCHEMA) for table in tables)
        result.append([number for table in tables for number in table.column("sequence").to_pylist()])
    return result


def sequences(reader: SparkJournalReader) -> list[int]:
    return [number for share in read(reader, reader.partitions()) for number in share]


def rest(
    reader: SparkJournalStreamReader, start: dict[str, int], limit: Any = MANY
) -> tuple[dict[str, int], list[int]]:
    """One micro-batch."""
    end = reader.latestOffset(start, limit)
    numbers = [number for share in read(reader, reader.partitions(start, end)) for number in share]
    reader.commit(end)
    return end, numbers


def at(number: int) -> str:
    """The time of the event with this number, as an option."""
    return datetime.fromtimestamp((NOON + number * SECOND) / 1e6, UTC).isoformat()


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten events: sequence N is of item-{N % 4}, N seconds after noon; the odd ones are snapshots."""
    kinds = ("update", "snapshot")
    events = [(f"item-{n % 4}", kinds[n % 2], str(n), NOON + n * SECOND) for n in range(1, 11)]
    return make_journal(tmp_path_factory.mktemp("ten") / "journal", events, frame=3)


# -- batch reads ----------------------------------------------------------------------------------------------------


def test_a_batch_read_gives_everything_in_the_journals_columns(ten: Path) -> None:
    reader = batch(ten)
    tables = [table for share in reader.partitions() for table in reader.read(share)]
    assert pa.Table.from_batches(tables).equals(held(ten))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(1, 11)),
        ({"startingOffset": "earliest", "endingOffset": "latest"}, range(1, 11)),
        ({"startingOffset": "latest"}, ()),
        ({"startingOffset": "4"}, range(4, 11)),
        ({"startingOffset": "11"}, ()),
        ({"endingOffset": "4"}, range(1, 5)),
        ({"startingOffset": "4", "endingOffset": "4"}, (4,)),
        ({"startingOffset": at(4)}, range(4, 11)),
        ({"startingOffset": at(4), "endingOffset": at(6)}, (4, 5)),
        ({"startingOffset": at(-100)}, range(1, 11)),
        ({"startingOffset": at(100)}, ()),
        ({"endingOffset": at(100)}, range(1, 11)),
        ({"endingOffset": at(-100)}, ()),
        ({"startingOffset": "2023-11-14T23:13:24+01:00"}, range(4, 11)),
        ({"startingOffset": "2023-11-14T22:13:24Z"}, range(4, 11)),
        ({"entities": "item-1"}, (1, 5, 9)),
        ({"entities": "item-1, item-2"}, (1, 2, 5, 6, 9, 10)),
        ({"entities": "*-1"}, (1, 5, 9)),
        ({"entities": '["item-1"]'}, (1, 5, 9)),
        ({"entities": "nobody"}, ()),
        ({"kinds": "snapshot"}, (1, 3, 5, 7, 9)),
        ({"kinds": "snapshot,clear", "entities": "item-1", "startingOffset": "2"}, (5, 9)),
        ({"STARTINGOFFSET": "9"}, (9, 10)),
    ],
)
def test_options_choose_what_is_read(ten: Path, options: dict[str, str], expected: Iterable[int]) -> None:
    assert sequences(batch(ten, **options)) == list(expected)


def test_a_name_with_a_comma_is_given_in_a_json_array(tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", [("a,b", "update", "1"), ("a", "update", "2"), ("b", "update", "3")])
    assert sequences(batch(path, entities='["a,b", "b"]')) == [1, 3]
    assert sequences(batch(path, entities="a,b")) == [2, 3]


def test_a_path_may_be_an_address_of_a_file(ten: Path, tmp_path: Path) -> None:
    assert sequences(batch(ten, path=ten.as_uri())) == list(range(1, 11))
    odd = make_journal(tmp_path / "with space", some(2))
    assert sequences(batch(odd, path=odd.as_uri())) == [1, 2]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"speed": "1"}, "option speed is not known; allowed: path, server, token, tokenFile, "),
        ({"path": ""}, "option path is missing; it names the journal's directory"),
        ({"path": "/no/such"}, "option path is /no/such; there is no such directory"),
        ({"startingOffset": "noon"}, "option startingOffset is 'noon'; allowed: earliest, latest, a sequence"),
        ({"startingOffset": ""}, "option startingOffset is ''; allowed:"),
        ({"startingOffset": "-1"}, "option startingOffset is '-1'; allowed:"),
        ({"startingOffset": "0"}, "option startingOffset is 0; sequence numbers begin at 1"),
        ({"startingOffset": "2026-01-31T12:00:00"}, "a time needs its zone"),
        ({"endingOffset": "earliest"}, "option endingOffset is 'earliest'; allowed: latest, a sequence number"),
        ({"maxEventsPerTrigger": "-5"}, "option maxEventsPerTrigger is '-5'; it must be a whole number from 0 to"),
        ({"maxEventsPerTrigger": "many"}, "option maxEventsPerTrigger is 'many'"),
        ({"partitions": "0"}, "option partitions is '0'; it must be a whole number from 1 to 10000"),
        ({"partitions": "1.5"}, "option partitions is '1.5'"),
        ({"onExpired": "ignore"}, "option onExpired is 'ignore'; allowed: stop and earliest"),
        ({"pushFilters": "yes"}, "option pushFilters is 'yes'; allowed: true and false"),
        ({"entities": '["a"'}, "begins like a JSON array, but is not one"),
        ({"kinds": "[1]"}, "must hold strings"),
    ],
)
@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_wrong_option_is_refused_by_name_and_value(
    ten: Path, options: dict[str, str], complaint: str, kind: str
) -> None:
    if kind == "stream" and "endingOffset" in options:
        complaint = "a stream has no end"
    with pytest.raises(BadOption) as refused:
        (batch if kind == "batch" else stream)(ten, **options)
    assert complaint in str(refused.value)


def test_a_directory_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"the directory has no journal: no file is named \*.segment"):
        batch(tmp_path)


def test_columns_of_ones_own_are_refused(ten: Path) -> None:
    wrong = StructType([StructField("price", LongType())])
    with pytest.raises(BadOption, match=r"schema is struct<price:bigint>; the journal's columns are struct<sequence:"):
        source(ten).reader(wrong)
    with pytest.raises(BadOption, match="leave schema"):
        source(ten).streamReader(wrong)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"endingOffset": "11"}, "option endingOffset is 11; the journal ends at 10"),
        ({"startingOffset": "12"}, "option startingOffset is 12; the journal ends at 10"),
        ({"startingOffset": "7", "endingOffset": "3"}, "startingOffset is 7 and endingOffset 3, which is before it"),
    ],
)
def test_a_range_that_is_not_there_is_no_empty_answer(ten: Path, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadOption, match=complaint):
        batch(ten, **options).partitions()


# -- push-down ------------------------------------------------------------------------------------------------------


def moment(number: int, zone: timezone = UTC) -> datetime:
    return datetime.fromtimestamp(NOON // SECOND + number, zone)


ENTITY, KIND, SEQUENCE, TIMESTAMP, VALUE = (("entity",), ("kind",), ("sequence",), ("timestamp",), ("value",))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(ENTITY, "item-1")], [1, 5, 9]),
        ([In(ENTITY, ("item-1", "item-2"))], [1, 2, 5, 6, 9, 10]),
        ([StringStartsWith(ENTITY, "item-")], list(range(1, 11))),
        ([StringStartsWith(ENTITY, "other")], []),
        ([EqualTo(KIND, "update")], [2, 4, 6, 8, 10]),
        ([In(KIND, ("update", "snapshot"))], list(range(1, 11))),
        ([EqualTo(ENTITY, "item-1"), EqualTo(KIND, "snapshot"), GreaterThan(SEQUENCE, 1)], [5, 9]),
        ([GreaterThan(SEQUENCE, 3), LessThan(SEQUENCE, 6)], [4, 5]),
        ([GreaterThanOrEqual(SEQUENCE, 3), LessThanOrEqual(SEQUENCE, 6)], [3, 4, 5, 6]),
        ([GreaterThan(SEQUENCE, 3), GreaterThan(SEQUENCE, 1), LessThan(SEQUENCE, 9), LessThan(SEQUENCE, 6)], [4, 5]),
        ([GreaterThan(SEQUENCE, -3), GreaterThan(SEQUENCE, 0), GreaterThan(SEQUENCE, -7)], list(range(1, 11))),
        ([EqualTo(SEQUENCE, 7)], [7]),
        ([EqualTo(SEQUENCE, 77)], []),
        ([GreaterThan(TIMESTAMP, moment(3)), LessThan(TIMESTAMP, moment(6))], [4, 5]),
        ([GreaterThanOrEqual(TIMESTAMP, moment(3)), LessThanOrEqual(TIMESTAMP, moment(6))], [3, 4, 5, 6]),
        ([GreaterThan(TIMESTAMP, moment(3)), GreaterThan(TIMESTAMP, moment(1))], list(range(4, 11))),
        ([GreaterThan(TIMESTAMP, moment(3, timezone(timedelta(hours=9))))], list(range(4, 11))),
    ],
)
def test_what_the_journal_can_decide_is_pushed_down(ten: Path, filters: list[Filter], expected: list[int]) -> None:
    reader = batch(ten, pushFilters="true")
    assert list(reader.pushFilters(filters)) == []
    assert sequences(reader) == expected


@pytest.mark.parametrize(
    "each",
    [
        EqualTo(ENTITY, "item-*"),
        In(ENTITY, ("item-1", "item?")),
        In(ENTITY, ("item-1", None)),
        StringStartsWith(ENTITY, "*"),
        StringStartsWith(KIND, "up"),
        In(KIND, ("update", None)),
        EqualTo(VALUE, "1"),
        IsNotNull(ENTITY),
        EqualTo(TIMESTAMP, moment(3)),
        # Nobody but Spark knows which moment that is.
        GreaterThan(TIMESTAMP, moment(3).replace(tzinfo=None)),
        GreaterThan(SEQUENCE, 2.5),
        EqualTo(("entity", "inner"), "item-1"),
    ],
)
def test_what_it_cannot_decide_stays_with_spark_and_takes_nothing_away(ten: Path, each: Filter) -> None:
    reader = batch(ten, pushFilters="true")
    assert list(reader.pushFilters([each])) == [each]
    assert sequences(reader) == list(range(1, 11))


def test_unless_asked_nothing_is_pushed_down(ten: Path) -> None:
    reader = batch(ten)
    filters: list[Filter] = [EqualTo(ENTITY, "item-1"), GreaterThan(SEQUENCE, 3)]
    assert list(reader.pushFilters(filters)) == filters
    assert sequences(reader) == list(range(1, 11))


def test_a_second_filter_on_a_chosen_column_stays_with_spark(ten: Path) -> None:
    reader = batch(ten, pushFilters="true", entities="item-1,item-2")
    later = EqualTo(ENTITY, "item-1")
    assert list(reader.pushFilters([later])) == [later]
    assert sequences(reader) == [1, 2, 5, 6, 9, 10]


def test_pushed_filters_travel_with_the_reader_to_the_tasks(ten: Path) -> None:
    reader = batch(ten, pushFilters="TRUE")
    list(reader.pushFilters([EqualTo(ENTITY, "item-1")]))
    shares = reader.partitions()
    assert read(pickle.loads(pickle.dumps(reader)), shares) == [[1, 5, 9]]


# -- streams --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starting", "first"), [("earliest", 1), ("latest", 11), ("4", 4), ("11", 11), (at(4), 4), (at(99), 11)]
)
def test_a_stream_begins_where_it_is_told(ten: Path, starting: str, first: int) -> None:
    reader = stream(ten, startingOffset=starting)
    start = reader.initialOffset()
    assert start["sequence"] == first - 1
    assert rest(reader, start)[1] == list(range(first, 11))


def test_a_stream_that_begins_behind_the_end_is_refused(ten: Path) -> None:
    with pytest.raises(BadOption, match="option startingOffset is 12; the journal ends at 10"):
        stream(ten, startingOffset="12").initialOffset()


def test_a_micro_batch_has_no_more_events_than_allowed(ten: Path) -> None:
    reader = stream(ten, maxEventsPerTrigger="4")
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    offset, batches = reader.initialOffset(), []
    while (end := reader.latestOffset(offset, limit)) != offset:
        offset, numbers = rest(reader, offset, limit)
        assert offset == end
        batches.append(numbers)
    assert batches == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_without_a_limit_a_micro_batch_is_all_there_is(ten: Path) -> None:
    reader = stream(ten, maxEventsPerTrigger="0")
    assert isinstance(reader.getDefaultReadLimit(), ReadAllAvailable)
    assert rest(reader, reader.initialOffset(), reader.getDefaultReadLimit())[0]["sequence"] == 10


def test_a_stream_sees_what_is_committed_while_it_runs(tmp_path: Path) -> None:
    with journal(tmp_path / "journal") as opened:
        append(opened, some(3))
        reader = stream(tmp_path / "journal")
        offset, numbers = rest(reader, reader.initialOffset())
        assert numbers == [1, 2, 3]
        assert reader.latestOffset(offset, MANY) == offset
        assert list(reader.partitions(offset, offset)) == []
        append(opened, some(2))
        assert reader.reportLatestOffset()["sequence"] == 5
        assert rest(reader, offset)[1] == [4, 5]


def test_available_now_stops_at_what_was_there(tmp_path: Path) -> None:
    with journal(tmp_path / "journal") as opened:
        append(opened, some(3))
        reader = stream(tmp_path / "journal")
        reader.prepareForTriggerAvailableNow()
        append(opened, some(2))
        offset, numbers = rest(reader, reader.initialOffset())
        assert numbers == [1, 2, 3]
        assert reader.latestOffset(offset, MANY) == offset


def test_options_filter_a_stream_and_offsets_go_on_all_the_same(ten: Path) -> None:
    reader = stream(ten, entities="item-1", kinds="snapshot")
    assert rest(reader, reader.initialOffset()) == (stream(ten).reportLatestOffset(), [1, 5, 9])


def test_an_empty_journal_is_waited_for(tmp_path: Path) -> None:
    with journal(tmp_path / "journal") as opened:
        reader = stream(tmp_path / "journal")
        start = reader.initialOffset()
        assert start["sequence"] == 0
        assert reader.latestOffset(start, MANY) == start
        assert sequences(batch(tmp_path / "journal")) == []
        append(opened, some(2))
        assert rest(reader, start)[1] == [1, 2]


def test_a_batch_is_planned_alike_after_a_restart_with_a_grown_journal(tmp_path: Path) -> None:
    with journal(tmp_path / "journal", segment_bytes=4_096) as opened:
        append(opened, some(50), frame=10)
        reader = stream(tmp_path / "journal")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(35))
        first = read(reader, reader.partitions(start, end))
        append(opened, some(50), frame=10)
    again = stream(tmp_path / "journal")
    assert read(again, again.partitions(start, end)) == first == [list(range(1, 36))]


# -- what a checkpoint may not fit to -------------------------------------------------------------------------------


def test_a_checkpoint_of_a_longer_journal_is_refused(ten: Path, tmp_path: Path) -> None:
    short = make_journal(tmp_path / "journal", some(4))
    known = stream(ten).reportLatestOffset()
    for reader in (stream(short), stream(short, onExpired="earliest")):
        with pytest.raises(
            BadOption, match=r"the checkpoint knows sequence 10, but the journal in .* ends at 4: it is"
        ):
            reader.latestOffset(known, MANY)
        with pytest.raises(BadOption, match="start with a new checkpoint"):
            reader.partitions({"sequence": 2}, known)


def test_a_checkpoint_of_a_journal_that_was_replaced_by_a_longer_one_is_refused(ten: Path, tmp_path: Path) -> None:
    long = make_journal(tmp_path / "journal", some(40))
    known = stream(ten).reportLatestOffset()
    with pytest.raises(BadOption, match=r"made with another segment for sequence 10 than the journal in .* has"):
        stream(long).latestOffset(known, MANY)
    with pytest.raises(BadOption, match="it is another journal, or an older copy of it; start with a new checkpoint"):
        stream(long).partitions(known, stream(long).reportLatestOffset())


def test_an_offset_without_a_salt_is_taken(ten: Path) -> None:
    assert rest(stream(ten), {"sequence": 7})[1] == [8, 9, 10]


def test_a_checkpoint_fits_to_its_journal_through_segments_and_restarts(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    offset: dict[str, int] | None = None
    seen: list[int] = []
    for _ in range(4):
        with journal(path, segment_bytes=2_048) as opened:
            append(opened, some(25), frame=5)
            reader = stream(path)
            offset, numbers = rest(reader, offset or reader.initialOffset(), ReadMaxRows(20))
            seen += numbers
        reader = stream(path)
        offset, numbers = rest(reader, offset)
        seen += numbers
    assert seen == list(range(1, 101))


# -- retention ------------------------------------------------------------------------------------------------------


@pytest.fixture
def shortened(tmp_path: Path) -> tuple[Path, int]:
    """A journal of 50 events whose beginning retention has dropped, and the earliest sequence left."""
    path = tmp_path / "journal"
    with journal(path, segment_bytes=1) as opened:
        append(opened, some(50), frame=5)
        opened.retain(Retention(max_bytes=5 * 9_000), opened.committed)
    earliest = stream(path).initialOffset()["sequence"] + 1
    assert 1 < earliest < 40
    return path, earliest


def test_what_retention_dropped_stops_the_query_and_says_how_to_go_on(shortened: tuple[Path, int]) -> None:
    path, earliest = shortened
    reader = stream(path)
    end = reader.latestOffset({"sequence": 2}, MANY)
    with pytest.raises(Expired) as expired:
        reader.partitions({"sequence": 2}, end)
    assert str(expired.value) == (
        f"sequence 3 was dropped by retention; the earliest left is {earliest}; "
        "option onExpired with the value earliest would go on from there"
    )
    with pytest.raises(Expired, match="sequence 3 was dropped by retention"):
        batch(path, startingOffset="3").partitions()


def test_where_allowed_a_query_goes_on_from_the_earliest_with_a_warning(
    shortened: tuple[Path, int], capfd: pytest.CaptureFixture[str]
) -> None:
    path, earliest = shortened
    reader = stream(path, onExpired="earliest")
    # Nor are there batches without rows until the earliest is reached.
    end, numbers = rest(reader, {"sequence": 2}, ReadMaxRows(3))
    assert numbers == [earliest, earliest + 1, earliest + 2]
    assert rest(reader, end)[1] == list(range(earliest + 3, 51))
    assert (
        f"penstock source: sequence 3 was dropped by retention; the earliest left is {earliest}; going on from there"
        in (capfd.readouterr().err)
    )
    assert sequences(batch(path, startingOffset="3", onExpired="earliest")) == list(range(earliest, 51))


def test_a_batch_that_was_planned_and_is_all_gone_is_empty_where_allowed(shortened: tuple[Path, int]) -> None:
    path, _ = shortened
    assert list(stream(path, onExpired="earliest").partitions({"sequence": 0}, {"sequence": 1})) == []


def test_what_is_dropped_between_plan_and_read_is_no_silent_gap(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with journal(path, segment_bytes=1) as opened:
        append(opened, some(20), frame=5)
        reader = stream(path)
        shares = reader.partitions(reader.initialOffset(), reader.reportLatestOffset())
        opened.retain(Retention(max_bytes=1), opened.committed)
        with pytest.raises(Expired, match="sequence 1 was dropped by retention"):
            read(reader, shares)


def test_earliest_is_what_retention_left(shortened: tuple[Path, int]) -> None:
    path, earliest = shortened
    assert sequences(batch(path)) == list(range(earliest, 51))


# -- damage ---------------------------------------------------------------------------------------------------------


def damage(path: Path, sequence: int) -> None:
    """Turn over a byte in the value of one record, of the segment that is first."""
    segment = min(path.glob("*.segment"))
    content = bytearray(segment.read_bytes())
    place = content.index(f"value-{sequence}-".encode())
    content[place] ^= 0xFF
    segment.write_bytes(content)


def test_damage_is_told_where_it_is_met_and_stepped_over(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = make_journal(tmp_path / "journal", [("a", "update", f"value-{n}-") for n in range(1, 31)], frame=10)
    damage(path, 15)
    notes = tmp_path / "notes"
    reader = stream(path, damageReports=str(notes))
    end, numbers = rest(reader, reader.initialOffset())
    assert end["sequence"] == 30
    assert numbers == [*range(1, 11), *range(21, 31)]
    said = capfd.readouterr().err
    assert said.count("penstock source: damaged: ") == 1
    assert "records 11 to 20 missing" in said
    assert str(path) in said
    assert [(note.first, note.last) for note in reports.told(notes)] == [(11, 20)]


def test_a_place_is_noted_once_however_often_it_is_met(tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", [("a", "update", f"value-{n}-") for n in range(1, 31)], frame=10)
    damage(path, 5)
    damage(path, 25)
    notes = tmp_path / "deep" / "notes"
    assert reports.told(notes) == []
    for _ in range(2):
        assert sequences(batch(path, damageReports=str(notes))) == list(range(11, 21))
    assert [(note.first, note.last) for note in reports.told(notes)] == [(1, 10), (21, 30)]


def test_notes_that_cannot_be_written_do_not_stop_a_query(tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", [("a", "update", f"value-{n}-") for n in range(1, 31)], frame=10)
    damage(path, 5)
    (tmp_path / "file").write_text("")
    assert sequences(batch(path, damageReports=str(tmp_path / "file" / "notes"))) == list(range(11, 31))


def test_a_worker_that_does_not_see_the_journal_says_so(ten: Path, tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", some(5))
    reader = batch(path)
    shares = reader.partitions()
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(PipelineError, match="the driver sees that directory and this worker does not"):
        read(reader, shares)


# -- several tasks --------------------------------------------------------------------------------------------------


def test_a_large_batch_is_shared_among_tasks_and_a_small_one_is_not(tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", some(60_000), frame=5_000)
    shares = read(batch(path, partitions="4"), batch(path, partitions="4").partitions())
    assert len(shares) == 3
    assert [number for share in shares for number in share] == list(range(1, 60_001))
    assert len(batch(path, partitions="4", endingOffset="20000").partitions()) == 1
    assert len(batch(path, partitions="1").partitions()) == 1


# Every frame waits for a real disk.
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_every_event_is_in_one_batch_of_one_task_whatever_the_limits(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any journal, cut into any frames and segments, read by any triggers while it grows: each event once, in order."""
    draw = data.draw
    path = tmp_path_factory.mktemp("any") / "journal"
    segment_bytes = draw(st.sampled_from([1, 10_000, 1 << 20]), "segment_bytes")
    partitions = draw(st.integers(1, 5), "partitions")
    entities = draw(st.sampled_from(["", "item-1", "item-1,item-3", "*-2", "nobody"]), "entities")
    wanted = {"": {0, 1, 2, 3}, "item-1": {1}, "item-1,item-3": {1, 3}, "*-2": {2}, "nobody": set()}[entities]
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        # So that small journals have several tasks, too.
        patch.setattr("penstock.pipeline.source.EVENTS_PER_PARTITION", draw(st.sampled_from([1, 7, 100]), "share"))
        offset: dict[str, int] | None = None
        for _ in range(draw(st.integers(1, 3), "starts")):
            with journal(path, segment_bytes=segment_bytes) as opened:
                reader = stream(path, partitions=str(partitions), entities=entities)
                offset = offset or reader.initialOffset()
                for count in draw(st.lists(st.integers(0, 120), max_size=3), "appends"):
                    append(opened, some(count, first=opened.next_sequence), frame=draw(st.integers(5, 60), "frame"))
                    limit = draw(st.one_of(st.just(MANY), st.builds(ReadMaxRows, st.integers(1, 150))), "limit")
                    end = reader.latestOffset(offset, limit)
                    if isinstance(limit, ReadMaxRows):
                        assert end["sequence"] - offset["sequence"] <= limit.max_rows
                    shares = reader.partitions(offset, end)
                    assert len(shares) <= partitions
                    assert all(isinstance(share, JournalShare) for share in shares)
                    for share in read(reader, shares):
                        assert share == sorted(share)
                        seen += share
                    offset = end
        reader = stream(path, partitions=str(partitions), entities=entities)
        assert offset is not None
        end, numbers = rest(reader, offset)
        seen += numbers
        assert seen == [number for number in range(1, end["sequence"] + 1) if number % 4 in wanted]
        assert sequences(batch(path, partitions=str(partitions), entities=entities)) == seen


def test_offsets_and_plans_from_before_an_erasure_are_right_after_it(tmp_path: Path) -> None:
    path = make_journal(tmp_path / "journal", some(300, entities=3), frame=7, segment_bytes=9_000)
    before = held(path).to_pylist()
    name = before[0]["entity"]
    reader = stream(path, partitions="2")
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(100))
    end = reader.latestOffset(middle, MANY)
    shares = reader.partitions(middle, end)
    Journal(path).close()
    assert erase(DirectoryDisk(path), {name}, lambda where: None) == 100
    left = [row["sequence"] for row in before if row["entity"] != name]
    # Planned before and read now; and by a query that continues from its checkpoint.
    assert sorted(chain.from_iterable(read(reader, shares))) == [sequence for sequence in left if sequence > 100]
    again = stream(path, partitions="2")
    assert again.latestOffset(middle, MANY)["sequence"] == end["sequence"] == 300
    for first, last, expected in ((start, middle, range(1, 101)), (middle, end, range(101, 301))):
        found = sorted(chain.from_iterable(read(again, again.partitions(first, last))))
        assert found == [sequence for sequence in left if sequence in expected]


# -- rows along with the plan ---------------------------------------------------------------------------------------


def ahead(reader: SparkJournalStreamReader, start: dict[str, int], end: dict[str, int]) -> list[int] | None:
    """The sequences that come along with the plan of a batch; None: the tasks read it."""
    reader.partitions(start, end)
    batches = reader.getCache(start, end)
    return None if batches is None else [n for one in batches for n in one.column("sequence").to_pylist()]


def test_a_small_batch_comes_along_with_its_plan_and_is_what_a_task_would_read(ten: Path) -> None:
    reader = stream(ten, kinds="update")
    assert ahead(reader, {"sequence": 1}, {"sequence": 9}) == [2, 4, 6, 8]
    assert read(reader, reader.partitions({"sequence": 1}, {"sequence": 9})) == [[2, 4, 6, 8]]


def test_a_batch_without_anything_wanted_has_nothing_to_come_along(ten: Path) -> None:
    reader = stream(ten, entities="nobody")
    assert ahead(reader, {"sequence": 0}, {"sequence": 10}) in (None, [])


def test_a_batch_with_many_events_or_many_bytes_is_left_to_the_tasks(
    ten: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stream(ten)
    monkeypatch.setattr(source_module, "EVENTS_READ_AHEAD", 4)
    assert ahead(reader, {"sequence": 0}, {"sequence": 5}) is None
    assert ahead(reader, {"sequence": 0}, {"sequence": 4}) == [1, 2, 3, 4]
    monkeypatch.setattr(source_module, "BYTES_READ_AHEAD", 100)
    assert ahead(reader, {"sequence": 0}, {"sequence": 4}) is None
