"""Python workers on a machine where everything takes long: they call Spark back first, and import afterwards."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.source import JournalSource
from penstock.pipeline.workers import worker_python
from tests.pipeline.test_source_spark import sequences
from tests.pipeline.world import make_journal, some

PATIENCE = 60.0
SECRET = "a secret of Spark"

# Longer than Spark waits for a worker to call back.
SLOW_SECONDS = 12

# What a machine under load does to each worker that Spark waits for: its interpreter is slow to come up.
SLOW_START = f"import os, time\nif 'PYTHON_WORKER_FACTORY_PORT' in os.environ: time.sleep({SLOW_SECONDS})\n"

# A worker as pyspark has them, which says what it was started with. The pid comes first, as with every worker.
WORKER = """
import sys
from pyspark.serializers import write_with_length
from pyspark.worker_util import get_sock_file_to_executor
if __name__ == "__main__":
    with get_sock_file_to_executor() as file:
        write_with_length(" ".join(sys.argv[1:]).encode(), file)
"""


class Spark:
    """The side of Spark on which workers call back."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE)
        self.environment = {
            "PYTHON_WORKER_FACTORY_PORT": str(self._listener.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": SECRET,
        }

    def close(self) -> None:
        self._listener.close()

    @contextmanager
    def called(self, answer: bytes = b"ok") -> Iterator[socket.socket]:
        """A worker that has said its secret, and got an answer."""
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(PATIENCE)
            assert text(connection) == SECRET
            connection.sendall(struct.pack("!i", len(answer)) + answer)
            yield connection


def number(connection: socket.socket) -> int:
    (value,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
    assert isinstance(value, int)
    return value


def text(connection: socket.socket) -> str:
    return connection.recv(number(connection), socket.MSG_WAITALL).decode()


@pytest.fixture
def jvm() -> Iterator[Spark]:
    side = Spark()
    yield side
    side.close()


@contextmanager
def worker(jvm: Spark, launcher: Path, path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Started as Spark starts it."""
    with subprocess.Popen(
        [str(launcher), "-m", *arguments],
        env={**os.environ, **jvm.environment, "PYTHONPATH": str(path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_worker_calls_back_before_it_has_imported_anything(tmp_path: Path, jvm: Spark) -> None:
    go = tmp_path / "go"
    # Nothing of Python's own start may come before the call: it ends only after the call was answered.
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    )
    (tmp_path / "a_worker.py").write_text(WORKER)
    launcher = worker_python(tmp_path / "it's a cache")
    with worker(jvm, launcher, tmp_path, "a_worker", "two words", "-x") as process, jvm.called() as connection:
        go.touch()
        assert number(connection) == process.pid
        assert text(connection) == "two words -x"
        assert process.wait(PATIENCE) == 0


def test_a_worker_whose_secret_is_not_accepted_ends_and_says_so(tmp_path: Path, jvm: Spark) -> None:
    with worker(jvm, worker_python(tmp_path), tmp_path, "this") as process, jvm.called(b"err") as connection:
        assert connection.recv(1) == b""
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert "Spark did not accept the secret" in process.stderr.read()


def test_whatever_does_not_call_back_is_started_as_ever(tmp_path: Path) -> None:
    """Spark's daemon, for one, which is called instead."""
    launcher = worker_python(tmp_path)
    script = "import sys; print(sys.executable, *sys.argv[1:])"
    for arguments in (["-c", script, "a b"], ["-m", "timeit", "-n1", "-r1", "-s", script]):
        given, usual = (
            subprocess.run([each, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
            for each in (str(launcher), sys.executable)
        )
        assert given.splitlines()[0] == usual.splitlines()[0]


def test_a_stream_outlasts_workers_that_take_longer_to_start_than_spark_waits(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark 4.3 gives them ten seconds: `Python worker failed to connect back`."""

    class SlowSource(JournalSource):
        @classmethod
        def name(cls) -> str:
            return "slow-penstock"

    (tmp_path / "sitecustomize.py").write_text(SLOW_START)
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment["PYTHONPATH"] = str(tmp_path)
    try:
        spark.dataSource.register(SlowSource)
    finally:
        environment.clear()
        environment.update(before)
    path = make_journal(tmp_path / "journal", some(20))
    written = str(tmp_path / "written")
    query = (
        spark.readStream.format("slow-penstock")
        .load(str(path))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(written)
    )
    query.awaitTermination()
    assert sequences(spark.read.parquet(written)) == list(range(1, 21))
