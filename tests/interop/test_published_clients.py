from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from tests.interop.published import CLIENTS, PublishedClient, each_client, each_way
from tests.support.background import BackgroundServer
from tests.support.process import ServerProcess

OpenClient = Callable[[str], PublishedClient]

STOCK = ["stock_name", "last_price", "time", "bid", "bid_quantity"]

pytestmark = pytest.mark.interop


@pytest.fixture
def client(name: str, transport: str, demo: ServerProcess, open_client: OpenClient) -> PublishedClient:
    """Connected to the demo server with the client's default options."""
    opened = open_client(name)
    opened.connect(demo.url, "WELCOME", transport, user="reader")
    return opened


@each_way
def test_a_client_connects_and_is_told_about_the_server(client: PublishedClient, transport: str) -> None:
    session = client.seen("status", status=f"CONNECTED:{transport}")[0]["session"]
    assert session.startswith("S")
    client.wait_for("property", name="sessionId", value=session)
    client.wait_for("property", name="serverSocketName", value="Penstock")
    client.wait_for("property", name="clientIp", value="127.0.0.1")
    client.wait_for("property", name="realMaxBandwidth", value="unlimited")
    client.disconnect()
    assert not client.seen("server error")


@each_client
def test_a_client_left_to_choose_settles_on_a_websocket(
    name: str, demo: ServerProcess, open_client: OpenClient
) -> None:
    client = open_client(name)
    client.connect(demo.url, "WELCOME", None)
    client.expect("status", status="CONNECTED:WS-STREAMING")


@each_way
def test_the_address_may_have_a_path(name: str, transport: str, demo: ServerProcess, open_client: OpenClient) -> None:
    client = open_client(name)
    client.connect(demo.url + "/behind/a%20proxy", "WELCOME", transport)
    client.subscribe("stocks", "MERGE", ["item2"], STOCK, "STOCKS")
    client.expect("update", subscription="stocks", snapshot=True)


@each_way
def test_a_client_is_served_over_tls(name: str, transport: str, demo: ServerProcess, open_client: OpenClient) -> None:
    client = open_client(name)
    client.connect(f"https://{demo.host}:{demo.tls_port}", "WELCOME", transport)
    client.subscribe("stocks", "MERGE", ["item2"], STOCK, "STOCKS")
    client.expect("update", subscription="stocks", snapshot=True)
    client.expect("update", subscription="stocks", snapshot=False)


@each_way
def test_a_subscription_starts_with_snapshots_and_goes_on_with_updates(client: PublishedClient) -> None:
    client.subscribe("stocks", "MERGE", ["item2", "item25"], STOCK, "STOCKS")
    client.expect("subscribed", subscription="stocks")
    first = {update["item"]: update for update in islice(client.updates("stocks"), 2)}
    assert [update["snapshot"] for update in first.values()] == [True, True]
    assert first["item2"]["values"]["stock_name"] == "Ations Europe"
    assert first["item25"]["values"]["stock_name"] == "Ripley Software"
    assert all(update["values"].keys() == set(STOCK) for update in first.values())
    assert all(None not in update["values"].values() for update in first.values())
    latest = {item: update["values"] for item, update in first.items()}
    for update in islice(client.updates("stocks"), 4):
        assert not update["snapshot"]
        assert update["values"] == latest[update["item"]] | update["changed"]
        assert "stock_name" not in update["changed"]
        latest[update["item"]] = update["values"]


@each_way
def test_a_subscription_that_is_given_up_ends_and_others_go_on(client: PublishedClient) -> None:
    client.subscribe("gone", "MERGE", ["item2"], STOCK, "STOCKS")
    client.subscribe("stays", "MERGE", ["item25"], STOCK, "STOCKS")
    client.expect("update", subscription="gone")
    client.unsubscribe("gone")
    client.expect("unsubscribed", subscription="gone")
    seen = len(client.seen("update", subscription="gone"))
    client.expect("update", subscription="stays", snapshot=False)
    client.subscribe("again", "MERGE", ["item2"], STOCK, "STOCKS")
    client.expect("update", subscription="again", snapshot=True)
    assert len(client.seen("update", subscription="gone")) == seen


@each_way
def test_a_subscription_to_an_unknown_item_is_refused_and_says_why(client: PublishedClient) -> None:
    client.subscribe("wrong", "MERGE", ["item31"], STOCK, "STOCKS")
    refusal = client.expect("subscription error", subscription="wrong")
    assert (refusal["code"], refusal["message"]) == (21, "LS_group: STOCKS has no item item31")
    client.subscribe("right", "MERGE", ["item2"], STOCK, "STOCKS")
    client.expect("update", subscription="right", snapshot=True)


@each_way
def test_messages_in_sequence_are_processed_in_order(client: PublishedClient, name: str, transport: str) -> None:
    client.subscribe("chat", "DISTINCT", ["chat_room"], ["message", "nick", "IP"], "CHAT", snapshot="no")
    client.expect("subscribed", subscription="chat")
    reserved = "100%, + & = \r\n" if CLIENTS[name].encodes_messages or not transport.startswith("WS") else "100"
    texts = [f"{name} {transport} {number}: {reserved} a|b ü€😀 #$^" for number in range(6)]
    for text in texts:
        client.send("CHAT|" + text, sequence="talk")
    for text in texts:
        assert client.expect("message")["text"] == "CHAT|" + text
    assert {event["outcome"] for event in client.seen("message")} == {"processed"}
    # Outcomes and updates reach the program on threads of their own.
    said = [{"message": text, "nick": "reader", "IP": "127.0.0.1"} for text in texts]
    client.wait_for("update", subscription="chat", values=said[-1])
    assert [update["values"] for update in client.seen("update", subscription="chat")] == said


