"""A real standalone Spark cluster of processes on this machine: one master, two workers with a core each.

Drivers run in processes of their own: `run` starts one, and `penstock pipeline run NAME --master
cluster.url` is another. Ports are whatever is free. Read next: `test_cluster`.
"""

from __future__ import annotations

import os
import queue
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO

import pyspark

from penstock.pipeline.java import java_home
from tests.support.command import PENSTOCK

ROOT = Path(__file__).parents[2]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"

# How long a process may take until it says that it is there; the machine may be busy.
START_SECONDS = 120
STOP_SECONDS = 20

# What a driver needs beside `master`: it listens here, and leaves the executors small enough for both to fit.
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
}


def apart(directory: Path) -> list[str]:
    """What a command begins with that runs as on another machine, as far as this directory goes: it is empty there."""
    script = f'mount -t tmpfs none {shlex.quote(str(directory))} && exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]


class Daemon:
    """A process of Spark whose log is kept, and searched while it is written."""

    def __init__(self, place: Path, *arguments: str, without: Path | None = None) -> None:
        """`without` is a directory that it, and all that it starts, must not see."""
        place.mkdir(parents=True, exist_ok=True)
        self.log = place / "log"
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        environment = {
            **os.environ,
            # Web pages, too, listen on this address only.
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_LOG_DIR": str(place),
            "SPARK_LOCAL_DIRS": str(place / "local"),
            "SPARK_WORKER_DIR": str(place / "work"),
            "PYSPARK_PYTHON": sys.executable,
        }
        home = java_home(place / "java")
        if home is not None:
            environment["JAVA_HOME"] = str(home)
        self.process = subprocess.Popen(
            [*(apart(without) if without is not None else ()), str(SPARK_CLASS), *arguments],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reading.start()

    def _read(self, output: IO[str]) -> None:
        with self.log.open("w") as log:
            for line in output:
                log.write(line)
                log.flush()
                self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line from here on that has it."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"no {pattern!r} in:\n{self.log.read_text()}")
            if found := re.search(pattern, line):
                return found

    def kill(self) -> None:
        """At once, as a machine dies."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reading.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Cluster:
    """`url` is what `--master` takes."""

    def __init__(self, place: Path, workers: int = 2) -> None:
        self._place = place
        # For the data of servers: neither workers nor their executors see what is in it.
        self.hidden = place / "hidden"
        self.hidden.mkdir(parents=True)
        self._daemons: list[Daemon] = []
        self.workers: list[Daemon] = []
        try:
            master = self._start("master", "org.apache.spark.deploy.master.Master")
            self.url = master.wait_for(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")[1]
            for number in range(workers):
                self.workers.append(
                    self._start(
                        f"worker-{number}",
                        "org.apache.spark.deploy.worker.Worker",
                        *("--cores", "1", "--memory", "700m"),
                        self.url,
                    )
                )
            for worker in self.workers:
                worker.wait_for("Successfully registered with master")
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, kind: str, *arguments: str) -> Daemon:
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        daemon = Daemon(self._place / name, kind, *ports, *arguments, without=self.hidden)
        self._daemons.append(daemon)
        return daemon

    def run(self, script: str, *arguments: str, timeout: float = 600) -> str:
        """A driver: `script` is Python with `spark` and `arguments` in it. Returns what it printed.

        It does not see `hidden` either.
        """
        settings = repr(SETTINGS)
        text = (
            "import sys\nfrom pathlib import Path\nfrom penstock.pipeline.session import close_session, open_session\n"
            "cache, url, *arguments = sys.argv[1:]\n"
            f"spark = open_session('test', Path(cache), master=url, quick=True, settings={settings})\n"
            f"{script}\nclose_session(spark)\n"
        )
        done = subprocess.run(
            [*apart(self.hidden), sys.executable, "-c", text, str(self._place / "driver"), self.url, *arguments],
            cwd=ROOT,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-20_000:]
        return done.stdout

    def command(self, directory: Path, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """`penstock pipeline …` as people type it, with the data directory `directory`/data and its penstock.toml."""
        written = "".join(f'"{name}" = "{value}"\n' for name, value in SETTINGS.items())
        configuration = directory / "penstock.toml"
        with configuration.open("a") as file:
            file.write(f"[pipeline.spark]\n{written}")
        places = ("--config", str(configuration), "--data-dir", str(directory / "data"), "--master", self.url)
        return subprocess.run(
            [str(PENSTOCK), "pipeline", *arguments, *places],
            cwd=directory,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def close(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
