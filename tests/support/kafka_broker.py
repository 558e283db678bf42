"""A Kafka broker in a process of its own, without ZooKeeper, alone in its cluster, on ports that were free."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from penstock.pipeline.java import java_home

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".interop" / "kafka"

PATIENCE = 60.0

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def jars(part: str) -> list[Path]:
    """Of the broker, which `make interop-setup` brings, or of Spark's connector, which `make test-spark` brings."""
    return sorted((JARS / part).glob("*.jar"))


class Broker:
    """Used as a context manager; `address` is what clients are given."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            ports = one.getsockname()[1], other.getsockname()[1]
        self.address = f"127.0.0.1:{ports[0]}"
        self._port = ports[0]
        directory.mkdir()
        self._properties = directory / "server.properties"
        self._properties.write_text(PROPERTIES.format(port=ports[0], controller=ports[1], logs=directory / "logs"))

    def __enter__(self) -> Broker:
        name = "AAAAAAAAAAAAAAAAAAAAAQ"
        subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "--cluster-id", name, "--config", str(self._properties)),
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Nothing of it is kept.
        self.kill()

    def start(self) -> None:
        """Again with what it had on its disk, if it was killed."""
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def log(self) -> str:
        """The end of what it has said."""
        return (self._directory / "log").read_text("utf-8", "replace")[-2_000:]

    def _java(self, *arguments: str) -> list[str]:
        home = java_home(self._directory / "java")
        java = str(home / "bin" / "java") if home is not None else shutil.which("java") or "java"
        path = ":".join(str(jar) for jar in jars("broker"))
        return [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, *arguments]
