"""How a program of your own ends: at Ctrl-C or SIGTERM with one line, its queries and Spark stopped in order.

Without it Ctrl-C cuts into whatever the program is asking Spark, and cancels its jobs: both sides print what they make
of that. Not here: `penstock pipeline run`, which has more to end (runner). Read next: session.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from types import FrameType

from pyspark.sql import SparkSession

from penstock.pipeline.errors import explain
from penstock.pipeline.session import close_session

# Seconds between two looks at the queries.
LOOK = 1.0

# Exit code of whoever is interrupted and does not wait for the end.
INTERRUPTED = 130


def run_until_stopped(spark: SparkSession) -> None:
    """Wait for the queries of a session; call it at the end of a program, from its main thread.

    Ctrl-C or SIGTERM stops them and closes Spark; the second time ends the program at once. A query that fails ends the
    program with one line and exit code 1. Returns when all of them have ended.
    """
    stop = threading.Event()

    def hear(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    # Spark has put one of its own here, which cancels all jobs.
    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        problem = _wait(spark, stop)
        if stop.is_set():
            print("penstock: stopping Spark…", file=sys.stderr, flush=True)
        _close(spark)
    finally:
        for number, handler in before.items():
            # The session that Spark's would cancel jobs of is closed.
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else handler)
    if problem is not None:
        raise SystemExit(f"penstock: a query has failed: {problem}")


def _wait(spark: SparkSession, stop: threading.Event) -> str | None:
    """Until somebody says stop, or no query is left; why one failed, if it did."""
    queries = spark.streams.active
    while queries and not stop.wait(LOOK):
        for query in [query for query in queries if not query.isActive]:
            error = query.exception()
            if error is not None:
                return explain(error)
            queries.remove(query)
    return None


def _close(spark: SparkSession) -> None:
    """What is said about being stopped means nothing: a batch that was cut off is run again next time."""
    before = logging.root.manager.disable
    # py4j logs what its calls that are under way come to.
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.suppress(Exception):
            _silence(spark)
        for query in spark.streams.active:
            with contextlib.suppress(Exception):
                query.stop()
        close_session(spark)
    finally:
        logging.disable(before)


def _silence(spark: SparkSession) -> None:
    """The JVM logs, and prints what ends its threads. One behind Spark Connect says nothing here."""
    context = getattr(spark, "_sc", None)
    if context is None or context._jvm is None:
        return
    context.setLogLevel("OFF")
    java = context._jvm.java
    java.lang.System.setErr(java.io.PrintStream(java.io.OutputStream.nullOutputStream()))
