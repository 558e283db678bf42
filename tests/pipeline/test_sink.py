from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.pipeline import sink as sinks
from penstock.pipeline.engine import Spark
from penstock.pipeline.errors import BadOption
from penstock.pipeline.outlet import BatchRefused, Outlet, StageLost
from penstock.pipeline.target import BadRow, Target
from tests.pipeline.conftest import TIMEOUT
from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN, Fault, SinkServer
from tests.pipeline.world import make_journal, some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def target_of(server: SinkServer, **more: Any) -> Target:
    return Target(server.url, "SET", "OUT", TOKEN, **{"item": "name", **more})


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"name": [f"m.{value}" for value in values], "value": list(values)})


def quick(target: Target) -> Outlet:
    """Pauses take no time."""
    return Outlet(target.server, target.adapter_set, target.adapter, target.token, sleep=lambda seconds: None)


def test_tasks_stage_and_the_driver_commits_in_the_order_of_partitions() -> None:
    with SinkServer() as server:
        target = target_of(server)
        with target.outlet() as outlet:
            late = sinks.stage(outlet, target, "q", 3, 1, [batch(4), batch(), batch(5)])
            early = sinks.stage(outlet, target, "q", 3, 0, [batch(1, 2)])
            nothing = sinks.stage(outlet, target, "q", 3, 2, [batch()])
        assert (late.rows, early.rows, nothing.stages) == (2, 2, [])
        assert server.rows() == []
        sinks.commit(target, [late, None, early, nothing], 3)
        assert [row["value"] for row in server.rows()] == [1, 2, 4, 5]
        sinks.commit(target, [late, None, early, nothing], 3)
        assert [row["value"] for row in server.rows()] == [1, 2, 4, 5]


def test_a_batch_without_rows_asks_the_server_for_nothing() -> None:
    with SinkServer() as server:
        target = target_of(server)
        with target.outlet() as outlet:
            sinks.commit(target, [sinks.stage(outlet, target, "q", 0, 0, []), None], 0)
        sinks.commit(target, [], 1)
        assert server.asked == []


def test_what_a_task_staged_that_spark_gave_up_is_not_published() -> None:
    with SinkServer() as server:
        target = target_of(server)
        with target.outlet() as outlet:
            sinks.stage(outlet, target, "q", 0, 0, [batch(1)])
            second = sinks.stage(outlet, target, "q", 0, 0, [batch(1)])
            # The first attempt is still at work, and done after the second.
            sinks.stage(outlet, target, "q", 0, 0, [batch(99)])
        sinks.commit(target, [second], 0)
        assert [row["value"] for row in server.rows()] == [1]


def test_stages_lost_in_a_restart_fail_the_batch_and_the_message_says_what_to_do() -> None:
    with SinkServer() as server:
        target = target_of(server)
        with target.outlet() as outlet:
            staged = sinks.stage(outlet, target, "q", 5, 0, [batch(1)])
        server.faults = iter(["restart"])
        with pytest.raises(StageLost, match=r"is not known.*batch 5 was not published: start the query again"):
            sinks.commit(target, [staged], 5)
        assert server.rows() == []


def test_an_abort_drops_the_stages_and_never_hides_why() -> None:
    with SinkServer() as server:
        target = target_of(server)
        with target.outlet() as outlet:
            staged = sinks.stage(outlet, target, "q", 0, 0, [batch(1)])
        sinks.abandon(target, [None, staged], 0)
        assert server.stages == {}
        server.faults = iter([500])
        sinks.abandon(target, [staged], 0)


def test_rows_without_a_key_are_refused_before_anything_is_sent() -> None:
    with SinkServer() as server:
        target = target_of(server, mode="COMMAND", key="value")
        rows = pa.record_batch({"name": ["m.1", "m.1"], "value": pa.array([1, None], pa.int64())})
        with (
            target.outlet() as outlet,
            pytest.raises(BadRow, match="the column 'value' is null in row 2; it is the key"),
        ):
            sinks.stage(outlet, target, "q", 0, 0, [rows])
        assert server.asked == []


@pytest.mark.parametrize("seed", range(4))
def test_with_lost_answers_and_restarts_every_batch_is_published_once(seed: int) -> None:
    chance = random.Random(seed)
    kinds: list[Fault] = ["", "", "", "lost", "cut", 503, "restart"]

    def faults() -> Iterator[Fault]:
        while True:
            yield chance.choice(kinds)

    with SinkServer(faults()) as server:
        target = target_of(server)
        wanted: list[int] = []
        for number in range(8):
            values = [number * 100 + one for one in range(chance.randrange(1, 6))]
            wanted += values
            while True:
                # A query that failed is started again, and runs the batch again.
                with quick(target) as outlet:
                    first = sinks.stage(outlet, target, "q", number, 0, [batch(*values[:2])])
                    second = sinks.stage(outlet, target, "q", number, 1, [batch(*values[2:])])
                try:
                    sinks.commit(target, [second, first], number)
                    break
                except StageLost:
                    continue
        assert [row["value"] for row in server.rows()] == wanted


