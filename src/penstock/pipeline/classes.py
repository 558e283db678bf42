"""An archive of the classes that Spark loads, made by the JVM itself: with it a start need not parse and verify them.

The first run of a pipeline writes down which classes it loads. Soon after all queries are at work, another JVM makes
the archive from that list, at the lowest priority. The JVM checks whether an archive is its own, and does
without it otherwise; so does this when anything fails. What it saves: docs/performance.md, "Candles". Read next:
docs/pipeline.md, "Running jobs".
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from penstock import log

_log = log.get(__name__)

# Seconds until a pipeline whose queries are at work has loaded what it needs.
SETTLED = 15.0

# Seconds between two looks whether the pipeline ends while an archive is being made.
_LOOK = 0.2

# As Spark starts its JVM: with other modules an archive would not fit. See `java` for runtimes without this one.
_MODULES = "--add-modules=jdk.incubator.vector"

_QUIET = "-Xlog:disable -Xlog:all=off"


class ClassArchive:
    """In a directory that Spark's other temporary files are in; `jars` are those of Spark, `own` is one of ours.

    If there is one: Spark runs without it.
    """

    def __init__(self, directory: Path, java: Path, jars: Path, own: Path | None = None) -> None:
        self._directory = directory
        self._java = java
        with java.open("rb") as file:
            beginning = file.read(4096)
        # A script, such as ours, is written anew at each start.
        changed = 0 if beginning.startswith(b"#!") else java.stat().st_mtime_ns
        key = f"{java.resolve()} {beginning!r} {changed} {jars} {jars.stat().st_mtime_ns}"
        if own is not None and own.exists():
            key += f" {own} {own.stat().st_mtime_ns}"
        name = f"classes-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        self._archive = directory / f"{name}.jsa"
        self._list = directory / f"{name}.lst"
        # It was tried, and cannot be made.
        self._failed = directory / f"{name}.failed"

    def options(self, *, record: bool = True) -> str:
        """For the JVM that is started next; with `record` it writes down its classes if there is no archive."""
        if self._archive.exists():
            return f"-XX:SharedArchiveFile={self._archive} -Xshare:auto {_QUIET}"
        return f"-XX:DumpLoadedClassList={self._list}" if record and not self._failed.exists() else ""

    def make_later(self, class_path: str, ending: threading.Event, after: float = SETTLED) -> threading.Thread:
        """In a thread, unless it is there or everything ends before; `class_path` is that of the running JVM."""

        def work() -> None:
            with suppress(OSError):
                if not ending.wait(after) and not self._archive.exists() and self._list.exists():
                    self._make(class_path, ending)

        thread = threading.Thread(target=work, name="class archive", daemon=True)
        thread.start()
        return thread

    def _make(self, class_path: str, ending: threading.Event) -> None:
        # Names of its own: the JVM that a killed pipeline has left behind may still be at it.
        own = secrets.token_hex(4)
        wanted, aside = self._list.with_suffix(f".{own}.whole"), self._archive.with_suffix(f".{own}.new")
        # The last line may not be complete: the JVM is still writing.
        lines = self._list.read_text().splitlines(keepends=True)
        wanted.write_text("".join(lines[:-1]))
        command = [str(self._java), "-Xshare:dump", f"-XX:SharedClassListFile={wanted}"]
        command += [f"-XX:SharedArchiveFile={aside}", _MODULES, "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=off"]
        nice = shutil.which("nice")
        process = subprocess.Popen(
            [*([nice, "-n", "19"] if nice else []), *command, "-cp", class_path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while process.poll() is None:
                if ending.wait(_LOOK):
                    return
            if process.returncode == 0 and aside.exists():
                self._tidy(keep=aside)
                aside.rename(self._archive)
                _log.debug("the next start of Spark is faster: its classes are in an archive", file=str(self._archive))
            else:
                self._tidy()
                self._failed.touch()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            for left in (wanted, aside):
                left.unlink(missing_ok=True)

    def _tidy(self, keep: Path | None = None) -> None:
        """Those of other versions of Java and Spark are of no use any more."""
        for path in self._directory.glob("classes-*"):
            if path != keep:
                path.unlink(missing_ok=True)


def class_archive(cache: Path) -> ClassArchive | None:
    """For the Java and the Spark that `open_session` takes; None if they cannot be found."""
    import pyspark

    from penstock.pipeline.realtime import JAR_PATH

    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    try:
        return ClassArchive(cache.resolve(), java, Path(pyspark.__file__).parent / "jars", JAR_PATH)
    except OSError:
        return None
