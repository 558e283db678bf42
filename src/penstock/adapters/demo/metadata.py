"""Who may see what in the demo: everybody everything, in the mode that suits the item. It takes their messages, too.

Push notifications are for those whom the server names, because they outlive sessions and are sent to other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from penstock.adapters.api import MetadataAdapter
from penstock.adapters.demo.chat import ChatAdapter
from penstock.adapters.demo.portfolio import PORTFOLIO, PortfolioAdapter, refused
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import ClientFacts, DeviceFacts, SessionFacts

USAGE = "Expected CHAT|text, BUY|portfolio1|item2|10 or SELL|portfolio1|item2|10"


def everybody(client: ClientFacts) -> bool:
    return True


class DemoMetadata(MetadataAdapter):
    """Knows the items of each data adapter, so that a wrong name is an error and not silence."""

    quick = True

    def __init__(
        self,
        items: Mapping[str, Mapping[str, Mode]],
        chat: ChatAdapter,
        portfolio: PortfolioAdapter,
        may_register: Callable[[ClientFacts], bool] = everybody,
    ) -> None:
        """`items` of each data adapter: names, or patterns with `*`, and the mode that suits them."""
        self._items = items
        self._chat = chat
        self._portfolio = portfolio
        self._may_register = may_register

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:
        names = group.split()
        for name in names:
            if self._mode(data_adapter, name) is None:
                raise Refusal(Reason.GROUP, f"{data_adapter} has no item {name[:60]}")
        return names

    def allows_mode(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> bool:
        return mode in (Mode.RAW, self._mode(data_adapter, item))

    def _mode(self, data_adapter: str, item: str) -> Mode | None:
        known = self._items[data_adapter]
        found = known.get(item)
        if found is None:
            found = next(
                (mode for pattern, mode in known.items() if "*" in pattern and fnmatchcase(item, pattern)), None
            )
        return found

    def register_device(self, session: SessionFacts, device: DeviceFacts) -> None:
        if not self._may_register(session.client):
            raise Refusal(Reason.APPLICATION, "The demo has push notifications for clients on its own machine only")

    def message(self, session: SessionFacts, text: str) -> str | None:
        kind, _, rest = text.partition("|")
        if kind == "CHAT":
            self._chat.say(session, rest)
            return None
        parts = rest.split("|")
        if kind not in ("BUY", "SELL") or len(parts) != 3 or parts[0] != PORTFOLIO:
            raise refused(USAGE)
        self._portfolio.order(kind, parts[1], parts[2])
        return None
