"""A real MQTT broker: mosquitto."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.broker_process import HOST, BrokerProcess


class Mosquitto(BrokerProcess):
    """`settings` are further lines of its configuration file."""

    def __init__(self, directory: Path, settings: str = "allow_anonymous true") -> None:
        super().__init__(directory / "mosquitto.log")
        self._file = directory / "mosquitto.conf"
        self._file.write_text(f"listener {self.port} {HOST}\n{settings}\n")

    def command(self) -> list[str]:
        return [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(self._file)]
