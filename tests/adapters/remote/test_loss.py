"""A data adapter that is lost and comes back: clients keep their session and what they have, and are led to the new
state without a second snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.adapters.remote import RemoteDataAdapter
from penstock.testing import ari_peer
from penstock.wire.ari.replies import ExceptionKind, Failed
from penstock.wire.ari.requests import SubscribeItem
from penstock.wire.ari.version import NEWEST
from tests.adapters.remote.support import Client, RemotePeer, RemoteServer, ready
from tests.support.waiting import wait_until


class Scene:
    """A server, a client, and adapters that come and go."""

    def __init__(self, server: RemoteServer, adapter: RemoteDataAdapter, client: Client) -> None:
        self.server = server
        self.adapter = adapter
        self.client = client

    def connect(self) -> RemotePeer:
        return ready(self.adapter.ports[0])

    def lose(self, remote: RemotePeer) -> None:
        remote.close()
        wait_until(lambda: not self.adapter.connected, "the loss is not noticed")


@pytest.fixture
def scene() -> Iterator[Scene]:
    adapter = RemoteDataAdapter(port=0, repair_timeout_millis=200, retry_millis=100)
    with RemoteServer(adapter) as server, server.client() as client:
        yield Scene(server, adapter, client)


def test_what_is_subscribed_while_nobody_is_there_waits_for_the_adapter(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "x", "DISTINCT")
    scene.client.read("SUBOK")
    with scene.connect() as remote:
        identifier = remote.subscribe("a")
        remote.update("a", identifier, True, x="1")
        remote.end_of_snapshot("a", identifier)
        assert scene.client.values() == ["1"]
        assert scene.client.read("EOS") == "EOS,1,1"


def test_what_is_given_up_while_nobody_is_there_is_not_asked_for(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "x")
    scene.client.subscribe(2, "b", "x")
    remote = scene.connect()
    remote.subscribe("a")
    remote.subscribe("b")
    scene.lose(remote)
    scene.client.unsubscribe(1)
    scene.client.read("UNSUB")
    with scene.connect() as second:
        second.subscribe("b")


def test_merge_clients_get_the_difference_to_the_new_snapshot(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "x y z")
    remote = scene.connect()
    identifier = remote.subscribe("a")
    remote.update("a", identifier, True, x="1", y="2", z="3")
    scene.client.values()
    scene.lose(remote)
    with scene.connect() as second:
        again = second.subscribe("a")
        assert again != identifier
        second.update("a", identifier, x="of the former connection")
        second.update("a", again, True, x="1", y="5")
        assert scene.client.values() == ["", "5", "#"]
        second.end_of_snapshot("a", again)
        second.update("a", again, x="6")
        assert scene.client.values() == ["6", "", ""]


def test_command_clients_get_the_rows_that_differ_when_the_snapshot_ends(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "key command x", "COMMAND")
    remote = scene.connect()
    identifier = remote.subscribe("a")
    for key in ("one", "two"):
        remote.update("a", identifier, True, key=key, command="ADD", x="1")
    remote.end_of_snapshot("a", identifier)
    scene.client.read("EOS")
    scene.lose(remote)
    with scene.connect() as second:
        again = second.subscribe("a")
        second.update("a", again, True, key="two", command="ADD", x="1")
        second.update("a", again, True, key="three", command="ADD", x="1")
        # A real-time update ends the snapshot as well as its end does.
        second.update("a", again, key="two", command="UPDATE", x="9")
        assert [scene.client.read("U") for _ in range(3)] == [
            "U,1,1,one|DELETE|#",
            "U,1,1,three|ADD|1",
            "U,1,1,two|UPDATE|9",
        ]


@pytest.mark.parametrize("had_snapshot", [True, False])
def test_an_item_that_is_empty_now_is_cleared_if_its_adapter_sends_snapshots(scene: Scene, had_snapshot: bool) -> None:
    scene.client.subscribe(1, "a", "key command x", "COMMAND")
    remote = scene.connect()
    identifier = remote.subscribe("a")
    remote.update("a", identifier, had_snapshot, key="one", command="ADD", x="1")
    remote.end_of_snapshot("a", identifier)
    # What is not of the snapshot ends it.
    for tag in ("U", "EOS") if had_snapshot else ("EOS", "U"):
        scene.client.read(tag)
    scene.lose(remote)
    with scene.connect() as second:
        again = second.subscribe("a")
        second.end_of_snapshot("a", again)
        second.update("a", again, key="two", command="ADD", x="1")
        line = scene.client.read("CS", "U")
        assert line == ("CS,1,1" if had_snapshot else "U,1,1,two||")


def test_distinct_clients_get_the_events_that_they_have_missed(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "x", "DISTINCT")
    remote = scene.connect()
    identifier = remote.subscribe("a")
    remote.update("a", identifier, True, x="1")
    remote.end_of_snapshot("a", identifier)
    remote.update("a", identifier, x="2")
    scene.client.values()
    scene.client.values()
    scene.lose(remote)
    with scene.connect() as second:
        again = second.subscribe("a")
        for value in "123":
            second.update("a", again, True, x=value)
        second.end_of_snapshot("a", again)
        assert scene.client.read("U", "EOS", "CS") == "U,1,1,3"


def test_a_clearing_during_the_repair_voids_what_came_before_it(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "key command", "COMMAND")
    remote = scene.connect()
    identifier = remote.subscribe("a")
    remote.update("a", identifier, True, key="one", command="ADD")
    remote.end_of_snapshot("a", identifier)
    scene.client.read("EOS")
    scene.lose(remote)
    with scene.connect() as second:
        again = second.subscribe("a")
        second.update("a", again, True, key="two", command="ADD")
        second.send(ari_peer.clear_snapshot(1, "a", again, NEWEST))
        second.end_of_snapshot("a", again)
        assert scene.client.read("U", "CS") == "CS,1,1"


def test_a_snapshot_without_an_end_is_taken_as_it_is_after_a_while(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "key command x", "COMMAND")
    remote = scene.connect()
    identifier = remote.subscribe("a")
    remote.update("a", identifier, True, key="one", command="ADD", x="1")
    scene.client.values()
    scene.lose(remote)
    with scene.connect() as second:
        again = second.subscribe("a")
        second.update("a", again, True, key="one", command="ADD", x="2")
        assert scene.client.values() == ["", "UPDATE", "2"]


def test_an_item_that_cannot_be_subscribed_anew_keeps_its_state_and_is_repaired_when_it_can(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "x")
    remote = scene.connect()
    identifier = remote.subscribe("a")
    remote.update("a", identifier, True, x="1")
    scene.client.values()
    scene.lose(remote)
    with scene.connect() as second:
        failed, _ = second.expect(SubscribeItem)
        second.reply(Failed(failed, "SUB", ExceptionKind.FAILURE, "not yet"))
        again = second.subscribe("a")
        second.update("a", again, True, x="2")
        assert scene.client.values() == ["2"]


def test_a_client_that_comes_during_the_repair_gets_the_same_state(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "key command x", "COMMAND")
    remote = scene.connect()
    identifier = remote.subscribe("a")
    remote.update("a", identifier, True, key="one", command="ADD", x="1")
    remote.end_of_snapshot("a", identifier)
    scene.client.read("EOS")
    scene.lose(remote)
    with scene.connect() as second, scene.server.client() as late:
        again = second.subscribe("a")
        second.update("a", again, True, key="two", command="ADD", x="2")
        late.subscribe(1, "a", "key command x", "COMMAND")
        assert late.values() == ["one", "ADD", "1"]
        second.end_of_snapshot("a", again)
        assert late.values() == ["", "DELETE", "#"]
        assert late.values() == ["two", "ADD", "2"]


def test_the_session_outlives_many_losses(scene: Scene) -> None:
    scene.client.subscribe(1, "a", "x")
    for number in range(10):
        remote = scene.connect()
        identifier = remote.subscribe("a")
        remote.update("a", identifier, True, x=str(number))
        assert scene.client.values() == [str(number)]
        scene.lose(remote)
