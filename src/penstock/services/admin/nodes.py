"""The nodes of a server that have clients of their own, as administrators drain them one by one.

A server of one process is its only node. Those of a hub and its edges are in `penstock.services.cluster.drains`; what
a drain does is in `drain`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class NodeState(NamedTuple):
    """Of one node: whether it is drained by itself, in which time its sessions end, whether it stops, its sessions."""

    is_on: bool
    seconds_left: float | None
    stops: bool
    sessions: int


class Nodes(Protocol):
    """By the names that the status of the server shows. Only those with clients are in it."""

    # This process; None: it has no clients.
    own: str | None

    def others(self) -> list[str]: ...
    def state(self, name: str) -> NodeState:
        """Of one of the others."""

    def begin(self, name: str, seconds: float | None, stop: bool) -> None:
        """Drain one of the others."""

    def cancel(self, name: str) -> None:
        """Let clients into one of the others again."""

    def clear(self) -> None:
        """None of the others is drained by itself any more; they are told with the next change of the gate."""


class OnlyNode:
    """This process is the whole server."""

    def __init__(self, name: str) -> None:
        self.own: str | None = name

    def others(self) -> list[str]:
        return []

    def state(self, name: str) -> NodeState:
        raise KeyError(name)

    def begin(self, name: str, seconds: float | None, stop: bool) -> None:
        raise KeyError(name)

    def cancel(self, name: str) -> None:
        raise KeyError(name)

    def clear(self) -> None:
        """There are none."""
