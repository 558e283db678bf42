"""Published clients whose connections are accepted by the workers of a server in turn: they notice nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.interop.published import QUICK, PublishedClient, each_way
from tests.support.cut_proxy import CutProxy
from tests.support.workers import Worker, Workers

pytestmark = pytest.mark.interop


class InTurn(CutProxy):
    """Forwards each connection to the next worker."""

    def __init__(self, workers: list[Worker]) -> None:
        self._workers = workers
        self._turns = count()
        super().__init__(workers[0].host, workers[0].port)

    @property
    def target(self) -> tuple[str, int]:
        worker = self._workers[next(self._turns) % len(self._workers)]
        return worker.host, worker.port


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    with Workers(("w1", "w2a", "w3"), {"session.min_keepalive_millis": 100}) as running:
        yield running.all


@each_way
def test_a_client_has_its_session_wherever_its_connections_go(
    name: str, transport: str, workers: list[Worker], open_client: Callable[[str], PublishedClient]
) -> None:
    def publish(numbers: range) -> None:
        for number in numbers:
            for worker in workers:
                worker.update(client.name, x=str(number))

    def arrived(last: int) -> None:
        client.wait_for("update", values={"x": str(last)})
        assert [int(update["values"]["x"]) for update in client.seen("update")] == list(range(last + 1))

    with InTurn(workers) as front:
        client = open_client(name)
        client.connect(front.url, "TEST", transport, options=QUICK)
        client.subscribe("counter", "RAW", [client.name], ["x"], "DEFAULT", snapshot=None)
        client.expect("subscribed", subscription="counter")
        publish(range(5))
        arrived(4)
        client.send("hello")
        client.expect("message", text="hello", outcome="processed")
        # Its next connections begin at other workers.
        for part in range(1, 4):
            front.cut()
            publish(range(5 * part, 5 * part + 5))
            # Between two polls there is no connection that could be missed.
            if transport != "HTTP-POLLING":
                client.expect("status", status="DISCONNECTED:TRYING-RECOVERY")
                client.expect("status", status=f"CONNECTED:{transport}")
            arrived(5 * part + 4)
        connected = client.seen("status", status=f"CONNECTED:{transport}")
        assert len({event["session"] for event in connected}) == 1
        assert not client.seen("server error")
        assert sum(worker.neighbours.given for worker in workers) > 0
        client.close()
