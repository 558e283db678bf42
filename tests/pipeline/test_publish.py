from __future__ import annotations

import inspect
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.pipeline.errors import BadOption, PipelineError
from penstock.pipeline.outlet import Delivery, Outlet
from penstock.pipeline.place import Place
from penstock.pipeline.publish import BatchPublisher, publish_stream, query_id
from penstock.pipeline.target import Target
from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN, SinkServer
from tests.pipeline.world import make_journal, some
from tests.support.worker_processes import until, workers_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"


def publisher(server: SinkServer, **more: Any) -> BatchPublisher:
    return BatchPublisher(Target(server.url, "SET", "OUT", TOKEN, item="name"), "/nowhere", **more)


def test_rows_are_ordered_if_asked() -> None:
    rows = pa.table({"name": ["a", "b", "c", "d"], "at": [3, 1, 2, 1], "n": [1, 9, 1, 2]})
    with SinkServer() as server:
        assert publisher(server, order_by=("at", "n")).send("q", 0, rows) == Delivery(4)
        assert [row["item"] for row in server.rows()] == ["d", "b", "c", "a"]


def test_an_empty_batch_is_not_sent() -> None:
    with SinkServer() as server:
        assert publisher(server).send("q", 0, pa.table({"name": pa.array([], pa.string()), "n": []})) is None
        assert server.asked == []


def test_one_connection_serves_all_batches_and_stays_behind_when_it_travels() -> None:
    with SinkServer() as server:
        each = publisher(server)
        for number in range(3):
            each.send("q", number, pa.table({"name": ["a"], "n": [number]}))
        assert server.connections == 1
        copy = pickle.loads(pickle.dumps(each))
        assert copy.send("q", 3, pa.table({"name": ["a"], "n": [3]})) == Delivery(1)


def test_a_query_has_the_name_that_its_checkpoint_has(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "metadata").write_text(json.dumps({"id": "some-id"}))
    assert query_id(str(tmp_path / "a b"), None) == "some-id"  # type: ignore[arg-type]  # not asked for
    assert query_id(f"file://{tmp_path}/a%20b", None) == "some-id"  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="does not contain the query's id"):
        query_id(str(tmp_path), None)  # type: ignore[arg-type]


