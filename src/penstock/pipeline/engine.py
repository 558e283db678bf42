"""The Spark that a runner's queries run on, in this process or through Spark Connect.

Imports pyspark when it is opened, not before. Not here: how a session is set up (session). Read next: runner.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Spark:
    """`session` is there once it is open."""

    session: SparkSession

    def __init__(
        self,
        name: str,
        cache: Path,
        *,
        master: str,
        memory: str,
        settings: Mapping[str, str],
        archive: bool = False,
        checkpoints: str = "",
    ) -> None:
        """With `archive`, for long runs, an archive of the JVM's classes is made if there is none: see `classes`.

        `checkpoints` is where those of the queries are, if it is not the data directory.
        """
        self._name = name
        self._cache = cache
        self._master = master
        self._memory = memory
        self._settings = dict(settings)
        self._archive = archive
        self._checkpoints = checkpoints
        # Set when it ends; and who makes the archive, if somebody does.
        self._ending = threading.Event()
        self._archiving: threading.Thread | None = None
        # Of the JVM whose classes go into the archive.
        self._class_path: str | None = None

    def open(self) -> None:
        from penstock.pipeline.session import open_session

        self._cache.mkdir(parents=True, exist_ok=True)
        self.session = open_session(
            self._name,
            self._cache,
            master=self._master,
            memory=self._memory,
            settings=self._settings,
            archive=self._archive,
            checkpoints=self._checkpoints,
        )
        # One behind Spark Connect is not ours.
        java = getattr(self.session, "_jvm", None) if self._archive and self._process() is not None else None
        if java is not None:
            self._class_path = java.java.lang.System.getProperty("java.class.path")

    def at_work(self) -> None:
        """By and by Spark has loaded its classes."""
        from penstock.pipeline.classes import class_archive

        classes = class_archive(self._cache) if self._class_path is not None else None
        if classes is not None and self._class_path is not None:
            self._archiving = classes.make_later(self._class_path, self._ending)

    def _end_archiving(self) -> None:
        self._ending.set()
        if self._archiving is not None:
            self._archiving.join(1.0)

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

        self._end_archiving()
        close_session(self.session)

    def kill(self) -> None:
        self._end_archiving()
        process = self._process()
        if process is not None:
            process.kill()
            process.wait()

    def _process(self) -> subprocess.Popen[bytes] | None:
        """The JVM, if it is ours: pyspark hangs it on an object that has no such attribute by itself."""
        from pyspark import SparkContext

        return getattr(SparkContext._gateway, "proc", None)
