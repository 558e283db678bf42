"""The fan-out workload: which items there are, who subscribes to which, what an update says, and how fast they come.

Shared by the server under test, the baseline and the load, so that the load can tell a wrong update from a right one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

ITEMS = 100
ITEMS_PER_SUBSCRIBER = 10
GROUPS = ITEMS // ITEMS_PER_SUBSCRIBER

FIELDS = ("sequence", "value", "note")
# A field that never changes: after the first update it is sent as unchanged.
NOTE = "constant"

ADAPTER_SET = "BENCH"
DATA_ADAPTER = "ROUND_ROBIN"


def item_name(item: int) -> str:
    return f"item{item}"


def item_number(name: str) -> int:
    return int(name.removeprefix("item"))


def items_of(subscriber: int) -> list[int]:
    """Ten items, so that every ten subscribers have all of them once, and not always in the same place."""
    first = subscriber % GROUPS * ITEMS_PER_SUBSCRIBER
    shift = subscriber // GROUPS
    return [first + (place + shift) % ITEMS_PER_SUBSCRIBER for place in range(ITEMS_PER_SUBSCRIBER)]


def value(item: int, sequence: int) -> str:
    """The second field of an update; it shows which item it belongs to."""
    return f"{item}.{sequence % 1000:03d}"


class Publisher:
    """Publishes all items in turn, at most `window` updates ahead of what the load says it has.

    `publish` is called with the number of an item and of its update, counted from 1.
    """

    def __init__(self, publish: Callable[[int, int], None]) -> None:
        self._publish = publish
        self._window = 0
        self._published = 0
        self._acknowledged = 0

    async def take_orders(self) -> None:
        """Follow the lines on standard input: `window N`, `acknowledged N`, `stop`."""
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async for line in reader:
            self._take(line.split())
            self._run()

    def _take(self, order: list[bytes]) -> None:
        if order[0] == b"window":
            self._window = int(order[1])
        elif order[0] == b"acknowledged":
            self._acknowledged = int(order[1])
        else:
            self._window = 0
            print(self._published, flush=True)

    def _run(self) -> None:
        while self._published - self._acknowledged < self._window:
            turn, item = divmod(self._published, ITEMS)
            self._published += 1
            self._publish(item, turn + 1)