def test_every_argument_is_documented_in_the_docstring_and_on_the_page() -> None:
    arguments = set(inspect.signature(publish_stream).parameters)
    lines = re.findall(r"^    - ((?:`\w+`(?:, )?)+):", publish_stream.__doc__ or "", re.MULTILINE)
    assert {name for line in lines for name in re.findall(r"`(\w+)`", line)} == arguments
    rows = re.findall(r"^\| option \| argument \|.*?^$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    columns = [line.split("|")[2] for line in rows[0].splitlines()[2:]]
    assert {name for column in columns for name in re.findall(r"`(\w+)`", column)} == arguments


def test_the_package_loads_no_pyspark_until_it_is_asked_for_something() -> None:
    code = (
        "import sys, penstock.pipeline as p; assert 'pyspark' not in sys.modules;"
        "import penstock.pipeline.outlet, penstock.pipeline.target, penstock.pipeline.replay;"
        "assert 'pyspark' not in sys.modules; p.publish_stream, p.command_table; assert 'pyspark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.timeout(120)
def test_a_real_server_that_is_killed_between_batches_has_every_one_once(tmp_path: Path) -> None:
    with RealServer(tmp_path) as server:
        out = Outlet(server.api, "SET", "OUT", TOKEN)
        with out:
            assert out.check().durable
            for number in range(6):
                if number == 1:
                    server.kill()
                    server.start()
                rows = pa.table({"item": [f"d.{number % 2}"] * 2, "n": [number * 2, number * 2 + 1]})
                assert out.put_batch("q", number, rows, "DISTINCT") == Delivery(2)
                if number == 3:
                    server.kill()
                    server.start()
                    assert out.put_batch("q", number, rows, "DISTINCT") == Delivery(0, repeated=True)
            assert out.last_batch("q") == 5
        assert [int(fields["n"]) for _, fields in server.published()] == list(range(12))


def test_a_stream_is_published_by_a_real_server_in_order_and_once(spark: SparkSession, tmp_path: Path) -> None:
    journal = make_journal(tmp_path / "journal", some(60))
    with RealServer(tmp_path / "server") as server:
        place = Place(tmp_path, server.api, TOKEN)
        events = spark.readStream.format("penstock").option("maxEventsPerTrigger", "20").load(str(journal))

        def run() -> None:
            publish_stream(
                events.select("entity", "value", "timestamp", "sequence"),
                place=place,
                adapter_set="SET",
                adapter="OUT",
                item_template="m.{entity}",
                fields=["value", "timestamp"],
                order_by=["sequence"],
                checkpoint=tmp_path / "check",
                output_mode="append",
                trigger="once",
            ).awaitTermination()

        run()
        published = server.published()
        assert [fields["value"] for _, fields in published] == [str(number) for number in range(1, 61)]
        assert published[0] == ("m.item-1", {"value": "1", "timestamp": "2023-11-14T22:13:21.000Z"})
        # As after a crash between the server's commit and Spark's own.
        commits = sorted((tmp_path / "check" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
            path.unlink(missing_ok=True)
        run()
        assert commits[-1].exists()
        assert server.published() == published


@pytest.mark.timeout(180)
def test_a_server_with_workers_publishes_a_stream_once_though_its_hub_is_killed_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    journal = make_journal(tmp_path / "journal", some(100))
    with RealServer(tmp_path / "server", {"server.workers": 2}) as server:
        hub = workers_of(server.pid)["hub"]

        def kill() -> None:
            until(lambda: len(server.published()) >= 20, "20 events are published")
            os.kill(hub, signal.SIGKILL)

        killing = threading.Thread(target=kill)
        killing.start()
        events = spark.readStream.format("penstock").option("maxEventsPerTrigger", "5").load(str(journal))
        publish_stream(
            events.select("entity", "value", "sequence"),
            place=Place(tmp_path, server.api, TOKEN),
            adapter_set="SET",
            adapter="OUT",
            item_template="m.{entity}",
            fields=["value"],
            order_by=["sequence"],
            checkpoint=tmp_path / "check",
            output_mode="append",
            trigger="once",
        ).awaitTermination()
        killing.join()
        assert workers_of(server.pid)["hub"] != hub
        assert [fields["value"] for _, fields in server.published()] == [str(number) for number in range(1, 101)]


def test_wrong_columns_are_named_before_the_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    journal = make_journal(tmp_path / "journal", some(1))
    events = spark.readStream.format("penstock").load(str(journal))

    def start(**more: Any) -> None:
        given = {"server": "http://127.0.0.1:1", "adapter_set": "SET", "adapter": "OUT", "item": "entity", **more}
        publish_stream(events, checkpoint=tmp_path / "check", **given)

    with pytest.raises(BadOption, match="key names the column 'nope'"):
        start(mode="COMMAND", key="nope")
    with pytest.raises(BadOption, match="order_by names the column 'nope'"):
        start(order_by=["nope"])
    with pytest.raises(BadOption, match="server and place: exactly one is needed"):
        start(server=None)
    assert not spark.streams.active


def test_a_batch_that_the_driver_may_not_collect_is_sent_by_the_tasks_in_order_and_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One micro-batch of 140 MB; small ones follow."""
    count, width = 1_400, 100_000
    assert spark.conf.get("spark.driver.maxResultSize") == "128m", "so that Spark refuses to collect it"
    with RealServer(tmp_path / "server") as server:
        folder = tmp_path / "in"
        folder.mkdir()
        numbers = spark.readStream.schema("n long").csv(str(folder))
        (folder / "0.csv").write_text("\n".join(map(str, reversed(range(count)))))
        rows = numbers.selectExpr("n", f"repeat(cast(n as string), {width} div length(cast(n as string))) as wide")

        def run() -> None:
            publish_stream(
                rows,
                server=server.api,
                token=TOKEN,
                adapter_set="SET",
                adapter="OUT",
                item_template="d.{n}",
                mode="DISTINCT",
                order_by=["n"],
                checkpoint=tmp_path / "check",
                output_mode="append",
                trigger="once",
            ).awaitTermination()

        run()
        for number in (1, 2):
            (folder / f"{number}.csv").write_text(f"{count + number}\n")
            run()
        published = server.published()
        assert [int(fields["n"]) for _, fields in published] == [*range(count), count + 1, count + 2]
        assert {len(fields["wide"]) // 1_000 for _, fields in published} <= {99, 100}
        assert list((tmp_path / "server" / "data").glob("*/*.stages/*")) == []