@each_way
def test_who_joins_the_chat_gets_what_was_said_last_and_then_what_follows(
    client: PublishedClient, name: str, transport: str, demo: ServerProcess, open_client: OpenClient
) -> None:
    client.subscribe("chat", "DISTINCT", ["chat_room"], ["message"], "CHAT", snapshot="no")
    client.expect("subscribed", subscription="chat")
    texts = [f"{name} {transport} {number}" for number in range(5)]
    for text in texts:
        client.send("CHAT|" + text, sequence="talk")
        client.expect("update", subscription="chat", values={"message": text})
    newcomer = open_client(name)
    newcomer.connect(demo.url, "WELCOME", transport)
    newcomer.subscribe("chat", "DISTINCT", ["chat_room"], ["message"], "CHAT", snapshot="3")
    newcomer.expect("end of snapshot", item="chat_room")
    assert [update["values"]["message"] for update in newcomer.seen("update", snapshot=True)] == texts[-3:]
    client.send("CHAT|" + texts[0], sequence="talk")
    newcomer.expect("update", snapshot=False, values={"message": texts[0]})
    assert len(newcomer.seen("update")) == 4


@each_way
def test_messages_without_sequence_have_each_their_outcome(client: PublishedClient) -> None:
    texts = {f"CHAT|{number}" for number in range(4)} | {"not for the chat"}
    for text in texts:
        client.send(text)
    outcomes: dict[str, str] = {}
    while len(outcomes) < len(texts):
        event = client.expect("message")
        outcomes[event["text"]] = event["outcome"]
    assert outcomes == {text: "processed" if text.startswith("CHAT|") else "denied" for text in texts}


@each_way
def test_a_bandwidth_request_is_granted_and_lifted(client: PublishedClient) -> None:
    client.subscribe("stocks", "MERGE", ["item25"], STOCK, "STOCKS")
    client.expect("update", subscription="stocks")
    client.limit_bandwidth("40")
    granted = client.expect_where(
        "property", lambda event: event["name"] == "realMaxBandwidth" and event["value"] != "unlimited", "40"
    )
    assert float(granted["value"]) == 40
    client.expect("update", subscription="stocks", snapshot=False)
    client.limit_bandwidth("unlimited")
    client.expect("property", name="realMaxBandwidth", value="unlimited")
    client.expect("update", subscription="stocks", snapshot=False)


@each_way
def test_a_frequency_request_is_granted_and_lifted(client: PublishedClient) -> None:
    client.subscribe("stocks", "MERGE", ["item25"], STOCK, "STOCKS")
    client.expect("max frequency", subscription="stocks", value="unlimited")
    client.limit_frequency("stocks", "2.5")
    granted = client.expect_where("max frequency", lambda event: event["value"] != "unlimited", "2.5")
    assert float(granted["value"]) == 2.5
    client.limit_frequency("stocks", "unlimited")
    client.expect("max frequency", subscription="stocks", value="unlimited")


@each_way
def test_what_the_adapter_answers_to_a_message_reaches_clients_that_know_of_it(
    name: str, transport: str, server: BackgroundServer, open_client: OpenClient
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", transport)
    client.send("a, b", sequence="questions")
    event = client.expect("message", text="a, b")
    assert event["outcome"] == "processed"
    # Before TLCP 2.5 there is no answer.
    assert event["response"] == ("got a, b" if CLIENTS[name].protocol >= (2, 5) else None)
    client.send("refuse with code", sequence="questions")
    event = client.expect("message", text="refuse with code")
    assert (event["outcome"], event["code"], event["message"]) == ("denied", -3, "refused, on purpose")


@each_client
def test_the_errors_that_published_suites_compare_have_their_texts(
    name: str, demo: ServerProcess, open_client: OpenClient
) -> None:
    stranger = open_client(name)
    stranger.connect(demo.url, "XXX", None)
    error = stranger.expect("server error")
    assert (error["code"], error["message"]) == (2, "Requested Adapter Set not available")
    client = open_client(name)
    client.connect(demo.url, "WELCOME", None)
    client.subscribe("mode", "DISTINCT", ["item2"], STOCK, "STOCKS")
    refusal = client.expect("subscription error", subscription="mode")
    assert (refusal["code"], refusal["message"]) == (24, "Invalid mode for these items")
    client.subscribe("adapter", "MERGE", ["item2"], STOCK, "NOWHERE")
    refusal = client.expect("subscription error", subscription="adapter")
    assert (refusal["code"], refusal["message"]) == (17, "Data Adapter not found")


@each_client
def test_a_group_without_items_is_for_the_client_to_judge(
    name: str, server: BackgroundServer, open_client: OpenClient
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", None)
    client.subscribe("none", "MERGE", ["empty"], ["x"], "HAND")
    if name == "python-1.0.3":
        # It takes any number but the one it has named for a broken protocol.
        assert client.expect("server error")["code"] == 61
        return
    if CLIENTS[name].protocol >= (2, 5):
        refusal = client.expect("subscription error", subscription="none")
        assert (refusal["code"], refusal["message"]) == (61, "Expected 1 items but got 0")
    else:
        client.expect("subscribed", subscription="none")
    client.subscribe("some", "MERGE", ["a"], ["x"], "HAND")
    client.expect("subscribed", subscription="some")


@each_way
def test_a_user_who_is_turned_away_is_told_why(
    name: str, transport: str, server: BackgroundServer, open_client: OpenClient
) -> None:
    client = open_client(name)
    client.connect(server.url, "TEST", None, user="custom", options={"ForcedTransport": transport})
    client.expect("status", status="DISCONNECTED")
    error = client.expect("server error")
    assert (error["code"], error["message"]) == (-7, "Come back, tomorrow")
