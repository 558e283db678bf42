"""Status files, the figures in them, and their way to the items of a real server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from penstock.adapters import AdapterSet, MetadataAdapter
from penstock.adapters.ingest import IngestAdapter
from penstock.client import connect
from penstock.journal.journal import Journal, Policy
from penstock.journal.record import Columns
from penstock.pipeline.place import Place
from penstock.pipeline.progress import REFUSED, UNREACHED, QueryMeter, StatusPublisher
from penstock.pipeline.status import Found, QueryStatus, held, now, read, table, write
from tests.adapters.stage import SetServer

PATIENCE = 10.0
TOKEN = "0123456789abcdef"

CLASSIC = {
    "batchId": 3,
    "timestamp": "2026-01-31T12:00:00.000Z",
    "batchDuration": 120,
    "numInputRows": 5,
    "stateOperators": [{"numRowsTotal": 2, "memoryUsedBytes": 10}, {"numRowsTotal": 3, "memoryUsedBytes": 20}],
    "sources": [{"startOffset": '{"sequence": 0}', "endOffset": '{"sequence": 4}'}],
}
CONNECT = CLASSIC | {"numInputRows": None, "sources": [{"startOffset": None, "endOffset": "{'sequence': 4}"}]}


def append(path: Path, *seconds: int) -> None:
    """A record for each time; every call makes a segment of its own."""
    with closing(Journal(path)) as journal:
        columns = Columns()
        for second in seconds:
            columns.add("S/A/item", second * 1_000_000, "update", "", str(second))
        done = journal.append(columns, Policy.ACK).done
        assert done is not None
        done.result(PATIENCE)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Ten records, written at 1,000 s, 1,001 s, …"""
    append(tmp_path / "journal", *range(1_000, 1_010))
    return tmp_path / "journal"


# -- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [CLASSIC, CONNECT], ids=["classic", "connect"])
def test_the_figures_are_the_same_whatever_kind_of_spark_tells_them(journal: Path, progress: dict[str, Any]) -> None:
    status = QueryStatus(name="any")
    meter = QueryMeter(journal, clock=lambda: 0.0, wall=lambda: 1_010.0)
    meter.take(status, [progress])
    assert (status.batch, status.batch_time, status.batch_millis) == (3, "2026-01-31T12:00:00.000Z", 120)
    assert (status.state_rows, status.state_bytes) == (5, 30)
    # The oldest that has not been taken in is sequence 5, written at 1,004 s.
    assert (status.lag_events, status.lag_seconds) == (6, 6.0)


def test_a_query_without_progress_has_no_figures(journal: Path) -> None:
    status = QueryStatus(name="any")
    QueryMeter(journal).take(status, [])
    assert status == QueryStatus(name="any")


def test_a_query_that_does_not_read_a_journal_has_no_lag(journal: Path) -> None:
    status = QueryStatus(name="any")
    QueryMeter(journal).take(status, [CLASSIC | {"sources": [{"endOffset": "17"}], "stateOperators": []}])
    assert (status.lag_events, status.lag_seconds, status.rows_per_second, status.state_rows) == (None, None, None, 0)


def test_the_rate_is_that_of_the_last_ten_seconds(journal: Path) -> None:
    time = [0.0]
    status = QueryStatus(name="any")
    meter = QueryMeter(journal, clock=lambda: time[0], wall=lambda: 0.0)
    rates = []
    for second in range(31):
        time[0] = float(second)
        sequence = 100 * min(second, 20)
        meter.take(status, [CLASSIC | {"sources": [{"endOffset": {"sequence": sequence}}]}])
        rates.append(status.rows_per_second)
    assert rates[1:21] == [100.0] * 20
    assert rates[25] == 50.0
    assert rates[30] == 0.0


def test_rows_that_came_too_late_are_counted_once_for_each_batch(journal: Path) -> None:
    def batch(number: int, late: int) -> dict[str, Any]:
        return CLASSIC | {"batchId": number, "stateOperators": [{"numRowsDroppedByWatermark": late}]}

    status = QueryStatus(name="any")
    meter = QueryMeter(journal)
    meter.take(status, [batch(0, 0), batch(1, 2)])
    meter.take(status, [batch(1, 2)])
    meter.take(status, [batch(1, 2), batch(2, 1), batch(3, 4)])
    assert status.late_rows == 7


