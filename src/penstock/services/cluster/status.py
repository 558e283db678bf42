"""Which processes a server is made of, and how they are: what `penstock cluster status` shows.

Beside the hub and its edges these are hubs that stand by, and workers that are given up, as far as the hub is told.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.doors.gate import Gate
from penstock.kernel.kernel import Kernel
from penstock.monitor.figures import HUB

if TYPE_CHECKING:
    from penstock.services.admin.models import ClusterInfo, NodeInfo
    from penstock.services.cluster.hub import HubService

MILLIS = 1000


class ClusterStatus:
    """Of the process that has the API port, and of its edges if it is a hub."""

    def __init__(self, node: str, kernel: Kernel, gate: Gate) -> None:
        self._node = node
        self._gate = gate
        self._kernel = kernel
        self._started = time.time()
        self.hub: HubService | None = None

    def look(self) -> ClusterInfo:
        from penstock.services.admin.models import ClusterInfo

        own = self._own()
        if self.hub is None:
            return ClusterInfo(epoch=None, nodes=[own])
        return ClusterInfo(epoch=str(self.hub.epoch), nodes=[own, *self._edges(self.hub), *_bystanders(self.hub)])

    def _own(self) -> NodeInfo:
        from penstock.services.admin.models import NodeInfo

        role = "single" if self.hub is None else "both" if self.hub.has_clients else "hub"
        return NodeInfo(
            name=self._node if self.hub is None else HUB,
            node=self._node,
            role=role,
            version=__version__,
            since_ms=int(self._started * MILLIS),
            state=_state(answers=True, draining=self._gate.draining),
            answers=True,
            sessions=len(self._kernel.sessions),
            items=sum([len(feed.items) for feed in self._kernel.feeds.values()]),
            lag_millis=None,
        )

    def _edges(self, hub: HubService) -> list[NodeInfo]:
        from penstock.services.admin.models import NodeInfo

        items, found = hub.owner.edges, []
        is_draining = hub.gate is not None and hub.gate().draining
        for edge, worker, entry in hub.roll.named():
            known, answers = hub.guests.edges.get(edge), hub.roll.is_fresh(entry)
            found.append(
                NodeInfo(
                    name=worker,
                    node=entry.hello.node,
                    role="edge",
                    version=entry.hello.release,
                    since_ms=int(entry.came * MILLIS),
                    state=_state(answers, is_draining or hub.drains.of(edge) is not None),
                    answers=answers,
                    sessions=0 if known is None else len(known.guests),
                    items=items.get(edge, 0),
                    lag_millis=None if entry.lag is None else round(entry.lag * MILLIS, 3),
                )
            )
        return found


def _state(answers: bool, draining: bool) -> str:
    return "silent" if not answers else "draining" if draining else "up"


def _bystanders(hub: HubService) -> list[NodeInfo]:
    from penstock.services.admin.models import NodeInfo

    return [
        NodeInfo(
            name=each.name,
            node=each.node,
            role=each.role,
            version=each.release,
            since_ms=int(each.since * MILLIS),
            state=each.state,
            answers=each.state == "up",
            sessions=0,
            items=0,
            lag_millis=None,
        )
        for each in hub.bystanders()
    ]
