"""A chat room as a data adapter: item chat_room in DISTINCT mode; what clients send as `CHAT|text` appears in it."""

from __future__ import annotations

import asyncio
from datetime import datetime

from penstock.adapters.api import DataAdapter
from penstock.kernel.ports import SessionFacts

ROOM = "chat_room"


class ChatAdapter(DataAdapter):
    """Keeps nothing itself: the kernel keeps the last messages as the item's snapshot."""

    quick = True

    def has_snapshot(self, item: str) -> bool:
        return False

    def say(self, session: SessionFacts, text: str) -> None:
        """Publish a line of a client, after its sender has been told that it was taken."""
        line = {
            "timestamp": datetime.now().astimezone().strftime("%H:%M:%S"),
            "message": text,
            "IP": session.client.address,
            "nick": session.user,
        }
        asyncio.get_running_loop().call_soon(self._publish, line)

    def _publish(self, line: dict[str, str | None]) -> None:
        if self.publisher.wants(ROOM):
            self.update(ROOM, line)
