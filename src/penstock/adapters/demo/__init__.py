"""The demo adapter sets: WELCOME (STOCKS, CHAT, PORTFOLIO), and DEMO with the names that public example clients expect.

A simulated market, a chat room and a portfolio; no real data. Also an example to start your own adapter from.
WELCOME also has what the pipeline publishes: CANDLES and MOVERS, made from the market, and PIPELINE, about itself.
With `demo.traffic` it has LIGHTS, the demo's own domain of the TLEX hub.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from penstock.adapters.api import AdapterSet, DataAdapter, Journaling
from penstock.adapters.demo.chat import ROOM, ChatAdapter
from penstock.adapters.demo.market import Market
from penstock.adapters.demo.metadata import DemoMetadata, everybody
from penstock.adapters.demo.portfolio import PORTFOLIO, PortfolioAdapter
from penstock.adapters.demo.stocks import StocksAdapter
from penstock.adapters.demo.token import new_token
from penstock.adapters.ingest import IngestAdapter
from penstock.adapters.tlex import TlexAdapter
from penstock.kernel.item import Mode
from penstock.kernel.ports import ClientFacts

# What the pipeline may publish, by data adapter: patterns of items, and the mode of each.
PIPELINE_ITEMS: Mapping[str, Mapping[str, Mode]] = {
    "CANDLES": {"candle.*": Mode.MERGE, "candles.*": Mode.DISTINCT},
    "MOVERS": {"movers": Mode.COMMAND},
    "PIPELINE": {"query.*": Mode.MERGE, "queries": Mode.COMMAND},
}

# What WELCOME shows of the TLEX hub: the domain that the demo's own controllers are in, and no other.
LIGHTS = "LIGHTS"
LIGHTS_ITEMS: Mapping[str, Mode] = {
    "sessions/demo": Mode.COMMAND,
    "payloads/demo/*": Mode.DISTINCT,
    "controller/demo/*": Mode.MERGE,
}


def demo_sets(
    pace: float = 1.0,
    seed: int | None = None,
    token: str | None = None,
    may_register: Callable[[ClientFacts], bool] = everybody,
    traffic: bool = False,
) -> list[AdapterSet]:
    """Both sets over one market; `pace` speeds it up, `seed` makes it repeatable. `traffic` adds LIGHTS.

    The pipeline presents the `token`; without one, a random one is made that nobody knows. `may_register` says which
    clients may have push notifications.
    """
    market = Market(Random(seed), pace)
    token = token or new_token()
    return [
        _demo_set("WELCOME", market, "STOCKS", "CHAT", "PORTFOLIO", PIPELINE_ITEMS, token, may_register, traffic),
        _demo_set("DEMO", market, "QUOTE_ADAPTER", "CHAT_ROOM", "PORTFOLIO_ADAPTER", {}, token, may_register),
    ]


def _demo_set(
    name: str,
    market: Market,
    stocks_name: str,
    chat_name: str,
    portfolio_name: str,
    published: Mapping[str, Mapping[str, Mode]],
    token: str,
    may_register: Callable[[ClientFacts], bool],
    traffic: bool = False,
) -> AdapterSet:
    chat = ChatAdapter()
    portfolio = PortfolioAdapter(frozenset(market.stocks))
    items: dict[str, Mapping[str, Mode]] = {
        stocks_name: dict.fromkeys(market.stocks, Mode.MERGE),
        chat_name: {ROOM: Mode.DISTINCT},
        portfolio_name: {PORTFOLIO: Mode.COMMAND},
    }
    data: dict[str, DataAdapter] = {stocks_name: StocksAdapter(market), chat_name: chat, portfolio_name: portfolio}
    # By their names, because these adapters publish only what is subscribed.
    journal = {adapter: Journaling(tuple(names)) for adapter, names in items.items()}
    for adapter, patterns in published.items():
        data[adapter] = IngestAdapter(items={item: mode.value for item, mode in patterns.items()}, tokens=[token])
        journal[adapter] = Journaling(("*",), "ack")
    if traffic:
        data[LIGHTS] = TlexAdapter()
        items[LIGHTS] = LIGHTS_ITEMS
    metadata = DemoMetadata({**items, **published}, chat, portfolio, may_register)
    return AdapterSet(name, metadata, data, journal=journal)
