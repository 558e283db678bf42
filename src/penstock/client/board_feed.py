"""From a server to a board: which items are subscribed, and what becomes of their updates.

Not here: what the command line says (`top`), the connection (`connection`).
"""

from __future__ import annotations

import asyncio

from penstock.client.board import (
    COMPLETE_AFTER,
    ITEM_NUMBERS,
    ITEM_TEXTS,
    SESSION_NUMBERS,
    SESSION_TEXTS,
    STATISTICS,
    FigureBoard,
    Ranking,
)
from penstock.client.board_views import BoardView
from penstock.client.connection import Client
from penstock.client.status import Status
from penstock.client.subscription import Subscription


class BoardFeed:
    """Keeps a board up to date, through cuts and restarts of the server."""

    def __init__(self, board: FigureBoard, view: BoardView) -> None:
        self._board = board
        self._view = view
        self._sessions = 0

    def take_status(self, status: Status) -> None:
        if status.sessions > self._sessions:
            self._sessions = status.sessions
            self._board.begin_again()
        self._view.take_status(status)

    async def run(self, client: Client, adapter: str) -> None:
        """Until it is left; raises what has ended a subscription."""
        statistics = client.subscribe("monitor_statistics", STATISTICS, data_adapter=adapter)
        sessions = client.subscribe(
            "monitor_sessions", ["command", *SESSION_TEXTS, *SESSION_NUMBERS], mode="COMMAND", data_adapter=adapter
        )
        items = client.subscribe(
            "monitor_items", ["command", *ITEM_TEXTS, *ITEM_NUMBERS], mode="COMMAND", data_adapter=adapter
        )
        with self._view:
            tasks = [
                asyncio.ensure_future(each)
                for each in (
                    self._sample(statistics, (sessions, items)),
                    self._rank(sessions, self._board.sessions),
                    self._rank(items, self._board.items),
                    self._view.left.wait(),
                )
            ]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            await task

    async def _sample(self, statistics: Subscription, tables: tuple[Subscription, ...]) -> None:
        async for update in statistics:
            self._board.sample(update.values)
            # Rates of rows that have come just now are not known yet.
            self._board.is_complete = self._board.samples >= COMPLETE_AFTER and all(each.is_whole for each in tables)
            self._view.sampled()

    async def _rank(self, rows: Subscription, ranking: Ranking) -> None:
        async for update in rows:
            ranking.take(update.values)
            self._view.changed()
