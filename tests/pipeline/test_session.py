"""The session that jobs share, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.realtime import JAR_PATH
from penstock.pipeline.runner import USUAL
from penstock.pipeline.session import LOCAL_FILES, SETTINGS, with_own

# Seconds of the shortest batches that are counted completely.
SHORTEST_BATCH = 0.01

OPEN_AND_CLOSE = """
import subprocess, sys
from pathlib import Path
from penstock.pipeline.session import close_session, open_session
from pyspark import SparkContext
spark = open_session("test", Path(sys.argv[1]), master="local[1,4]", quick=True, settings={"spark.ui.enabled": "false"})
process = SparkContext._gateway.proc
assert spark.range(3).count() == 3
name = spark.sparkContext.appName
close_session(spark)
print(name, process.returncode is not None, SparkContext._gateway is None)
"""


def test_importing_the_package_does_not_load_spark() -> None:
    """So that the command line can list jobs at once."""
    script = "import sys, penstock.pipeline; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_the_settings_are_in_force(spark: SparkSession) -> None:
    for name, value in SETTINGS.items():
        assert spark.conf.get(name) == value, name


def test_spark_keeps_the_progress_of_all_batches_between_two_looks() -> None:
    """Late rows and misfits are counted there: it kept 20, and batches without state take less than 50 ms."""
    assert int(SETTINGS["spark.sql.streaming.numRecentProgressUpdates"]) * SHORTEST_BATCH >= USUAL.look


@pytest.mark.parametrize(
    ("own", "all_of_them"),
    [
        ("", "-XX:+UseSerialGC -Xss4m"),
        ("-XX:TieredStopAtLevel=1 -Xss8m", "-XX:+UseSerialGC -Xss4m -XX:TieredStopAtLevel=1 -Xss8m"),
        ("-XX:+UseG1GC -XX:+UseStringDeduplication", "-Xss4m -XX:+UseG1GC -XX:+UseStringDeduplication"),
    ],
)
def test_java_options_of_a_user_are_added_to_ours(own: str, all_of_them: str) -> None:
    assert with_own("-XX:+UseSerialGC -Xss4m", own) == all_of_them


def test_the_file_manager_named_is_one_that_spark_has(spark: SparkSession) -> None:
    """Its package has moved between versions, and a wrong name would only be noticed by a query."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    loaded = jvm.java.lang.Class.forName(SETTINGS["spark.sql.streaming.checkpointFileManagerClass"])
    assert loaded.getSimpleName() == "FileSystemBasedCheckpointFileManager"


@pytest.mark.skipif(not JAR_PATH.exists(), reason="the jar is not built, because there is no JDK")
def test_files_are_written_by_a_class_of_ours_and_only_their_owner_reads_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm = spark.sparkContext._jvm
    context = spark.sparkContext._jsc
    assert jvm is not None
    assert context is not None
    hadoop = jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(jvm.java.net.URI("file:///"), context.hadoopConfiguration())
    assert files.getClass().getName() == LOCAL_FILES
    file = tmp_path / "a file"
    path = hadoop.Path(str(file))
    files.create(path, True).close()
    assert file.stat().st_mode & 0o777 == 0o600
    for mode in (0o640, 0o777, 0o000, 0o1755):
        files.setPermission(path, hadoop.permission.FsPermission(f"{mode:04o}"))
        assert file.stat().st_mode & 0o7777 == mode


def test_a_task_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    """With a plain local master the first dead Python worker would end the query."""
    marker = tmp_path / "died"

    def die_once(rows: object) -> object:
        import os

        if not marker.exists():
            marker.touch()
            os._exit(1)
        return rows

    assert spark.range(10).mapInArrow(die_once, "id long").count() == 10  # type: ignore[arg-type]
    assert marker.exists()


@pytest.mark.spark
def test_closing_waits_for_the_jvm_to_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_AND_CLOSE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "test True True\n", done.stderr
    # Nothing is left where it keeps its temporary files.
    assert [path.name for path in tmp_path.glob("spark/*")] == []
