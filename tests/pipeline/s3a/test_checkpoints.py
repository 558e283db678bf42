"""The query of docs/cluster-spark.md whose checkpoint is in an object store, and kill -9 of its driver.

The machine of the driver dies, and another one goes on with nothing on its disk. Every total that was ever published
tells whether an event was lost or counted twice. Read next: `test_object_files`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from penstock.journal.selection import EventSelection
from penstock.pipeline.outlet import Outlet
from tests.pipeline.cluster import SETTINGS, Cluster, apart
from tests.pipeline.real_server import RealServer
from tests.pipeline.s3a.connector import JARS
from tests.pipeline.sink_server import TOKEN
from tests.pipeline.test_cluster_spark_page import PAGE, block
from tests.pipeline.world import held
from tests.support.command import PENSTOCK
from tests.support.journal_server import TOKEN as READER_TOKEN
from tests.support.object_store import SECRET, WRONG_KEY, ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.spark_long, pytest.mark.timeout(1_800)]

COMMAND = "pipeline run totals --config queries.toml --data-dir"

MACHINES = ("lathe", "press", "mill")
KILLS = 4
# For anything to come, on a busy machine.
PATIENCE = 300.0

SERVER: dict[str, object] = {
    "adapters.PLANT.data.READINGS.adapter": "ingest",
    "adapters.PLANT.data.READINGS.parameters.tokens": [TOKEN],
    'adapters.PLANT.data.READINGS.parameters.items."reading.*"': "MERGE",
    "adapters.PLANT.data.READINGS.journal.items": ["*"],
    "adapters.PLANT.data.READINGS.journal.policy": "ack",
    "adapters.PLANT.data.TOTALS.adapter": "ingest",
    "adapters.PLANT.data.TOTALS.parameters.tokens": [TOKEN],
    'adapters.PLANT.data.TOTALS.parameters.items."total.*"': "MERGE",
    "adapters.PLANT.data.TOTALS.journal.items": ["*"],
    "adapters.PLANT.data.TOTALS.journal.policy": "ack",
    "journal.readers.spark.token": READER_TOKEN,
    "journal.readers.spark.entities": ["*"],
}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


class Plant:
    """A server whose journal is read over the network, and readings: the nth of a machine is n degrees."""

    def __init__(self, directory: Path) -> None:
        self.server = RealServer(directory, SERVER)
        self.count = 0
        self._batch = 0

    def __enter__(self) -> Plant:
        self.server.__enter__()
        self._outlet = Outlet(self.server.api, "PLANT", "READINGS", TOKEN)
        return self

    def __exit__(self, *error: object) -> None:
        self._outlet.close()
        self.server.__exit__(None, None, None)

    def feed(self, batches: int, per_batch: int = 5) -> None:
        """So many batches of readings of all machines."""
        for _ in range(batches):
            celsius = [n for n in range(self.count + 1, self.count + per_batch + 1) for _ in MACHINES]
            items = [f"reading.{machine}" for machine in MACHINES] * per_batch
            self._outlet.put_batch("plant", self._batch, pa.table({"item": items, "celsius": celsius}), "MERGE")
            self._batch += 1
            self.count += per_batch

    def totals(self) -> dict[str, list[tuple[int, int]]]:
        """Of each machine what was published: how many readings, and the hottest."""
        found: dict[str, list[tuple[int, int]]] = {machine: [] for machine in MACHINES}
        selection = EventSelection(entities=("PLANT/TOTALS/*",), kinds=("update",))
        for row in held(self.server.directory / "data" / "journal", selection).to_pylist():
            fields = json.loads(row["value"])
            assert row["entity"] == f"PLANT/TOTALS/total.{fields['machine']}"
            found[fields["machine"]].append((int(fields["readings"]), int(float(fields["hottest"]))))
        return found

    def published(self) -> int:
        return sum(map(len, self.totals().values()))

    def is_complete(self) -> bool:
        return all(rows and rows[-1][0] >= self.count for rows in self.totals().values())


def write_configuration(
    place: Path, api: str, master: str, settings: Mapping[str, str], jars: str = f"{JARS}/*"
) -> None:
    """That of the page, with addresses of this place, and with settings of Spark."""
    place.mkdir()
    (place / "token.txt").write_text(f"{TOKEN}\n")
    (place / "reader-token.txt").write_text(f"{READER_TOKEN}\n")
    text = block("queries.toml")
    for written, here in {
        "https://push.example.com:8081": api,
        "spark://spark.example.com:7077": master,
        "/opt/hadoop-aws/*": jars,
        "[pipeline.spark]\n": "[pipeline.spark]\n"
        + "".join(f'"{key}" = "{value}"\n' for key, value in settings.items()),
    }.items():
        assert written in text, written
        text = text.replace(written, here)
    (place / "queries.toml").write_text(text)


class Driver:
    """The command of the page, in a group of its own, so that all of it can die at once."""

    def __init__(self, place: Path, data: str, before: list[str] | None = None, *options: str) -> None:
        assert f"\npenstock {COMMAND} pipeline-data\n" in PAGE
        assert not (place / data).exists()
        self._log = place / f"{data}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*(before or ()), str(PENSTOCK), *COMMAND.split(), data, *options],
                cwd=place,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            # Nobody but the driver is killed here, so no query has a reason to fail.
            assert self.process.poll() is None, self.log
            assert "query failed" not in self.log, self.log
            assert time.monotonic() < deadline, self.log
            threading.Event().wait(0.1)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0, self.log

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.kill()


def test_a_query_with_groups_goes_on_with_a_driver_whose_disk_is_empty(store: ObjectStore, tmp_path: Path) -> None:
    chance = Random(20)
    place = tmp_path / "driver"
    with Cluster(tmp_path / "cluster") as cluster, Plant(cluster.hidden / "server") as plant:
        write_configuration(place, plant.server.api, cluster.url, SETTINGS)
        for number in range(KILLS + 1):
            with Driver(place, f"data-{number}", apart(cluster.hidden)) as driver:
                begun = time.monotonic()
                # A few batches, so that it has read a state and written others.
                for _ in range(chance.randrange(2, 5)):
                    before = plant.published()
                    plant.feed(chance.randrange(1, 40))
                    driver.wait_until(lambda before=before: plant.published() > before)  # type: ignore[misc]
                if number < KILLS:
                    # In the middle of whatever a batch does just then.
                    plant.feed(chance.randrange(1, 40))
                    driver.kill()
                else:
                    driver.wait_until(plant.is_complete)
                    driver.stop()
            print(f"driver {number + 1}: over after {time.monotonic() - begun:.1f} s", flush=True)
        totals, published = plant.totals(), plant.published()
        for rows in totals.values():
            counts = [readings for readings, _ in rows]
            # Nothing is published twice, and no row has counted an event twice or without those before it.
            assert counts == sorted(set(counts))
            assert counts[-1] == plant.count
            assert all(readings == hottest for readings, hottest in rows)
        logs = [path.read_text(errors="replace") for path in place.glob("*.log")] + [
            daemon.log.read_text() for daemon in cluster.workers
        ]
        assert not [log for log in logs if SECRET in log]
    print(f"{KILLS} kills, {plant.count * len(MACHINES)} readings, {published} totals", flush=True)


WRONG = {"spark.hadoop.fs.s3a.access.key": WRONG_KEY, "spark.hadoop.fs.s3a.secret.key": "another-secret"}


@pytest.mark.parametrize(
    ("settings", "jars", "code", "reason"),
    [
        (
            {},
            "/nowhere/*",
            2,
            "pipeline.checkpoints is s3a://bucket/penstock/checkpoints: Spark has no connector for s3a:// (of Hadoop "
            "3.5.0); expected org.apache.hadoop:hadoop-aws:3.5.0 in spark.jars.packages, or its files in spark.jars, "
            "of [pipeline.spark]",
        ),
        (
            WRONG,
            f"{JARS}/*",
            1,
            "s3a://bucket/penstock/checkpoints/totals cannot be used: the object store refused the credentials "
            "(InvalidAccessKeyId)",
        ),
    ],
    ids=["no connector", "wrong credentials"],
)
def test_what_is_wrong_is_one_sentence(
    store: ObjectStore, tmp_path: Path, settings: dict[str, str], jars: str, code: int, reason: str
) -> None:
    place = tmp_path / "driver"
    with Plant(tmp_path / "server") as plant:
        write_configuration(place, plant.server.api, "local[2,4]", settings, jars)
        text = (place / "queries.toml").read_text()
        (place / "queries.toml").write_text(text.replace("[pipeline]\n", '[pipeline]\nrestart = "never"\n'))
        with Driver(place, "data") as driver:
            assert driver.process.wait(PATIENCE) == code, driver.log
    starting, told = driver.log.splitlines()
    assert starting == "pipeline: starting Spark…"
    assert f'reason="{reason}"' in told
    assert "another-secret" not in driver.log
