"""Which requests wait for others, even across connections: those about the same subscription of a session, those about
its bandwidth, those about its push notifications, and messages after one that there is no room for.

All others run concurrently. Specification: TLCP chapter 1, "Requests, Responses, and Notifications".
"""

from __future__ import annotations

import asyncio

from penstock.kernel.session import Session
from penstock.wire.tlcp.control import Control
from penstock.wire.tlcp.push import PushControl
from penstock.wire.tlcp.requests import Constrain, Reconfigure, SendMessage, Subscribe, Unsubscribe

# Session and number of a subscription; or, for what there is one of in a session, numbers that no subscription has.
Subject = tuple[str, int]
MESSAGES = 0
BANDWIDTH = -1
# A client has one device, which it registers before it asks for more about it.
PUSH = -2


def subject(session: Session, request: Control) -> Subject | None:
    """What a request is about, if others about the same have to wait for it."""
    if isinstance(request, Subscribe | Unsubscribe | Reconfigure):
        return session.id, request.subscription
    if isinstance(request, SendMessage):
        return session.id, MESSAGES
    if isinstance(request, Constrain):
        return session.id, BANDWIDTH
    if isinstance(request, PushControl):
        return session.id, PUSH
    return None


def is_awaited(session: Session, request: Control) -> bool:
    """Whether messages that were already accepted wait for this one: it must not wait for them."""
    return isinstance(request, SendMessage) and session.messages.is_awaited(request.sequence, request.progressive)


class Order:
    """The last pending request about each subject."""

    def __init__(self) -> None:
        self._last: dict[Subject, asyncio.Task[None]] = {}

    def last(self, about: Subject | None) -> asyncio.Task[None] | None:
        """The request that another one about this has to wait for."""
        return None if about is None else self._last.get(about)

    def add(self, about: Subject | None, request: asyncio.Task[None]) -> None:
        """From now on others about this wait for this request."""
        if about is not None:
            self._last[about] = request
            request.add_done_callback(lambda done: self._forget(about, done))

    def _forget(self, about: Subject, done: asyncio.Task[None]) -> None:
        if self._last.get(about) is done:
            del self._last[about]
