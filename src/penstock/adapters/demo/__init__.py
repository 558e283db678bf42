"""The demo adapter sets: WELCOME (STOCKS, CHAT, PORTFOLIO), and DEMO with the names that public example clients expect.

A simulated market, a chat room and a portfolio; no real data. Also the example to start an adapter of one's own from.
"""

from __future__ import annotations

from random import Random

from penstock.adapters.api import AdapterSet
from penstock.adapters.demo.chat import ROOM, ChatAdapter
from penstock.adapters.demo.market import Market
from penstock.adapters.demo.metadata import DemoMetadata
from penstock.adapters.demo.portfolio import PORTFOLIO, PortfolioAdapter
from penstock.adapters.demo.stocks import StocksAdapter


def demo_sets(pace: float = 1.0, seed: int | None = None) -> list[AdapterSet]:
    """Both sets over one market; `pace` speeds it up, `seed` makes it repeatable."""
    market = Market(Random(seed), pace)
    return [
        _demo_set("WELCOME", market, "STOCKS", "CHAT", "PORTFOLIO"),
        _demo_set("DEMO", market, "QUOTE_ADAPTER", "CHAT_ROOM", "PORTFOLIO_ADAPTER"),
    ]


def _demo_set(name: str, market: Market, stocks_name: str, chat_name: str, portfolio_name: str) -> AdapterSet:
    stocks = frozenset(market.stocks)
    chat = ChatAdapter()
    portfolio = PortfolioAdapter(stocks)
    items = {stocks_name: stocks, chat_name: frozenset({ROOM}), portfolio_name: frozenset({PORTFOLIO})}
    data = {stocks_name: StocksAdapter(market), chat_name: chat, portfolio_name: portfolio}
    return AdapterSet(name, DemoMetadata(items, chat, portfolio), data)
