"""A real Kafka broker, without ZooKeeper and alone in its cluster."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.pipeline.java import java_home
from tests.support.broker_process import HOST, PATIENCE, BrokerProcess, free_port

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".interop" / "kafka"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map={protocols},CONTROLLER:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def jars(part: str) -> list[Path]:
    """Of the broker, which `make interop-setup` brings, or of Spark's connector, which `make test-spark` brings."""
    return sorted((JARS / part).glob("*.jar"))


class KafkaListener:
    """Another address of a broker, beside the one that everybody may use. `settings` are for it alone."""

    def __init__(self, name: str, protocol: str, settings: Mapping[str, str]) -> None:
        self.name = name
        self.protocol = protocol
        self.settings = settings
        self.port = free_port()


class Broker(BrokerProcess):
    """With a directory of its own, which is made. `scram_users` are as the tool of the storage wants them."""

    def __init__(
        self, directory: Path, listeners: Sequence[KafkaListener] = (), scram_users: Sequence[str] = ()
    ) -> None:
        super().__init__(directory / "log")
        self._directory = directory
        directory.mkdir()
        self._properties = directory / "server.properties"
        self._scram_users = scram_users
        ports = {"PLAINTEXT": self.port, **{each.name: each.port for each in listeners}}
        protocols = {"PLAINTEXT": "PLAINTEXT", **{each.name: each.protocol for each in listeners}}
        made = PROPERTIES.format(
            listeners=",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
            protocols=",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            controller=free_port(),
            logs=directory / "logs",
        )
        for each in listeners:
            made += "".join(
                f"listener.name.{each.name.lower()}.{key}={value}\n" for key, value in each.settings.items()
            )
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

    def create_topic(self, name: str) -> None:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE)

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self._properties))

    def _format(self) -> None:
        name = "AAAAAAAAAAAAAAAAAAAAAQ"
        users = [part for user in self._scram_users for part in ("--add-scram", user)]
        command = self._java(
            "kafka.tools.StorageTool", "format", "--cluster-id", name, "--config", str(self._properties), *users
        )
        done = subprocess.run(command, check=False, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    def _java(self, *arguments: str) -> list[str]:
        home = java_home(self._directory / "java")
        java = str(home / "bin" / "java") if home is not None else shutil.which("java") or "java"
        path = ":".join(str(jar) for jar in jars("broker"))
        return [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, *arguments]