def test_values_that_do_not_fit_are_counted_once_for_each_batch(journal: Path) -> None:
    def batch(number: int, **misfits: int | None) -> dict[str, Any]:
        observed: dict[str, Any] = {f"table {name}": {"events": 9, "misfits": n} for name, n in misfits.items()}
        return CLASSIC | {"batchId": number, "observedMetrics": observed | {"candles": {"events": 1, "dropped": 5}}}

    status = QueryStatus(name="heat")
    meter = QueryMeter(journal)
    meter.take(status, [batch(0, a=1, b=2), batch(1, a=None)])
    meter.take(status, [batch(1, a=None), batch(2, a=4)])
    assert status.misfits == 7
    assert table([Found(status, gone=False)]).splitlines()[-1] == (
        "    values that did not fit: 7; side tables have them"
    )


def test_values_that_do_not_fit_are_counted_through_spark_connect_where_they_have_no_names(journal: Path) -> None:
    observed = {"table a": {"values": [9, 2], "schema": None}, "table b": Row(values=[9, 3], schema=None)}
    status = QueryStatus(name="heat")
    QueryMeter(journal).take(status, [CLASSIC | {"batchId": 0, "observedMetrics": observed}])
    assert status.misfits == 5


def test_the_lag_of_events_that_retention_dropped_is_told_by_those_that_are_left(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    append(directory, 1_000)
    append(directory, 1_004)
    segments = sorted(path for path in directory.iterdir() if path.name.startswith("0"))
    status = QueryStatus(name="any")
    meter = QueryMeter(directory, clock=lambda: 0.0, wall=lambda: 1_010.0)
    for path in directory.glob(f"{segments[0].stem}*"):
        path.unlink()
    meter.take(status, [CLASSIC | {"sources": [{"endOffset": {"sequence": 0}}]}])
    assert status.lag_events == 2
    assert status.lag_seconds == 6.0


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    status = QueryStatus(name="candles", state="running", pid=1, updated=now(), batch=3, rows_per_second=12.5)
    write(tmp_path, status)
    with held(tmp_path, ["candles"]):
        (found,) = read(tmp_path)
    assert found.status == status
    assert not found.gone
    assert not list(tmp_path.glob(".*")), "nothing temporary is left"


def test_a_status_whose_process_was_killed_says_that_it_is_gone(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from penstock.pipeline.status import *; d = Path(sys.argv[1])\n"
        "with held(d, ['movers']):\n"
        "    write(d, QueryStatus(name='movers', state='running', pid=os.getpid(), updated=now()))\n"
        "    print(flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert [found.gone for found in read(tmp_path)] == [False]
        process.kill()
        process.wait(PATIENCE)
        (found,) = read(tmp_path)
        assert found.gone
        assert f"the process {process.pid} that ran it has ended" in table([found])


def test_a_query_that_was_stopped_is_not_called_gone(tmp_path: Path) -> None:
    write(tmp_path, QueryStatus(name="movers", state="stopped"))
    assert [found.gone for found in read(tmp_path)] == [False]


def test_files_that_are_no_status_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "foreign.json").write_text('{"state": "melted"}')
    write(tmp_path, QueryStatus(name="movers", state="stopped"))
    assert [found.status.name for found in read(tmp_path)] == ["movers"]


def test_the_table_has_a_line_for_each_query_and_says_why_one_failed(tmp_path: Path) -> None:
    figures: dict[str, Any] = {"batch": 1_234, "batch_millis": 250, "rows_per_second": 12_345.6, "lag_events": 1_000}
    write(
        tmp_path, QueryStatus(name="history", state="stopped", lag_seconds=1.25, state_bytes=3 * 1_048_576, **figures)
    )
    write(tmp_path, QueryStatus(name="movers", state="failed", reason="the disk\nis full"))
    with held(tmp_path, ["movers"]):
        lines = table(read(tmp_path)).splitlines()
    assert lines[0].split()[:5] == ["QUERY", "STATE", "ROWS/S", "LAG", "BEHIND"]
    assert lines[1].split() == [
        *("history", "stopped", "12,346", "1,000", "1.2", "s", "1,234", "-", "250", "ms", "-", "3.0", "MB", "0", "0"),
    ]
    assert lines[2].split()[:2] == ["movers", "failed"]
    assert lines[3].strip() == "the disk is full"


# -- items ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[SetServer]:
    ingest = IngestAdapter(items={"query.*": "MERGE", "queries": "COMMAND"}, tokens=[TOKEN])
    with SetServer([AdapterSet("WELCOME", MetadataAdapter(), {"PIPELINE": ingest})]) as running:
        yield running


def test_statuses_become_items_for_whoever_is_subscribed(server: SetServer, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    place = Place(tmp_path, f"http://{server.host}:{server.api_port}", None, token_file)
    publisher = StatusPublisher(place, "WELCOME", "PIPELINE")

    async def watch() -> tuple[dict[str, Any], set[tuple[Any, ...]]]:
        async with connect(f"http://{server.host}:{server.port}", adapter_set="WELCOME", proxy=None) as client:
            query = client.subscribe("query.movers", ["state", "batch", "reason"], data_adapter="PIPELINE")
            queries = client.subscribe("queries", ["key", "command", "state"], mode="COMMAND", data_adapter="PIPELINE")
            token_file.write_text(f"{TOKEN}\n")
            publisher.publish(
                [QueryStatus(name="movers", state="running", batch=7), QueryStatus(name="history", state="starting")]
            )
            update = await asyncio.wait_for(anext(aiter(query)), PATIENCE)
            rows = set()
            async for row in queries:
                rows.add(tuple(row.values[name] for name in ("key", "state")))
                if len(rows) == 2:
                    break
            return dict(update.values), rows

    fields, rows = asyncio.run(asyncio.wait_for(watch(), PATIENCE))
    publisher.close()
    assert fields == {"state": "running", "batch": "7", "reason": None}
    assert rows == {("movers", "running"), ("history", "starting")}


def test_a_server_that_is_away_is_told_once_and_when_it_is_back(
    server: SetServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    token_file = tmp_path / "token"
    publisher = StatusPublisher(
        Place(tmp_path, f"http://{server.host}:{server.api_port}", None, token_file), "WELCOME", "PIPELINE"
    )

    def publish_until(event: str) -> None:
        for _ in range(1_000):
            publisher.publish([QueryStatus(name="movers")])
            if event in [record.message for record in caplog.records]:
                return
            threading.Event().wait(0.01)
        raise AssertionError(caplog.text)

    def give(token: str) -> None:
        # Whole at once, as the server does: the publisher may look at any time.
        (tmp_path / "new").write_text(token)
        (tmp_path / "new").replace(token_file)

    publish_until(UNREACHED)
    give("a-token-that-is-wrong")
    publish_until(REFUSED)
    give(TOKEN)
    publish_until("server accepts figures again")
    publisher.close()
    assert [record.message for record in caplog.records if record.name == "penstock.pipeline.progress"] == [
        UNREACHED,
        REFUSED,
        "server accepts figures again",
    ]


def test_a_server_without_the_adapter_is_told_with_what_helps(
    server: SetServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path, f"http://{server.host}:{server.api_port}", TOKEN)
    publisher = StatusPublisher(place, "WELCOME", "NOBODY")
    publisher.publish([QueryStatus(name="movers")])
    publisher.close()
    (record,) = [record for record in caplog.records if record.message == REFUSED]
    assert record.fields["reason"] == (  # type: ignore[attr-defined]
        '404 There is no ingest adapter NOBODY in set WELCOME; pipeline.status names an adapter, or is "" for none'
    )


def test_whoever_publishes_never_waits_for_the_server(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        publisher = StatusPublisher(
            Place(tmp_path, f"http://127.0.0.1:{deaf.getsockname()[1]}", TOKEN), "WELCOME", "PIPELINE"
        )
        for _ in range(10_000):
            publisher.publish([QueryStatus(name="movers")])


def test_a_status_file_is_json_for_scripts(tmp_path: Path) -> None:
    write(tmp_path, QueryStatus(name="movers", state="running", batch=7))
    written = json.loads((tmp_path / "movers.json").read_text())
    assert (written["name"], written["state"], written["batch"], written["lag_events"]) == (
        "movers",
        "running",
        7,
        None,
    )
