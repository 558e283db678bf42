"""A simulated stock market: thirty stocks in a random walk, each at its own rate. Knows nothing of clients."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random

# Name, first price, mean seconds between two trades.
LISTINGS = (
    ("Anduct", 3.04, 30.0),
    ("Ations Europe", 16.09, 0.5),
    ("Brightwell Tools", 7.19, 3.0),
    ("Calder Shipping", 3.63, 60.0),
    ("Castor Bricks", 7.61, 7.0),
    ("Delmar Foods", 2.30, 10.0),
    ("Dunmore Power", 15.39, 3.0),
    ("Eastgate Rail", 5.31, 7.0),
    ("Elmfield Paper", 4.86, 7.0),
    ("Farrow Optics", 17.61, 7.0),
    ("Fenwick Cement", 8.40, 0.5),
    ("Gannet Airways", 3.90, 3.0),
    ("Garnet Mining", 4.70, 20.0),
    ("Harrow Textiles", 10.55, 20.0),
    ("Hollins Gas", 10.20, 20.0),
    ("Inverloch Water", 6.86, 30.0),
    ("Jarrow Cables", 9.22, 0.7),
    ("Keld Pharma", 12.08, 3.0),
    ("Lathom Glass", 3.33, 60.0),
    ("Marsden Motors", 8.25, 2.0),
    ("Norbury Media", 14.11, 4.0),
    ("Oakham Insurance", 9.87, 10.0),
    ("Penrith Dairy", 2.95, 12.0),
    ("Quorn Leather", 6.40, 15.0),
    ("Ripley Software", 21.60, 0.4),
    ("Saltash Fishing", 4.12, 8.0),
    ("Thirsk Brewing", 7.77, 5.0),
    ("Upton Telecom", 18.35, 1.0),
    ("Wexcombe Timber", 5.94, 25.0),
    ("Yarrow Robotics", 11.40, 1.5),
)

# A trade moves the price by at most this share; the walk is pulled back towards its reference to stay believable.
STEP = 0.012
PULL = 0.02
SPREAD = 0.01


class Stock:
    """One listed stock and its figures of the day."""

    def __init__(self, name: str, price: float, period: float, random: Random) -> None:
        self.name = name
        self.period = period
        self._random = random
        self.reference = round(price * random.uniform(0.97, 1.03), 2)
        self.opening = price
        self.last = self.low = self.high = price
        self.bid_quantity = self.ask_quantity = self.last_quantity = 0
        self.time = ""
        self._quote()

    def trade(self) -> None:
        """The next trade: a new price, new quotes."""
        drift = PULL * (self.reference - self.last) / self.reference
        self.last = max(0.01, round(self.last * (1 + drift + self._random.uniform(-STEP, STEP)), 2))
        self.low = min(self.low, self.last)
        self.high = max(self.high, self.last)
        self.last_quantity = self._random.randrange(1, 40) * 50
        self._quote()

    def _quote(self) -> None:
        self.time = datetime.now().astimezone().strftime("%H:%M:%S")
        self.bid_quantity = self._random.randrange(1, 200) * 500
        self.ask_quantity = self._random.randrange(1, 200) * 500

    def fields(self) -> dict[str, str]:
        """All thirteen fields as text."""
        return {
            "stock_name": self.name,
            "time": self.time,
            "last_price": f"{self.last:g}",
            "pct_change": f"{round((self.last - self.reference) / self.reference * 100, 2):g}",
            "min": f"{self.low:g}",
            "max": f"{self.high:g}",
            "bid": f"{round(self.last - SPREAD, 2):g}",
            "ask": f"{round(self.last + SPREAD, 2):g}",
            "bid_quantity": str(self.bid_quantity),
            "ask_quantity": str(self.ask_quantity),
            "ref_price": f"{self.reference:g}",
            "open_price": f"{self.opening:g}",
            "last_quantity": str(self.last_quantity),
        }


class Market:
    """The stocks by item name, and the listeners that hear of every trade."""

    def __init__(self, random: Random, pace: float = 1.0) -> None:
        self.pace = pace
        self.stocks = {
            f"item{number}": Stock(name, price, period, random)
            for number, (name, price, period) in enumerate(LISTINGS, start=1)
        }
        self.listeners: list[Callable[[str, Stock], None]] = []
        self._random = random

    def next_delay(self, item: str) -> float:
        """Seconds until the stock's next trade."""
        return self._random.uniform(0.2, 1.8) * self.stocks[item].period / self.pace

    def trade(self, item: str) -> None:
        stock = self.stocks[item]
        stock.trade()
        for listener in self.listeners:
            listener(item, stock)
