"""The market as a data adapter: items item1 to item30 in MERGE mode, thirteen fields each, a snapshot at once."""

from __future__ import annotations

import asyncio

from penstock.adapters.api import DataAdapter
from penstock.adapters.demo.market import Market, Stock


class StocksAdapter(DataAdapter):
    """Publishes the trades of subscribed stocks. The first adapter of a market that starts also keeps it going."""

    quick = True

    def __init__(self, market: Market) -> None:
        self._market = market
        self._subscribed: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def start(self) -> None:
        if not self._market.listeners:
            for item in self._market.stocks:
                self._schedule(item)
        self._market.listeners.append(self._traded)

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._market.listeners.remove(self._traded)

    def subscribe(self, item: str) -> None:
        self._subscribed.add(item)
        stock = self._market.stocks.get(item)
        if stock is not None:
            self.update(item, stock.fields(), snapshot=True)

    def unsubscribe(self, item: str) -> None:
        self._subscribed.discard(item)

    def _schedule(self, item: str) -> None:
        self._timers[item] = asyncio.get_running_loop().call_later(self._market.next_delay(item), self._trade, item)

    def _trade(self, item: str) -> None:
        self._market.trade(item)
        self._schedule(item)

    def _traded(self, item: str, stock: Stock) -> None:
        if item in self._subscribed:
            self.update(item, stock.fields())
