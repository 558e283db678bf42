from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.interop.published import Event, PublishedClient, SecondLevel, each_way
from tests.support.cut_proxy import CutProxy
from tests.support.process import ServerProcess

OpenClient = Callable[[str], PublishedClient]

ROW = ["key", "command", "qty"]
PRICES: SecondLevel = {"adapter": "QUOTE_ADAPTER", "fields": ["stock_name", "last_price", "time"]}
FIRST_ROWS = {"item1": ("Anduct", "1200"), "item4": ("Calder Shipping", "500"), "item10": ("Farrow Optics", "60")}

# A stock that nobody holds at first, and that trades often.
BOUGHT = "item2"
NAME = "Ations Europe"

pytestmark = pytest.mark.interop


@pytest.fixture
def proxy(demo: ServerProcess) -> Iterator[CutProxy]:
    """Breaks nothing here: it shows what the server has sent."""
    with CutProxy(demo.host, demo.port) as running:
        yield running


@pytest.fixture
def client(name: str, transport: str, proxy: CutProxy, open_client: OpenClient) -> Iterator[PublishedClient]:
    """Connected; what it has bought of the stock is sold in the end, since all tests see the same portfolio."""
    opened = open_client(name)
    opened.connect(proxy.url, "DEMO", transport)
    yield opened
    everything = f"SELL|portfolio1|{BOUGHT}|1000000000"
    opened.send(everything)
    opened.expect("message", text=everything)


def subscribe(client: PublishedClient, second_level: SecondLevel | None = PRICES) -> None:
    client.subscribe("portfolio", "COMMAND", ["portfolio1"], ROW, "PORTFOLIO_ADAPTER", second_level=second_level)


def order(client: PublishedClient, side: str, quantity: int) -> None:
    client.send(f"{side}|portfolio1|{BOUGHT}|{quantity}", sequence="orders")


def row(command: str, quantity: str) -> dict[str, str]:
    """A row without a price, as a client shows it until the second level has its first update."""
    return {"key": BOUGHT, "command": command, "qty": quantity}


def shown(update: Event) -> dict[str, str]:
    """The values that are there: older clients have null for those of the second level, until they come."""
    return {field: value for field, value in update["values"].items() if value is not None}


def expect_row(client: PublishedClient, what: str, fits: Callable[[Event], bool]) -> Event:
    """The next update of the bought stock's row that fits."""
    return client.expect_where("update", lambda event: event["values"]["key"] == BOUGHT and fits(event), what)


def expect_command(client: PublishedClient, command: str, quantity: str | None) -> None:
    """A command of the first level: unlike a price, it comes with another quantity."""
    expect_row(
        client,
        f"{command} {quantity}",
        lambda event: (event["values"]["command"], event["changed"].get("qty", "as before")) == (command, quantity),
    )


def expect_price(client: PublishedClient, quantity: str) -> None:
    """The price moves while the first level does not."""
    event = expect_row(client, "with a new price", lambda event: "last_price" in event["changed"])
    assert event["values"]["stock_name"] == NAME
    assert float(event["values"]["last_price"]) > 0
    assert event["values"]["qty"] == quantity
    assert "qty" not in event["changed"]


def subscribed(proxy: CutProxy) -> list[bytes]:
    """The numbers of the second-level subscriptions so far; the portfolio's own begins with SUBCMD."""
    return re.findall(rb"SUBOK,(\d+),1,3\r\n", proxy.sent)


def unsubscribed(proxy: CutProxy) -> list[bytes]:
    return re.findall(rb"UNSUB,(\d+)\r\n", proxy.sent)


