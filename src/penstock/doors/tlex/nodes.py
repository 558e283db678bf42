"""Nodes with TLEX connections, at the hub: the asyncio shell around `Outposts`.

Words go as bytes, once in a turn, to whoever has a way to nodes (`penstock.services.tlex`): in order and once each. The
other end is `annex`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from functools import partial

from penstock.doors.tlex.listener import instant
from penstock.exchange.hub import Hub
from penstock.exchange.outposts import Outposts
from penstock.exchange.places import Places
from penstock.log import get
from penstock.wire.fabric.tlex import decode_node_words, encode_words

log = get(__name__)

# Bytes that a node has not confirmed: beyond it its sessions end, because it does not keep up.
MAX_UNCONFIRMED = 16 << 20

# Takes the name of a node, what it is to be told, and what to call when it has confirmed that.
TellNode = Callable[[str, bytes, Callable[[], None]], None]


class TlexNodes:
    """Lives on the event loop."""

    def __init__(self, hub: Hub, places: Places, tell: TellNode) -> None:
        self._loop = asyncio.get_running_loop()
        self.outposts = Outposts(hub, places, self._wake)
        self._tell = tell
        self._unconfirmed: Counter[str] = Counter()
        self._empty = asyncio.Event()

    @property
    def sessions(self) -> int:
        """That are at nodes."""
        return sum([len(post.sessions) for post in self.outposts.posts.values()])

    def came(self, node: str, run: str) -> None:
        known = self.outposts.posts.get(node)
        if known is None or known.run != run:
            # What an earlier process was told is never confirmed.
            del self._unconfirmed[node]
        self.outposts.came(node, run, instant())

    def lost(self, node: str) -> None:
        self.outposts.lost(node, instant())

    def hear(self, node: str, body: bytes) -> None:
        """Raises a FabricError."""
        self.outposts.hear(node, decode_node_words(body), instant())
        if not self.sessions:
            self._empty.set()

    def _wake(self) -> None:
        self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Tell nodes what has gathered."""
        for node, words in self.outposts.take():
            payload = encode_words(words)
            size = len(payload)
            self._unconfirmed[node] += size
            self._tell(node, payload, partial(self._confirmed, node, size))
            if self._unconfirmed[node] > MAX_UNCONFIRMED:
                log.warning("a TLEX node does not keep up; its sessions end", node=node, bytes=MAX_UNCONFIRMED)
                self.outposts.cut_off(node, instant())

    def _confirmed(self, node: str, size: int) -> None:
        self._unconfirmed[node] -= size
        if self._unconfirmed[node] <= 0:
            del self._unconfirmed[node]

    async def wait(self, seconds: float) -> None:
        """Until no session is at a node any more, but not longer than this."""
        if self.sessions:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)