def test_a_real_server_that_is_killed_before_the_commit_still_has_the_stages(tmp_path: Path) -> None:
    with RealServer(tmp_path) as server:
        target = Target(server.api, "SET", "OUT", TOKEN, item_template="d.all", mode="DISTINCT")
        with quick(target) as outlet:
            late = sinks.stage(outlet, target, "q", 0, 1, [batch(3, 4)])
            sinks.stage(outlet, target, "q", 0, 0, [batch(99)])
            early = sinks.stage(outlet, target, "q", 0, 0, [batch(1, 2)])
            server.kill()
            server.start()
            sinks.commit(target, [late, early], 0)
            server.kill()
            server.start()
            assert outlet.last_batch("q") == 0
            sinks.commit(target, [late, early], 0)
        assert [int(fields["value"]) for _, fields in server.published()] == [1, 2, 3, 4]


# -- under Spark, with a real server ------------------------------------------------------------------------------


def options(server: RealServer, **more: str) -> dict[str, str]:
    return {"server": server.api, "adapterSet": "SET", "adapter": "OUT", "token": TOKEN, **more}


def test_a_stream_and_a_batch_are_published_by_a_real_server_once(spark: SparkSession, tmp_path: Path) -> None:
    journal = make_journal(tmp_path / "journal", some(90))
    wanted = [
        (f"d.item-{number % 4}", {"entity": f"item-{number % 4}", "value": str(number)}) for number in range(1, 91)
    ]
    with RealServer(tmp_path / "server") as server:
        given = options(server, itemTemplate="d.{entity}", mode="DISTINCT", fields="entity,value")

        def run() -> None:
            events = spark.readStream.format("penstock").option("maxEventsPerTrigger", "30").load(str(journal))
            stream = events.writeStream.format("penstock").options(**given)
            query = stream.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start()
            query.awaitTermination()

        run()
        assert server.published() == wanted
        # As after a crash between the server's commit and Spark's own: the last batch is run again.
        commits = sorted((tmp_path / "check" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
            path.unlink(missing_ok=True)
        run()
        assert commits[-1].exists()
        assert server.published() == wanted

        rows = spark.createDataFrame([("x", 1.5), ("y", None)], "id string, price double")
        table = options(server, itemTemplate="c.table", mode="COMMAND", key="id")
        rows.coalesce(1).write.format("penstock").mode("append").options(**table).save()
        assert server.published()[90:] == [
            ("c.table", {"key": "x", "price": "1.5", "command": "ADD"}),
            ("c.table", {"key": "y", "price": None, "command": "ADD"}),
        ]


def test_a_query_that_a_thread_of_the_runner_starts_finds_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    """Spark looks for the format of a sink in the session of the calling thread, and a new thread has none."""
    journal = make_journal(tmp_path / "journal", some(5))
    engine = Spark("tests", tmp_path, master="", memory="", settings={})
    engine.session = spark

    def run() -> None:
        stream = engine.here().readStream.format("penstock").load(str(journal)).select("entity", "value").writeStream
        given = {"server": server.url, "adapterSet": "SET", "adapter": "OUT", "token": TOKEN, "item": "entity"}
        query = stream.format("penstock").options(**given).option("checkpointLocation", str(tmp_path / "check"))
        query.trigger(availableNow=True).start().awaitTermination()

    with SinkServer() as server, ThreadPoolExecutor(1) as pool:
        pool.submit(run).result(TIMEOUT)
        assert [row["value"] for row in server.rows()] == ["1", "2", "3", "4", "5"]


def test_what_is_wrong_is_said_by_name(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("x", 1)], "id string, price long").coalesce(1)
    with SinkServer() as server:
        given = {"server": server.url, "adapterSet": "SET", "adapter": "OUT", "token": TOKEN, "item": "nope"}
        with pytest.raises(
            Exception, match="item names the column 'nope', which is not there; the DataFrame has id, p"
        ):
            rows.write.format("penstock").mode("append").options(**given).save()
        given |= {"item": "id", "adapter": "NONE"}
        with pytest.raises(Exception, match="adapter NONE of set SET: answered 404: There is no ingest adap") as caught:
            rows.write.format("penstock").mode("append").options(**given).save()
        assert TOKEN not in str(caught.value)


def test_what_would_publish_everything_again_is_refused() -> None:
    with pytest.raises(BadOption, match="outputMode is complete"):
        sinks.stream_writer({}, None, True)  # type: ignore[arg-type]  # not looked at
    with pytest.raises(BadOption, match="mode is overwrite; items cannot be overwritten"):
        sinks.writer({}, None, True)  # type: ignore[arg-type]  # not looked at


def test_a_refusal_is_no_lost_stage() -> None:
    with SinkServer(iter([422])) as server:
        staged = sinks.Staged("q", 0, ["0"], 1)
        with pytest.raises(BatchRefused) as caught:
            sinks.commit(target_of(server), [staged], 0)
        assert not isinstance(caught.value, StageLost)
