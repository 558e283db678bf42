"""Push subscriptions whose items come from a remote adapter: they are kept while it is away and go on when it is back.

Nobody else waits meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.adapters import AdapterSet
from penstock.adapters.remote import RemoteDataAdapter
from penstock.push.records import Notification
from penstock.server import Server
from penstock.wire.ari.requests import SubscribeItem
from tests.adapters.remote.support import RemotePeer, ready
from tests.services.push.stage import PushClient, PushServer
from tests.support.waiting import wait_until


class RemotePushServer(PushServer):
    """Adapter set TEST has the data adapter HAND, in the process, and FAR, which is remote."""

    def make(self) -> Server:
        self.far = RemoteDataAdapter(port=0, repair_timeout_millis=200, retry_millis=100)
        adapters = {**self.adapters(), "FAR": self.far}
        return Server(self.config, [AdapterSet("TEST", self.metadata, adapters)], data_dir=self._data_dir)

    def connect(self) -> RemotePeer:
        return ready(self.far.ports[0])

    def lose(self, remote: RemotePeer) -> None:
        remote.close()
        wait_until(lambda: not self.far.connected, "the loss is not noticed")

    def sent(self, count: int) -> list[tuple[str, str]]:
        """All notifications so far, when there are so many: their subscriptions and payloads."""
        return [(each.subscription, alert(each)) for each in self.provider.wait(count)]


def alert(notification: Notification) -> str:
    return notification.payload.removeprefix('{"aps":{"alert":"').removesuffix('"}}')


def subscribed(remote: RemotePeer, count: int) -> dict[str, str]:
    """The items that a remote adapter is asked for, in whatever order, with their identifiers."""
    found = {}
    for _ in range(count):
        identifier, request = remote.expect(SubscribeItem)
        remote.send(f"{identifier}|SUB|V\r\n".encode())
        found[request.item] = identifier
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RemotePushServer]:
    with RemotePushServer(tmp_path) as server:
        yield server


def follow(client: PushClient, item: str, adapter: str = "FAR", **changed: str) -> str:
    return client.activate(LS_data_adapter=adapter, LS_group=item, **changed)


def test_subscriptions_are_kept_while_a_remote_adapter_is_away_and_go_on_when_it_is_back(
    server: RemotePushServer,
) -> None:
    first = server.connect()
    with server.client() as client:
        client.register()
        each = follow(client, "a")
        alarm = follow(client, "b", PN_trigger="Double.parseDouble($[1]) > 5")
        near = follow(client, "n", "HAND")
        items = subscribed(first, 2)
        first.update("a", items["a"], x="1", y="before")
        first.update("b", items["b"], x="1", y="before")
        assert server.sent(1) == [(each, "1 and before")]
        server.lose(first)

        # Nobody waits for it: neither other subscriptions of the same device, nor requests, nor those about its items.
        server.update("n", x="2", y="near")
        assert server.sent(2)[1:] == [(near, "2 and near")]
        late = follow(client, "c")
        client.done("reset_badge", "MPNZERO", PN_deviceId=client.device)

    with server.connect() as second:
        items = subscribed(second, 3)
        second.update("a", items["a"], x="3", y="after")
        second.update("b", items["b"], x="6", y="after")
        second.update("c", items["c"], x="4", y="after")
        assert sorted(server.sent(5)[2:]) == sorted(
            [(each, "3 and after"), (alarm, "6 and after"), (late, "4 and after")]
        )


def test_what_was_activated_before_a_restart_is_followed_when_the_adapter_comes(tmp_path: Path) -> None:
    with RemotePushServer(tmp_path) as server, server.connect() as remote, server.client() as client:
        client.register()
        each = follow(client, "a")
        near = follow(client, "n", "HAND")
        subscribed(remote, 1)
    with RemotePushServer(tmp_path) as server:
        # The server is there without it.
        server.update("n", x="1", y="near")
        assert server.sent(1) == [(near, "1 and near")]
        with server.connect() as remote:
            items = subscribed(remote, 1)
            remote.update("a", items["a"], x="2", y="far")
            assert server.sent(2)[1:] == [(each, "2 and far")]


def test_an_adapter_that_never_answers_keeps_nobody_waiting(server: RemotePushServer) -> None:
    with server.connect() as remote, server.client() as client:
        client.register()
        follow(client, "a")
        remote.expect(SubscribeItem)
        near = follow(client, "n", "HAND")
        server.update("n", x="1", y="near")
        assert server.sent(1) == [(near, "1 and near")]


def test_what_changed_while_an_adapter_was_away_is_an_update_and_what_did_not_is_none(server: RemotePushServer) -> None:
    first = server.connect()
    with server.client() as client:
        client.register()
        same = follow(client, "a")
        other = follow(client, "b")
        items = subscribed(first, 2)
        for item, identifier in items.items():
            first.update(item, identifier, x="1", y="before")
        server.sent(2)
        server.lose(first)
        with server.connect() as second:
            items = subscribed(second, 2)
            second.update("a", items["a"], snapshot=True, x="1", y="before")
            second.end_of_snapshot("a", items["a"])
            second.update("b", items["b"], snapshot=True, x="2", y="meanwhile")
            second.end_of_snapshot("b", items["b"])
            second.update("a", items["a"], x="3", y="after")
            assert sorted(server.sent(4)[2:]) == sorted([(other, "2 and meanwhile"), (same, "3 and after")])
