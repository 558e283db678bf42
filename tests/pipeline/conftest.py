"""One Spark session for all tests that ask for it: a JVM costs half a minute, so there is never a second one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.cluster import Cluster

# The first test of a run also waits for the JVM and for Spark's classes to be loaded.
TIMEOUT = 300

# A task may fail three times, as in `penstock pipeline run`.
MASTER = "local[2,4]"

# Set in the environment of the process whose session is one of Spark Connect.
CONNECT = "PENSTOCK_TEST_CONNECT"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for the session is marked `spark`, and has time enough."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The shared session, with `format("penstock")` registered. A test that changes its settings puts them back.

    In the process that `test_connect` starts it is a session of Spark Connect, made as its users make one.
    """
    from penstock.pipeline.realtime import JAR_PATH
    from penstock.pipeline.session import close_session, open_session

    cache = tmp_path_factory.mktemp("spark")
    session = (
        connect(cache)
        if os.environ.get(CONNECT)
        # Where there is no JDK, the tests of real time alone say so.
        else open_session("tests", cache, master=MASTER, quick=True, real_time=JAR_PATH.exists())
    )
    try:
        yield session
    finally:
        close_session(session)


def connect(cache: Path) -> SparkSession:
    """A session of somebody's own: Spark Connect with a server on this machine."""
    from pyspark.sql import SparkSession

    from penstock.pipeline import register
    from penstock.pipeline.session import LOCAL, SETTINGS
    from penstock.pipeline.workers import worker_python

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = str(worker_python(cache))
    builder = SparkSession.builder.remote("local[2]")
    place = {"spark.local.dir": str(cache / "spark"), "spark.sql.warehouse.dir": str(cache / "warehouse")}
    for key, value in {**SETTINGS, **LOCAL, **place}.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # It sets each of them twice: for the server, which takes them, and for the session, which may not.
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        session = builder.getOrCreate()
    register(session)
    return session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster: a master and two workers, each a process. For tests marked `spark_long`."""
    from tests.pipeline.cluster import Cluster

    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_query_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A query that a failed test leaves behind must not take the cores of the tests after it."""
    yield
    if "spark" in request.fixturenames:
        for query in request.getfixturevalue("spark").streams.active:
            query.stop()
