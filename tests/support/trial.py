"""A cluster with clients and somebody who publishes, while a test breaks it; and the judgement at the end.

What is judged: clients hold the right state within the promised time after the repair, what was acknowledged is in the
journal once and in order, and nobody saw what was never published.
"""

from __future__ import annotations

import json
import signal
from types import TracebackType
from typing import Self

from penstock.journal.reader import JournalReader
from tests.journal.world import rows_of
from tests.support.cluster_nodes import ClusterOfNodes
from tests.support.followers import PRICE, Follower, Publisher, within_promise
from tests.support.waiting import wait_until

NATS, POSTGRES = "nats", "postgres"


class Trial:
    """Used as a context manager around a cluster that runs. Parts are named by the keys of nodes, or as above."""

    def __init__(self, cluster: ClusterOfNodes, with_log: bool = False) -> None:
        self.cluster = cluster
        self.publisher = Publisher([cluster[name] for name in cluster.hubs], with_log)
        nodes = list(cluster.nodes.values())
        # Each begins at another node that has clients; others may have some later.
        starts = [at for at, node in enumerate(nodes) if node.has_clients]
        self.followers = [Follower(nodes[at:] + nodes[:at], self.publisher) for at in starts]
        self._fresh: list[Follower] = []

    def __enter__(self) -> Self:
        for each in (self.publisher, *self.followers):
            each.start()
        try:
            self.all_have(self.publisher.until_more())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.publisher.stop()
        for each in (*self.followers, *self._fresh):
            each.stop()

    # -- what is done to it ---------------------------------------------------------------------------------------

    def kill(self, part: str) -> None:
        if part == NATS:
            self.cluster.nats.kill()
        elif part == POSTGRES:
            self.cluster.postgres.kill()
        else:
            self.cluster[part].end(signal.SIGKILL)

    def start(self, part: str) -> None:
        if part == NATS:
            self.cluster.nats.start()
        elif part == POSTGRES:
            self.cluster.postgres.start()
        else:
            self.cluster[part].start()

    def freeze(self, part: str) -> None:
        if part == NATS:
            self.cluster.nats.freeze()
        elif part == POSTGRES:
            self.cluster.postgres.freeze()
        else:
            self.cluster[part].send(signal.SIGSTOP)

    def resume(self, part: str) -> None:
        if part == NATS:
            self.cluster.nats.resume()
        elif part == POSTGRES:
            self.cluster.postgres.resume()
        else:
            self.cluster[part].send(signal.SIGCONT)

    def until_felt(self, part: str) -> None:
        """Until the others have done what they do without it."""
        if part == POSTGRES:
            self.until_no_hub()
        elif part == NATS:
            edges = [self.cluster[name] for name in self.cluster.edges if self.cluster[name].is_running]
            wait_until(lambda: all("connection to NATS" in each.log for each in edges), "edges without NATS")
        elif part in self.cluster.hubs:
            self.publisher.until_more()
        else:
            wait_until(lambda: all(each.homes[-1] != part for each in self.followers), f"nobody at {part}")
            self.all_have(self.publisher.until_more())

    def until_no_hub(self) -> None:
        hubs = [self.cluster[name] for name in self.cluster.hubs]
        wait_until(lambda: any("this hub is no longer active" in each.log for each in hubs), "no active hub")

    # -- what is judged -------------------------------------------------------------------------------------------

    def all_have(self, number: int) -> None:
        """All clients that are there hold this number or a later one."""
        wait_until(lambda: all(each.number >= number for each in self.followers), f"{number} at all clients")

    def judge(self) -> float:
        """After the repair: everything was started again. Returns the seconds that the slowest client took.

        The repair is over when a hub is active again, as that is what acknowledges an event.
        """
        for name in self.cluster.edges:
            self.cluster[name].wait_until_ready()
        number = self.publisher.until_more()
        took = within_promise(
            lambda: all(each.number >= number for each in self.followers), lambda: f"{number} at {self.followers}"
        )
        self.publisher.stop()
        self.judge_at_rest()
        return took

    def judge_at_rest(self) -> None:
        """When a hub is active and nobody publishes any more."""
        # Who comes now is told what is right; everybody else holds the same.
        there = [*self.cluster.edges, self.cluster.active]
        nodes = [node for name, node in self.cluster.nodes.items() if name in there and node.has_clients]
        self._fresh = [Follower([node], self.publisher) for node in nodes]
        for each in self._fresh:
            each.start()
        last = self.publisher.acknowledged[-1]
        within_promise(lambda: all(each.number >= last for each in self._fresh), lambda: f"{last} at {self._fresh}")
        everybody = [*self.followers, *self._fresh]
        within_promise(
            lambda: all(each.rows == self._fresh[0].rows for each in everybody),
            lambda: str([e.rows for e in everybody]),
        )
        for each in everybody:
            assert each.wrong == [], f"{each.wrong} at {each}"
        self._check_journal()

    def _check_journal(self) -> None:
        """What was acknowledged is there once; what was not may be there, or not; all in the order of publishing."""
        reader = JournalReader(self.cluster.data_dir / "journal")
        rows = [row for row in rows_of(reader.read()) if row[1].endswith(f"/{PRICE}")]
        found = [int(json.loads(value or "")["last"]) for _, _, _, value in rows]
        assert reader.damages == []
        assert found == sorted(set(found)), "in another order, or twice"
        assert set(self.publisher.acknowledged) <= set(found), "acknowledged, and lost"
        assert found[-1] <= self.publisher.tried
