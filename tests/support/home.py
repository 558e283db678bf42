"""What followers and publishers need of a place that has clients, or takes events: a node, or a whole server."""

from __future__ import annotations

from typing import Protocol

from tests.support.raw import Exchange


class Home(Protocol):
    """`tests.support.cluster_nodes.ClusterNode` is one, and a server of workers may be one."""

    name: str

    @property
    def is_running(self) -> bool: ...
    @property
    def has_clients(self) -> bool: ...
    @property
    def exchange(self) -> Exchange: ...
    def publish(self, item: str, timeout: float = ..., **fields: str) -> bool:
        """Whether it was acknowledged."""
