"""The demo adapter sets: WELCOME (STOCKS, CHAT), and DEMO, the name public example clients expect (QUOTE_ADAPTER).

A simulated market and a chat room; no real data. Also the example to start an adapter of one's own from.
"""

from __future__ import annotations

from random import Random

from penstock.adapters.api import AdapterSet
from penstock.adapters.demo.chat import ChatAdapter
from penstock.adapters.demo.market import Market
from penstock.adapters.demo.metadata import DemoMetadata
from penstock.adapters.demo.stocks import StocksAdapter


def demo_sets(pace: float = 1.0, seed: int | None = None) -> list[AdapterSet]:
    """Both sets over one market; `pace` speeds it up, `seed` makes it repeatable."""
    market = Market(Random(seed), pace)
    stocks = frozenset(market.stocks)
    chat = ChatAdapter()
    return [
        AdapterSet("WELCOME", DemoMetadata({"STOCKS": stocks}, chat), {"STOCKS": StocksAdapter(market), "CHAT": chat}),
        AdapterSet("DEMO", DemoMetadata({"QUOTE_ADAPTER": stocks}), {"QUOTE_ADAPTER": StocksAdapter(market)}),
    ]
