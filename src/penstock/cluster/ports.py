"""The fabric, as hub and edges see it: payloads to and from nodes. Implementations: `local` (Unix sockets), `nats`.

A fabric may drop, repeat and reorder payloads; `penstock.cluster`'s rules hold nevertheless. It never waits: what
cannot be sent is dropped, and a node that cannot keep up is cut off, so that it begins again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from penstock.monitor.figures import Family


class Bystander(NamedTuple):
    """A part of the server that is neither the hub nor an edge of it now, for whoever looks at the status."""

    name: str
    node: str
    role: str
    state: str
    release: str
    # Seconds since 1970.
    since: float


class HubListener(Protocol):
    """Who is at the hub's end. Called on the event loop; must not raise."""

    def received(self, edge: str, payload: bytes) -> None:
        """`edge` is the name that the fabric knows the edge by; replies go to it."""

    def lost(self, edge: str) -> None:
        """The fabric knows that the edge is gone. Not every fabric can tell: silence counts as well."""


class HubFabric(Protocol):
    """The hub's end."""

    async def open(self, listener: HubListener, epoch: int) -> None:
        """Raises OSError if the fabric cannot be had."""

    def send(self, edge: str, payload: bytes) -> None: ...

    def spread(self, edges: frozenset[str], payload: bytes) -> None:
        """The same to several edges, at the cost of one where the fabric can do that."""

    def cut(self, edge: str) -> None:
        """Have no more to do with it; it may come back."""

    def figures(self) -> Iterable[Family]: ...

    async def close(self) -> None: ...


class EdgeListener(Protocol):
    """Who is at an edge's end. Called on the event loop; must not raise."""

    def connected(self) -> None:
        """There is a way to a hub, or to where hubs are: say `Hello`. Also after the way was lost."""

    def received(self, payload: bytes) -> None: ...

    def lost(self) -> None:
        """There is no way to a hub for now; the fabric looks for one."""


class EdgeFabric(Protocol):
    """An edge's end: one hub, whichever it is."""

    async def open(self, listener: EdgeListener) -> None:
        """Returns at once; `connected` tells when there is a way."""

    def send(self, payload: bytes) -> None:
        """To the hub; nothing happens if there is no way."""

    def figures(self) -> Iterable[Family]: ...

    async def close(self) -> None: ...
