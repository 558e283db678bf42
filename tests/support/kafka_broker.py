"""A real Kafka broker, without ZooKeeper and alone in its cluster."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from penstock.pipeline.java import java_home
from tests.support.broker_process import PATIENCE, BrokerProcess, free_port

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".interop" / "kafka"

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


class Broker(BrokerProcess):
    """With a directory of its own, which is made."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "log")
        self._directory = directory
        directory.mkdir()
        self._properties = directory / "server.properties"
        made = PROPERTIES.format(port=self.port, controller=free_port(), logs=directory / "logs")
        self._properties.write_text(made)

    def start(self) -> None:
        if not (self._directory / "logs").exists():
            self._format()
        super().start()

    def answers(self) -> bool:
        """It listens a while before it knows of any topic."""
        if not super().answers():
            return False
        # Here, because programs that only want the jars need not have it.
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            AdminClient({"bootstrap.servers": self.address, "log_level": 0}).list_topics(timeout=1.0)
        except KafkaException:
            return False
        return True

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self._properties))

    def _format(self) -> None:
        name = "AAAAAAAAAAAAAAAAAAAAAQ"
        command = self._java(
            "kafka.tools.StorageTool", "format", "--cluster-id", name, "--config", str(self._properties)
        )
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)

    def _java(self, *arguments: str) -> list[str]:
        home = java_home(self._directory / "java")
        java = str(home / "bin" / "java") if home is not None else shutil.which("java") or "java"
        path = ":".join(str(jar) for jar in jars("broker"))
        return [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, *arguments]
