from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.published import QUICK, PublishedClient, each_client, each_way, ways
from tests.support.background import BackgroundServer
from tests.support.cut_proxy import CutProxy

OpenClient = Callable[[str], PublishedClient]

FIELDS = ["number", "group", "absent"]

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def counters() -> Iterator[BackgroundServer]:
    """One server for all tests of this module: each has an item of its own."""
    with BackgroundServer({"session.min_keepalive_millis": 100}) as running:
        yield running


@pytest.fixture
def proxy(counters: BackgroundServer) -> Iterator[CutProxy]:
    with CutProxy(counters.host, counters.port) as running:
        yield running


@pytest.fixture
def client(name: str, transport: str, proxy: CutProxy, open_client: OpenClient) -> PublishedClient:
    """Connected through the proxy, quick to notice, and subscribed to a counter that the test moves."""
    opened = open_client(name)
    opened.connect(proxy.url, "TEST", transport, options=QUICK)
    opened.subscribe("counter", "RAW", [opened.name], FIELDS, "DEFAULT", snapshot=None)
    opened.expect("subscribed", subscription="counter")
    return opened


@pytest.fixture
def publish(client: PublishedClient, counters: BackgroundServer) -> Callable[[range], None]:
    def publish_numbers(numbers: range) -> None:
        for number in numbers:
            counters.update(client.name, False, **values(number))

    return publish_numbers


Publish = Callable[[range], None]


def values(number: int) -> dict[str, str | None]:
    """The second field seldom changes and the third never has a value: differences must survive a recovery as well."""
    return {"number": str(number), "group": f"{number // 7}|é", "absent": None}


def is_bound(sent: bytes) -> bool:
    """Whether the session's stream or poll has begun, by all that the server has sent.

    Before that, it depends on the client what becomes of a request that gets no answer. What is below those for Java
    and browsers repeats it unchanged when a connection that was used before is reset: the server takes what the first
    poll had for delivered, and the client never hears of it. Version 8 for Node.js gives its session up.
    """
    return sent.rfind(b"CONOK,") > sent.rfind(b"LOOP,")


def take_away(proxy: CutProxy, transport: str) -> None:
    """From now on the server cannot be reached.

    Over HTTP not just when a poll has begun: version 8 for Node.js takes the text of its error for data, if there was
    less of those, and ends its session.
    """
    proxy.refuse()
    if transport == "HTTP-POLLING":
        proxy.cut(once=lambda sent: not is_bound(sent))
    else:
        proxy.cut()


def expect_exactly(client: PublishedClient, numbers: range) -> None:
    """All updates up to the last of these have come: none missing, none twice, none out of order."""
    client.wait_for("update", values=values(numbers[-1]))
    assert [update["values"] for update in client.seen("update")] == [values(number) for number in numbers]
    assert not client.seen("lost updates")
    assert not client.seen("server error")


def sessions(client: PublishedClient) -> set[str]:
    return {event["session"] for event in client.seen("status") if event["status"].startswith("CONNECTED:")}


@each_way
def test_updates_lost_on_a_broken_connection_are_sent_again_and_no_others(
    client: PublishedClient, transport: str, publish: Publish, proxy: CutProxy
) -> None:
    publish(range(1, 11))
    client.expect("update", values=values(10))
    proxy.swallow(once=is_bound)
    publish(range(11, 12))
    # On its way, as far as the server knows; what follows a polling client would only get with its next request.
    proxy.wait_until_swallowed(b"11|")
    publish(range(12, 21))
    assert proxy.cut() > 0
    publish(range(21, 31))
    client.expect("status", status="DISCONNECTED:TRYING-RECOVERY")
    client.expect("status", status=f"CONNECTED:{transport}")
    publish(range(31, 41))
    expect_exactly(client, range(1, 41))
    assert len(sessions(client)) == 1


@each_way
def test_a_client_recovers_when_the_server_cannot_be_reached_for_a_while(
    client: PublishedClient, transport: str, publish: Publish, proxy: CutProxy
) -> None:
    publish(range(1, 6))
    client.expect("update", values=values(5))
    before = proxy.accepted
    take_away(proxy, transport)
    publish(range(6, 11))
    client.expect("status", status="DISCONNECTED:TRYING-RECOVERY")
    proxy.wait_until_accepted(before + 2)
    proxy.resume()
    client.expect("status", status=f"CONNECTED:{transport}")
    publish(range(11, 16))
    expect_exactly(client, range(1, 16))
    assert len(sessions(client)) == 1


