"""The Spark that a runner's queries run on, in this process or through Spark Connect.

Imports pyspark when it is opened, not before. Not here: how a session is set up (session). Read next: runner.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Spark:
    """`session` is there once it is open."""

    session: SparkSession

    def __init__(self, name: str, cache: Path, *, master: str, memory: str, settings: Mapping[str, str]) -> None:
        self._name = name
        self._cache = cache
        self._master = master
        self._memory = memory
        self._settings = dict(settings)

    def open(self) -> None:
        from penstock.pipeline.session import open_session

        self._cache.mkdir(parents=True, exist_ok=True)
        self.session = open_session(
            self._name,
            self._cache,
            master=self._master,
            memory=self._memory,
            settings=self._settings,
        )

    def here(self) -> SparkSession:
        """The session for the calling thread.

        Classic Spark looks for the format of a sink in the session that its thread has, and a new one has none.
        """
        session = self.session
        java = getattr(session, "_jsparkSession", None)
        if java is not None:
            # As `createDataFrame` does; pyspark has no public word for it.
            session._get_j_spark_session_class(session._jvm).setActiveSession(java)
        return session

    def is_alive(self) -> bool:
        """Whether the JVM is there. One behind Spark Connect is somebody else's: its queries say when it is gone."""
        process = self._process()
        return process is None or process.poll() is None

    def close(self) -> None:
        from penstock.pipeline.session import close_session

        close_session(self.session)

    def kill(self) -> None:
        process = self._process()
        if process is not None:
            process.kill()
            process.wait()

    def _process(self) -> subprocess.Popen[bytes] | None:
        """The JVM, if it is ours: pyspark hangs it on an object that has no such attribute by itself."""
        from pyspark import SparkContext

        return getattr(SparkContext._gateway, "proc", None)
