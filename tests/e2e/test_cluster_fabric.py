"""A cluster of processes whose NATS server loses messages, delivers them twice, and late: clients notice nothing wrong.

The rules under such a fabric are in tests/cluster/test_model.py; here real nodes are behind a proxy that does it.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.cluster_nodes import ClusterOfNodes
from tests.support.trial import Trial
from tests.support.unreliable_nats import UnreliableNats

pytestmark = pytest.mark.timeout(400)

# Of each message to be lost, to come twice, and to come after later ones.
CHANCE = 0.1


def test_messages_that_are_lost_come_twice_or_late_change_nothing_for_clients(tmp_path: Path) -> None:
    nats = UnreliableNats(tmp_path)
    with ClusterOfNodes(tmp_path, ["h1"], servers=[nats]) as cluster, Trial(cluster) as trial:
        nats.chance = CHANCE
        while min(nats.dropped, nats.repeated, nats.delayed) < 50:
            trial.all_have(trial.publisher.until_more())
        nats.chance = 0.0
        trial.judge()


@pytest.mark.cluster_long
def test_nodes_are_killed_while_messages_are_lost_come_twice_or_late(tmp_path: Path) -> None:
    nats = UnreliableNats(tmp_path)
    with ClusterOfNodes(tmp_path, servers=[nats]) as cluster, Trial(cluster) as trial:
        nats.chance = CHANCE
        for part in ("e1", "h1", "e2", "h2"):
            trial.all_have(trial.publisher.until_more())
            cluster[part].end(signal.SIGKILL)
            trial.until_felt(part)
            cluster[part].start()
            if part in cluster.hubs:
                cluster.wait_until_standing_by(part, 2 if part == "h2" else 1)
            else:
                cluster[part].wait_until_ready()
        assert min(nats.dropped, nats.repeated, nats.delayed) > 50
        nats.chance = 0.0
        trial.judge()
