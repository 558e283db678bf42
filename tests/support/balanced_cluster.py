"""A cluster behind a balancer: two hubs, one of which stands by, and the nodes a and b of examples/balancers as edges.

The files are those of a reader, but for the ports, and for what makes a node an edge.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path

from tests.store.postgres import Postgres
from tests.support.administration import ask, write_users
from tests.support.balancers import ADAPTER_SET, Cluster
from tests.support.cluster_nodes import LEASE_MILLIS, ClusterNode
from tests.support.nats_server import NatsServer
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "balancers.md"
# What makes an edge of a node, as the page has it, and where NATS is there.
[EDGE] = re.findall(r"(?ms)<<'END'\n(.*?)^END$", PAGE.read_text("utf-8"))
NATS = "nats://127.0.0.1:4222"
HUB = """
[server]
node = "{name}"
data_dir = "{directory}/data"
[api]
port = 0
[admin]
users = "{directory}/admins"
[cluster]
role = "hub"
nats = ["{nats}"]
store = "{store}"
lease_millis = {lease_millis}
"""
HUBS = ("h1", "h2")


class BalancedCluster(Cluster):
    """Used as a context manager."""

    def __init__(self, directory: Path, balancer: str = "haproxy") -> None:
        super().__init__(directory, balancer, is_literal=True)
        self._stack = ExitStack()
        self.nats = self._stack.enter_context(NatsServer(directory))
        self.postgres = self._stack.enter_context(Postgres())
        write_users(directory / "admins")
        self._members: dict[str, ClusterNode] = {}
        for name in HUBS:
            filled = {"name": name, "directory": directory, "nats": self.nats.url, "store": self.postgres.url}
            # The same adapter set at both, or sessions would end when the other takes over.
            text = HUB.format(lease_millis=LEASE_MILLIS, **filled) + ADAPTER_SET.format(node="hub")
            self._members[name] = ClusterNode(name, directory, text)
        for name in "ab":
            text = (directory / f"{name}.toml").read_text() + EDGE.replace(NATS, self.nats.url)
            for place in (f"{name}-data", "admins"):
                text = text.replace(f'"{place}"', f'"{directory / place}"')
            self._members[name] = ClusterNode(name, directory, text)
        for name in HUBS:
            self.start(name)
            if name == HUBS[0]:
                self._members[name].wait_until_ready()

    def start(self, node: str) -> None:
        """An edge until it is ready, a hub until it stands by if it has to."""
        member = self._members[node]
        before = member.log.count("standing by")
        member.start()
        if node not in HUBS:
            member.wait_until_ready()
        elif any(self._members[name].is_running for name in HUBS if name != node):
            wait_until(lambda: member.log.count("standing by") > before, f"{node} standing by")

    def kill(self, node: str) -> None:
        self._members[node].end(signal.SIGKILL)

    def stop(self, node: str) -> None:
        assert self._members[node].end(signal.SIGTERM) == 0, self._members[node].log[-3000:]

    def drain(self, node: str, seconds: float | None, stop: bool = True) -> None:
        """Of an edge, by the hub."""
        answer = ask(self._active.ports["api"], "POST", "/drain", {"node": node, "seconds": seconds, "stop": stop})
        assert answer.status == 200, answer

    def drained(self, node: str) -> None:
        assert self._members[node].wait_until_ended() == 0, self._members[node].log[-3000:]

    @property
    def _active(self) -> ClusterNode:
        return next(self._members[name] for name in HUBS if self._members[name].readies)

    def until_active(self) -> None:
        """Until a hub is, and has its edges."""
        hubs = [self._members[name] for name in HUBS]
        wait_until(lambda: any(each.is_running and each.readies for each in hubs), "an active hub")

    def kill_balancer(self) -> None:
        assert self._balancing is not None
        # With its workers: those of nginx would go on.
        os.killpg(self._balancing.pid, signal.SIGKILL)
        self._balancing.wait()
        self._balancing = None

    def close(self) -> None:
        super().close()
        for node, member in self._members.items():
            if member.is_running:
                self.kill(node)
        self._stack.close()