@each_way
def test_a_client_leaves_a_network_that_has_gone_silent_and_recovers(
    client: PublishedClient, transport: str, publish: Publish, proxy: CutProxy
) -> None:
    publish(range(1, 6))
    client.expect("update", values=values(5))
    proxy.stall(once=is_bound)
    publish(range(6, 11))
    client.expect("status", status="DISCONNECTED:TRYING-RECOVERY")
    proxy.resume()
    client.expect("status", status=f"CONNECTED:{transport}")
    publish(range(11, 16))
    expect_exactly(client, range(1, 16))
    assert len(sessions(client)) == 1


def lose_an_outcome(client: PublishedClient, transport: str, proxy: CutProxy) -> list[str]:
    """Send three messages; nothing that the server says about the second one arrives, and the connection breaks."""
    texts = [f"{client.name} {number}" for number in range(3)]
    client.send(texts[0], sequence="talk")
    client.expect("message", text=texts[0], outcome="processed")
    proxy.swallow(once=is_bound)
    client.send(texts[1], sequence="talk")
    # Over HTTP the client also misses that its request was accepted, and has to send it again.
    proxy.wait_until_swallowed(b"MSGDONE" if transport.startswith("WS") else b"REQOK")
    proxy.cut()
    client.send(texts[2], sequence="talk")
    return texts


def processed(client: PublishedClient, counters: BackgroundServer) -> list[str]:
    return [text for text in counters.metadata.messages if text.startswith(client.name + " ")]


@ways("HTTP-STREAMING-web-8.0.9", "HTTP-POLLING-web-8.0.9")
def test_a_message_whose_outcome_was_lost_is_reported_and_not_processed_twice(
    client: PublishedClient, transport: str, counters: BackgroundServer, proxy: CutProxy
) -> None:
    texts = lose_an_outcome(client, transport, proxy)
    client.expect("status", status="DISCONNECTED:TRYING-RECOVERY")
    client.expect("message", text=texts[1], outcome="processed")
    client.expect("message", text=texts[2], outcome="processed")
    assert processed(client, counters) == texts


# Chromium repeats the message by itself. The answer to the second request, that the message is there already, comes
# while version 8 of the web client recovers its session, and it reports no outcome.
@pytest.mark.interop_long
@pytest.mark.parametrize("name", ["web-8.0.9"])
@pytest.mark.parametrize("transport", ["HTTP-STREAMING", "HTTP-POLLING"])
def test_a_message_that_the_browser_repeats_is_not_processed_twice(
    client: PublishedClient, transport: str, counters: BackgroundServer, proxy: CutProxy
) -> None:
    texts = lose_an_outcome(client, transport, proxy)
    client.expect("message", text=texts[2], outcome="processed")
    assert processed(client, counters) == texts


@each_way
def test_a_client_whose_session_is_gone_opens_another_and_subscribes_again(
    client: PublishedClient, transport: str, counters: BackgroundServer, publish: Publish, proxy: CutProxy
) -> None:
    def forget_session() -> None:
        """As if it had waited too long for its client."""
        (session_id,) = sessions(client)
        session = counters.server.kernel.find_session(session_id)
        if session.channel is not None:
            # The server has not heard of the cut yet.
            session.channel.abort()
            session.drop()
        session.close(None, "")

    publish(range(1, 2))
    client.expect("update", values=values(1))
    take_away(proxy, transport)
    counters.call(forget_session)
    proxy.resume()
    client.expect("status", status=f"CONNECTED:{transport}")
    if len(client.seen("subscribed")) < 2:
        # Some report it before they are connected.
        client.expect("subscribed", subscription="counter")
    publish(range(2, 3))
    client.expect("update", values=values(2))
    assert len(sessions(client)) == 2


@each_client
@pytest.mark.parametrize("transport", ["WS-STREAMING", "HTTP-STREAMING"])
def test_nothing_is_lost_or_doubled_when_a_stream_is_renewed(
    name: str, transport: str, open_client: OpenClient
) -> None:
    limits = {"session.max_streaming_millis": 50, "session.session_recovery_millis": 0}
    with BackgroundServer(limits) as server, CutProxy(server.host, server.port) as proxy:
        client = open_client(name)
        client.connect(proxy.url, "TEST", transport)
        client.subscribe("counter", "RAW", ["counter"], FIELDS, "DEFAULT", snapshot=None)
        client.expect("subscribed", subscription="counter")
        last = 0
        while proxy.sent.count(b"LOOP,") < 6:
            last += 1
            server.update("counter", False, **values(last))
            if last % 10 == 0:
                client.expect("update", values=values(last))
        expect_exactly(client, range(1, last + 1))
        assert len(sessions(client)) == 1
