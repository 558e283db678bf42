"""A stock portfolio as a data adapter: item portfolio1 in COMMAND mode, one row per stock, changed by client messages.

A row's key is the name of the stock's own item, so that clients can subscribe to its price as a second level.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.adapters.api import DataAdapter
from penstock.kernel.errors import Reason, Refusal

PORTFOLIO = "portfolio1"
FIRST_HOLDINGS: Mapping[str, int] = {"item1": 1200, "item4": 500, "item10": 60}

# The largest order; a longer number is a typing error.
MAX_QUANTITY = 1_000_000_000

# Client libraries show the words of a refusal only with a code of the adapter's own, which is not positive.
REFUSED = -1


def refused(why: str) -> Refusal:
    """To be raised for a message that the demo does not take."""
    return Refusal(Reason.MESSAGE_FAILED, why, REFUSED)


class PortfolioAdapter(DataAdapter):
    """Holdings live as long as the server."""

    quick = True

    def __init__(self, stocks: frozenset[str]) -> None:
        self._stocks = stocks
        self._holdings = dict(FIRST_HOLDINGS)

    def subscribe(self, item: str) -> None:
        for stock, quantity in self._holdings.items():
            self.update(item, {"key": stock, "command": "ADD", "qty": str(quantity)}, snapshot=True)
        self.end_of_snapshot(item)

    def order(self, side: str, stock: str, quantity_text: str) -> None:
        """Buy or sell; raises a Refusal that says what is wrong with the order."""
        if stock not in self._stocks:
            raise refused(f"There is no stock {stock[:60]}")
        if not (quantity_text.isascii() and quantity_text.isdecimal()) or not 0 < int(quantity_text) <= MAX_QUANTITY:
            raise refused(f"Quantity {quantity_text[:20]!r}: expected 1 to {MAX_QUANTITY}")
        held = self._holdings.get(stock, 0)
        quantity = int(quantity_text) if side == "BUY" else -int(quantity_text)
        left = max(0, held + quantity)
        if left:
            self._holdings[stock] = left
            self._publish({"key": stock, "command": "UPDATE" if held else "ADD", "qty": str(left)})
        elif held:
            del self._holdings[stock]
            self._publish({"key": stock, "command": "DELETE"})
        else:
            raise refused(f"There are no shares of {stock} to sell")

    def _publish(self, change: Mapping[str, str]) -> None:
        if self.publisher.wants(PORTFOLIO):
            self.update(PORTFOLIO, change)
