"""A remote data adapter: what is asked of it, and what becomes of what it sends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.adapters.remote import RemoteDataAdapter
from penstock.testing import ari_peer
from penstock.wire.ari.replies import Done, ExceptionKind, Failed
from penstock.wire.ari.requests import SubscribeItem, UnsubscribeItem
from penstock.wire.ari.version import NEWEST, SUPPORTED, Version
from tests.adapters.remote.support import RemotePeer, RemoteServer, ready
from tests.support.waiting import wait_until


@pytest.fixture
def server() -> Iterator[RemoteServer]:
    adapter = RemoteDataAdapter(
        port=0, timeout_millis=300, retry_millis=200, status_item="status", remote_parameters={"source": "a b"}
    )
    with RemoteServer(adapter) as running:
        yield running


def feed(server: RemoteServer) -> RemoteDataAdapter:
    assert isinstance(server.data, RemoteDataAdapter)
    return server.data


@pytest.fixture
def remote(server: RemoteServer) -> Iterator[RemotePeer]:
    with ready(feed(server).ports[0]) as connected:
        yield connected


def test_it_is_initialised_with_its_names_the_hint_and_its_own_parameters(server: RemoteServer) -> None:
    with RemotePeer(feed(server).ports[0]) as remote:
        remote.introduce()
        assert remote.initialise() == {
            "keepalive_hint.millis": "5000",
            "adapters_conf.id": "REMOTE",
            "source": "a b",
            "data_provider.name": "FEED",
        }


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_snapshot_and_updates_reach_the_client_in_every_version(server: RemoteServer, version: Version) -> None:
    with ready(feed(server).ports[0], version) as remote, server.client() as client:
        client.subscribe(1, "übung", "a b", "DISTINCT")
        identifier = remote.subscribe("übung")
        remote.update("übung", identifier, True, a="x + y", b=None)
        remote.end_of_snapshot("übung", identifier)
        remote.update("übung", identifier, False, a="100 %", b="")
        assert client.values() == ["x + y", "#"]
        assert client.read("EOS") == "EOS,1,1"
        assert client.values() == ["100 %25", "$"]


def test_updates_may_come_before_the_answer_to_the_subscription(server: RemoteServer, remote: RemotePeer) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        identifier, _ = remote.expect(SubscribeItem)
        remote.update("a", identifier, True, x="early")
        assert client.values() == ["early"]
        remote.reply(Done(identifier, "SUB"))
        remote.update("a", identifier, x="later")
        assert client.values() == ["later"]


def test_an_item_is_never_asked_for_twice_at_a_time(server: RemoteServer, remote: RemotePeer) -> None:
    """The client leaves and comes back while the first request is not answered yet."""
    with server.client() as client:
        client.subscribe(1, "a", "x")
        first, _ = remote.expect(SubscribeItem)
        client.unsubscribe(1)
        client.read("UNSUB")
        client.subscribe(2, "a", "x")
        client.read("SUBOK")
        remote.update("a", first, True, x="of the first subscription")
        remote.reply(Done(first, "SUB"))
        remote.unsubscribe("a")
        second = remote.subscribe("a")
        assert second != first
        remote.update("a", first, x="late")
        remote.update("a", second, True, x="new")
        assert client.values() == ["new"]


def test_what_nobody_wants_any_more_is_unsubscribed_once_it_is_subscribed(
    server: RemoteServer, remote: RemotePeer
) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        identifier, _ = remote.expect(SubscribeItem)
        client.unsubscribe(1)
        client.read("UNSUB")
        remote.reply(Done(identifier, "SUB"))
        remote.unsubscribe("a")
        client.subscribe(2, "b", "x")
        remote.subscribe("b")


def test_an_item_that_could_not_be_subscribed_is_not_unsubscribed(server: RemoteServer, remote: RemotePeer) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        identifier, _ = remote.expect(SubscribeItem)
        remote.reply(Failed(identifier, "SUB", ExceptionKind.SUBSCRIPTION, "no such item"))
        client.read("SUBOK")
        client.unsubscribe(1)
        client.read("UNSUB")
        client.subscribe(2, "b", "x")
        remote.subscribe("b")


def test_an_item_is_tried_again_unless_the_adapter_has_refused_it(server: RemoteServer, remote: RemotePeer) -> None:
    with server.client() as client:
        client.subscribe(1, "refused", "x")
        client.subscribe(2, "failing", "x")
        for kind in (ExceptionKind.SUBSCRIPTION, ExceptionKind.FAILURE):
            identifier, _ = remote.expect(SubscribeItem)
            remote.reply(Failed(identifier, "SUB", kind, "no"))
        identifier = remote.subscribe("failing")
        remote.update("failing", identifier, True, x="at last")
        assert client.values() == ["at last"]


def test_a_subscription_answered_too_late_is_undone_and_done_again(server: RemoteServer, remote: RemotePeer) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        first, _ = remote.expect(SubscribeItem)
        wait_until(lambda: _state(server, "a") == "FAILED", "the time-out never came")
        remote.reply(Done(first, "SUB"))
        remote.unsubscribe("a")
        second = remote.subscribe("a")
        remote.update("a", first, x="late")
        remote.update("a", second, True, x="now")
        assert client.values() == ["now"]


def _state(server: RemoteServer, item: str) -> str:
    return server.call(lambda: feed(server)._items._entries[item].state.name)


def test_an_unsubscription_that_is_not_answered_holds_nothing_up_for_ever(
    server: RemoteServer, remote: RemotePeer
) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        remote.subscribe("a")
        client.read("SUBOK")
        client.unsubscribe(1)
        client.subscribe(2, "a", "x")
        remote.expect(UnsubscribeItem)
        identifier = remote.subscribe("a")
        remote.update("a", identifier, True, x="again")
        assert client.values() == ["again"]


def test_repeated_and_unknown_answers_are_dropped(server: RemoteServer, remote: RemotePeer) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        identifier = remote.subscribe("a")
        remote.reply(Done(identifier, "SUB"))
        remote.reply(Done("nobody", "SUB"))
        remote.reply(Failed(identifier, "SUB", ExceptionKind.FAILURE, "changed its mind"))
        remote.update("a", identifier, True, x="still here")
        assert client.values() == ["still here"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello\r\n",
        b"\r\n",
        b"1|UD3|S|a\r\n",
        b"1|UD3|S|a|S|%zz|B|0\r\n",
        b"1|XXX|V\r\n",
        b"1|GIS|S|a\r\n",
        b"x" * 100_000 + b"\n",
        b"1|UD3|S|a|S|nobody|B|0|S|x|S|y\r\n",
        b"1|EOS|S|a|S|nobody\r\n",
    ],
)
def test_a_line_that_makes_no_sense_harms_nothing_else(
    server: RemoteServer, remote: RemotePeer, garbage: bytes
) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        identifier = remote.subscribe("a")
        line = ari_peer.update(1, "a", identifier, False, {"x": "1"}, NEWEST)
        # The next line in halves.
        remote.send(garbage + line[:20])
        remote.send(line[20:])
        assert client.values() == ["1"]


def test_a_garbled_answer_fails_that_subscription_only(server: RemoteServer, remote: RemotePeer) -> None:
    with server.client() as client:
        client.subscribe(1, "a b", "x")
        first, _ = remote.expect(SubscribeItem)
        second, _ = remote.expect(SubscribeItem)
        remote.send(f"{first}|SUB|S|what\r\n".encode())
        remote.reply(Done(second, "SUB"))
        remote.update("b", second, True, x="fine")
        assert client.read("U") == "U,1,2,fine"
        assert remote.subscribe("a") != first


def test_an_answer_to_another_kind_of_request_fails_the_one_that_was_sent(
    server: RemoteServer, remote: RemotePeer
) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x")
        identifier, _ = remote.expect(SubscribeItem)
        remote.reply(Done(identifier, "USB"))
        assert remote.subscribe("a") != identifier


def test_clearing_and_difference_formats_are_passed_on(server: RemoteServer, remote: RemotePeer) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "x", "DISTINCT")
        identifier = remote.subscribe("a")
        remote.send(ari_peer.declare_differences(1, "a", identifier, {"x": "J", "y": None}, NEWEST))
        remote.update("a", identifier, True, x='{"one":1,"long":"%s"}' % ("z" * 80))
        remote.update("a", identifier, x='{"one":2,"long":"%s"}' % ("z" * 80))
        client.values()
        assert client.values() == ['^P[{"op":"replace","path":"/one","value":2}]']
        remote.send(ari_peer.clear_snapshot(1, "a", identifier, NEWEST))
        assert client.read("CS") == "CS,1,1"


def test_an_event_that_makes_no_sense_in_its_mode_is_dropped(server: RemoteServer, remote: RemotePeer) -> None:
    with server.client() as client:
        client.subscribe(1, "a", "key command x", "COMMAND")
        identifier = remote.subscribe("a")
        remote.update("a", identifier, command="ADD", x="without a key")
        remote.update("a", identifier, key="k", command="ADD", x="1")
        assert client.values() == ["k", "ADD", "1"]


def test_the_status_item_tells_whether_the_adapter_is_there(server: RemoteServer) -> None:
    with server.client() as client:
        client.subscribe(1, "status", "status")
        assert client.values() == ["DISCONNECTED"]
        with ready(feed(server).ports[0]) as remote:
            assert client.values() == ["CONNECTED"]
            client.subscribe(2, "a", "x")
            # Of the status item the adapter has not heard.
            remote.subscribe("a")
        assert client.values() == ["DISCONNECTED"]
        client.unsubscribe(1)
        client.read("UNSUB")
