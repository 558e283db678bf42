"""Which requests wait for which: those about the same subscription of a session, on whatever connections they come.

All others go side by side. Specification: TLCP chapter 1, "Requests, Responses, and Notifications".
"""

from __future__ import annotations

import asyncio

from penstock.kernel.session import Session
from penstock.wire.tlcp.requests import Control, Reconfigure, Subscribe, Unsubscribe

# Session and number of a subscription.
Subject = tuple[str, int]


def subject(session: Session, request: Control) -> Subject | None:
    """The subscription that a request is about, if it is about one."""
    if isinstance(request, Subscribe | Unsubscribe | Reconfigure):
        return session.id, request.subscription
    return None


class Order:
    """The last request under way about each subscription; there are entries for those only."""

    def __init__(self) -> None:
        self._last: dict[Subject, asyncio.Task[None]] = {}

    def last(self, about: Subject | None) -> asyncio.Task[None] | None:
        """The request that one about this subscription has to wait for."""
        return None if about is None else self._last.get(about)

    def add(self, about: Subject | None, request: asyncio.Task[None]) -> None:
        """From now on others about this subscription wait for this request."""
        if about is not None:
            self._last[about] = request
            request.add_done_callback(lambda done: self._forget(about, done))

    def _forget(self, about: Subject, done: asyncio.Task[None]) -> None:
        if self._last.get(about) is done:
            del self._last[about]