@each_way
def test_every_row_of_the_snapshot_gets_its_price(client: PublishedClient) -> None:
    subscribe(client)
    client.expect("subscribed", subscription="portfolio")
    client.wait_for("end of snapshot", item="portfolio1")
    # The first price may come before the last row.
    story: dict[str, list[Event]] = {key: [] for key in FIRST_ROWS}
    while min(map(len, story.values())) < 2:
        update = client.expect("update", item="portfolio1")
        story[update["values"]["key"]].append(update)
    for key, (added, priced, *_) in story.items():
        name, quantity = FIRST_ROWS[key]
        assert added["snapshot"]
        assert shown(added) == {"key": key, "command": "ADD", "qty": quantity}
        price = priced["values"]["last_price"]
        assert float(price) > 0
        expected = {"key": key, "command": "UPDATE", "qty": quantity, "stock_name": name, "last_price": price}
        assert priced["values"] == expected | {"time": priced["values"]["time"]}
    assert not client.seen("second level error")


@each_way
def test_prices_come_and_go_with_what_is_bought_and_sold(client: PublishedClient, proxy: CutProxy) -> None:
    subscribe(client)
    client.expect("end of snapshot", item="portfolio1")
    order(client, "BUY", 10)
    assert shown(expect_row(client, "at all", lambda event: True)) == row("ADD", "10")
    expect_price(client, "10")
    order(client, "BUY", 5)
    expect_command(client, "UPDATE", "15")
    expect_price(client, "15")
    order(client, "SELL", 9)
    expect_command(client, "UPDATE", "6")
    order(client, "SELL", 6)
    expect_command(client, "DELETE", None)
    order(client, "BUY", 3)
    # Whatever comes next for this row is the new one.
    assert shown(expect_row(client, "after DELETE", lambda event: True)) == row("ADD", "3")
    expect_price(client, "3")
    opened = subscribed(proxy)
    assert len(opened) == len(FIRST_ROWS) + 2
    assert unsubscribed(proxy) == [opened[len(FIRST_ROWS)]]


@each_way
def test_the_prices_end_with_the_portfolio(client: PublishedClient, proxy: CutProxy) -> None:
    subscribe(client)
    order(client, "BUY", 10)
    expect_price(client, "10")
    client.unsubscribe("portfolio")
    client.expect("unsubscribed", subscription="portfolio")
    # Requests are answered in order: those of the second level were sent before this one.
    client.subscribe("stock", "MERGE", [BOUGHT], ["last_price"], "QUOTE_ADAPTER")
    client.expect("update", subscription="stock", snapshot=False)
    assert set(unsubscribed(proxy)) > set(subscribed(proxy))
    assert len(unsubscribed(proxy)) == 1 + len(FIRST_ROWS) + 1
    seen = len(client.seen("update", subscription="portfolio"))
    client.expect("update", subscription="stock", snapshot=False)
    assert len(client.seen("update", subscription="portfolio")) == seen


@each_way
def test_a_row_whose_price_is_refused_is_told_and_the_rows_stay(client: PublishedClient) -> None:
    subscribe(client, {"adapter": "CHAT_ROOM", "fields": ["message"]})
    refused = [client.expect("second level error", subscription="portfolio") for _ in FIRST_ROWS]
    assert {(one["key"], one["code"], one["message"]) for one in refused} == {
        (key, 21, f"LS_group: CHAT_ROOM has no item {key}") for key in FIRST_ROWS
    }
    client.wait_for("end of snapshot", item="portfolio1")
    order(client, "BUY", 10)
    expect_command(client, "ADD", "10")
    assert client.expect("second level error")["key"] == BOUGHT
    order(client, "BUY", 1)
    expect_command(client, "UPDATE", "11")


@each_way
def test_an_order_that_cannot_be_filled_is_refused_and_changes_nothing(client: PublishedClient) -> None:
    subscribe(client)
    client.expect("end of snapshot", item="portfolio1")
    for text in (f"SELL|portfolio1|{BOUGHT}|1", f"BUY|portfolio1|{BOUGHT}|0", "BUY|portfolio1|item31|1"):
        client.send(text, sequence="orders")
        client.expect("message", text=text, outcome="denied")
    order(client, "BUY", 10)
    assert shown(expect_row(client, "at all", lambda event: True)) == row("ADD", "10")
