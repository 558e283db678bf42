"""Who may see what in the demo: everybody everything, in the mode that suits the item; messages go to the chat room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from penstock.adapters.api import MetadataAdapter
from penstock.adapters.demo.chat import ROOM, ChatAdapter
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.session import Session

CHAT_PREFIX = "CHAT|"


class DemoMetadata(MetadataAdapter):
    """Knows the items of each data adapter, so that a wrong name is told at once and not met with silence."""

    def __init__(self, stocks: Mapping[str, Set[str]], chat: ChatAdapter | None = None) -> None:
        self._stocks = stocks
        self._chat = chat

    def items(self, user: str | None, data_adapter: str, group: str) -> Sequence[str]:
        names = group.split()
        known = self._stocks.get(data_adapter, frozenset({ROOM}))
        for name in names:
            if name not in known:
                raise Refusal(Reason.GROUP, f"{data_adapter} has no item {name[:60]}")
        return names

    def allows_mode(self, user: str | None, data_adapter: str, item: str, mode: Mode) -> bool:
        return mode in (Mode.RAW, Mode.DISTINCT if item == ROOM else Mode.MERGE)

    async def message(self, session: Session, text: str) -> str | None:
        if self._chat is None or not text.startswith(CHAT_PREFIX):
            raise Refusal(Reason.MESSAGE_FAILED, f"Expected a message of the form {CHAT_PREFIX}text")
        self._chat.say(session, text.removeprefix(CHAT_PREFIX))
        return None
