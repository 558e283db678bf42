"""The Spark session all jobs share: embedded (a task is tried four times), on a cluster, or through Spark Connect.

Every setting that differs from Spark's default says why. Not here: what jobs do with it. Read next: docs/pipeline.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.pipeline import register
from penstock.pipeline.classes import class_archive
from penstock.pipeline.errors import BadOption, explain
from penstock.pipeline.java import java_home
from penstock.pipeline.realtime import JAR_PATH, real_time_jar
from penstock.pipeline.workers import worker_python

_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

SETTINGS: dict[str, str] = {
    # Plans of a stream do not adapt, but checking whether they could costs time in each batch.
    "spark.sql.adaptive.enabled": "false",
    # Renaming checkpoint files is slower through FileContext than through FileSystem.
    _CHECKPOINT_FILES: _FILE_MANAGER,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # A journal's times are UTC, and filters are pushed down as such.
    "spark.sql.session.timeZone": "UTC",
    # Off by default; the source's option pushFilters needs it, and without that option nothing is pushed.
    "spark.sql.python.filterPushdown.enabled": "true",
    # The journal's batches are no larger; with Spark's 10,000 each would be cut in two.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # What a driver collects of one batch, before `publish_stream` has the tasks send it: Python holds it three times.
    "spark.driver.maxResultSize": "128m",
    # Progress is shown by `penstock pipeline status`.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The runner looks once a second, and counts late rows and misfits in the entries that are new. An entry that Spark
    # has dropped by then is never counted: so many are enough for batches of 10 ms, and all of them are fetched at each
    # look. How short batches are: docs/performance.md, "Latency of Spark".
    "spark.sql.streaming.numRecentProgressUpdates": "100",
    "spark.sql.streaming.stopTimeout": "20s",
    # Hadoop does not look at the umask of its process: checkpoints would be for everybody to read.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    # For Python and the JVM to meet when a result is fetched: 15 seconds are not always enough on a loaded machine.
    "spark.python.authenticate.socketTimeout": "120s",
}

LOCAL = {
    # Nothing leaves this machine unless a master is named; workers elsewhere must reach the driver.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # More partitions are more small tasks, and more state stores to commit in each batch. A cluster has its own.
    "spark.sql.shuffle.partitions": "1",
}

# Hadoop's own starts a process for each file that it writes, four to six in a batch. This one is in the jar.
_FILES, LOCAL_FILES = "spark.hadoop.fs.file.impl", "penstock.spark.LocalFiles"

# Checkpoints in S3: a rename there is a copy, which replaces what another driver has written. This one is in the jar.
OBJECT_FILES = "penstock.spark.ObjectFiles"

# Which of Hadoop's libraries has the connector for URLs of this scheme.
_CONNECTORS = {"s3a": "hadoop-aws", "abfss": "hadoop-azure"}
# What Java says, in the end, where classes are missing.
_NO_CLASS = re.compile(r"ClassNotFoundException|NoClassDefFoundError|UnsupportedFileSystemException")

# Start-up is most of a short run: no second compiler, no parallel collector on two cores.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
# Error texts are matched by recursive regular expressions: with the default stack stopping a query overflows it.
_LONG_JVM = "-XX:+UseSerialGC -Xss4m"


# What a user may add to these.
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC(?!\S)")
# With these no archive of classes is used: Java 17 crashes with Flight Recorder and one, and agents change classes.
_NO_ARCHIVE = re.compile(r"FlightRecord|-javaagent|-agentlib|-agentpath|-Xshare|SharedArchiveFile|DumpLoadedClassList")

# How long the JVM may take to end before it is killed.
_LAST_SECONDS = 20


def open_session(
    name: str,
    cache: Path,
    *,
    master: str = "local[*,4]",
    memory: str = "1g",
    quick: bool = False,
    settings: Mapping[str, str] | None = None,
    archive: bool = False,
    real_time: bool = False,
    checkpoints: str = "",
) -> SparkSession:
    """Start Spark, or reach one by Spark Connect (`sc://host:port`); takes several seconds.

    `settings` go over those above. `quick` is for runs of less than a minute. The JVM uses the archive of its classes
    that is in the cache; with `archive` and without one it writes down what belongs into it: see `classes`. With
    `real_time` it has the jar for `realtime`. `checkpoints` is where those of the queries will be, if that is a URL.
    Raises BadOption.
    """
    # Workers otherwise take whatever `python3` is first on the path. On a cluster they are on machines that may not see
    # the cache: there it is the interpreter itself, and Spark's ten seconds for a worker to call back hold.
    local = master.startswith("local")
    os.environ["PYSPARK_PYTHON"] = str(worker_python(cache)) if local else sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # On a cluster the workers need the jar as well. Here all of Spark is in the JVM that is started.
    files = {_FILES: LOCAL_FILES} if local and JAR_PATH.exists() else {}
    if urlsplit(checkpoints).scheme == "s3a":
        files[_CHECKPOINT_FILES] = OBJECT_FILES
    chosen = {**SETTINGS, **(LOCAL if local else {}), **files, **(settings or {})}
    if real_time or files:
        jars, between = ("spark.driver.extraClassPath", os.pathsep) if local else ("spark.jars", ",")
        chosen[jars] = between.join([*filter(None, [chosen.get(jars)]), str(real_time_jar())])
    if master.startswith("sc://"):
        session = SparkSession.builder.remote(master).getOrCreate()
        for key, value in chosen.items():
            # The others belong to the server, and are its owner's.
            if session.conf.isModifiable(key):
                session.conf.set(key, value)
    else:
        session = _start(name, cache, master, memory, _QUICK_JVM if quick else _LONG_JVM, chosen, archive)
        if "://" in checkpoints:
            _check_connector(session, checkpoints)
    register(session)
    return session


def _start(
    name: str, cache: Path, master: str, memory: str, options: str, settings: Mapping[str, str], archive: bool
) -> SparkSession:
    home = java_home(cache)
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    own = settings.get(_JAVA_OPTIONS, "")
    classes = None if _NO_ARCHIVE.search(own) else class_archive(cache)
    if classes is not None:
        options = f"{options} {classes.options(record=archive)}"
    options = with_own(options, own)
    # Before the JVM starts: it looks for an address of its own, and complains, whatever the settings say.
    if settings.get("spark.driver.bindAddress") == "127.0.0.1":
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    base = {
        "spark.driver.memory": memory,
        "spark.local.dir": str(cache / "spark"),
        "spark.sql.warehouse.dir": str(cache / "warehouse"),
    }
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**base, **settings, _JAVA_OPTIONS: options}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _check_connector(session: SparkSession, url: str) -> None:
    """Whether Spark knows what to do with a URL; nothing is asked of the store. Raises BadOption."""
    java: Any = session._jvm
    try:
        java.org.apache.hadoop.fs.Path(url).getFileSystem(session._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        reason = explain(error)
        if _NO_CLASS.search(str(error)):
            scheme, version = urlsplit(url).scheme, java.org.apache.hadoop.util.VersionInfo.getVersion()
            library = f"org.apache.hadoop:{_CONNECTORS[scheme]}:{version}" if scheme in _CONNECTORS else "one"
            reason = (
                f"Spark has no connector for {scheme}:// (of Hadoop {version}); expected {library} in "
                "spark.jars.packages, or its files in spark.jars, of [pipeline.spark]"
            )
        close_session(session)
        raise BadOption(f"pipeline.checkpoints is {url}: {reason}") from None


def with_own(options: str, own: str) -> str:
    """Those of a user after ours: of two that differ the JVM takes the last, but it refuses two collectors."""
    if _COLLECTOR.search(own):
        options = _COLLECTOR.sub("", options)
    return " ".join(f"{options} {own}".split())


def close_session(session: SparkSession) -> None:
    """Stop Spark and its JVM, and wait for both; `SparkSession.stop` alone leaves the JVM until Python ends.

    A session of Spark Connect is only left: the server stays, and so do its queries.
    """
    gateway = SparkContext._gateway
    session.stop()
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        # The JVM ends when nothing holds its standard input any more.
        process.stdin.close()
        try:
            process.wait(_LAST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
