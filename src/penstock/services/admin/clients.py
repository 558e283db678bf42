"""Sessions and items of one process, as administrators see them and act on them.

Those of a hub and all its edges have the same port: `penstock.services.cluster.clients`. What is checked before and
written down after is in `steering`; how they are described, in `lists`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.kernel.errors import Refusal
from penstock.kernel.kernel import Kernel
from penstock.kernel.ruling import Ruling
from penstock.kernel.session import Session
from penstock.kernel.subscription import Subscription
from penstock.services.admin.problems import AdminProblem

if TYPE_CHECKING:
    from penstock.services.admin.lists import ListPart
    from penstock.services.admin.models import ItemList, SessionDetail, SessionInfo, SessionList, SubscriptionInfo

# `lists` is loaded when somebody asks: it takes its time, and most servers are never asked.


class OwnedSubscription(NamedTuple):
    """A subscription, and whose it is."""

    user: str | None
    subscription: SubscriptionInfo


class Clients(Protocol):
    """All sessions and items of a server. What cannot be done raises an AdminProblem."""

    def count(self) -> int:
        """Of sessions."""

    async def sessions(self, part: ListPart, user: str | None, adapter_set: str | None) -> SessionList: ...
    async def session(self, name: str) -> SessionDetail: ...
    async def items(self, part: ListPart, adapter_set: str | None, data_adapter: str | None) -> ItemList: ...
    async def end_session(self, name: str, code: int, message: str) -> SessionInfo: ...

    async def set_bandwidth(self, name: str, ruling: Ruling | None) -> SessionInfo:
        """None: what the metadata adapter allows holds again."""

    async def unsubscribe(self, name: str, number: int) -> SessionInfo: ...

    async def set_frequency(self, name: str, number: int, ruling: Ruling | None) -> OwnedSubscription:
        """None: what the metadata adapter allows holds again."""


class OwnClients:
    """Those of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def count(self) -> int:
        return len(self.kernel.sessions)

    async def sessions(self, part: ListPart, user: str | None, adapter_set: str | None) -> SessionList:
        from penstock.services.admin import lists

        return await lists.sessions(part, self.kernel, user, adapter_set)

    async def session(self, name: str) -> SessionDetail:
        from penstock.services.admin import lists

        return lists.in_detail(self._session(name))

    async def items(self, part: ListPart, adapter_set: str | None, data_adapter: str | None) -> ItemList:
        from penstock.services.admin import lists

        return await lists.items(part, self.kernel, adapter_set, data_adapter)

    async def end_session(self, name: str, code: int, message: str) -> SessionInfo:
        from penstock.services.admin import lists

        session = self._session(name)
        found = lists.described(session)
        session.close(code, message)
        return found

    async def set_bandwidth(self, name: str, ruling: Ruling | None) -> SessionInfo:
        from penstock.services.admin import lists

        session = self._session(name)
        session.rule(ruling)
        return lists.described(session)

    async def unsubscribe(self, name: str, number: int) -> SessionInfo:
        from penstock.services.admin import lists

        session = self._subscription(name, number).session
        session.unsubscribe(number)
        return lists.described(session)

    async def set_frequency(self, name: str, number: int, ruling: Ruling | None) -> OwnedSubscription:
        from penstock.services.admin import lists

        subscription = self._subscription(name, number)
        try:
            subscription.rule(ruling)
        except Refusal as refusal:
            raise AdminProblem(409, f"session {name}: {refusal.message}") from None
        return OwnedSubscription(subscription.session.user, lists.described_subscription(subscription))

    def _session(self, name: str) -> Session:
        session = self.kernel.shown_session(name)
        if session is None:
            raise no_session(name)
        return session

    def _subscription(self, name: str, number: int) -> Subscription:
        try:
            return self._session(name).subscription(number)
        except Refusal as refusal:
            raise AdminProblem(404, f"session {name[:60]}: {refusal.message}") from None


def no_session(name: str) -> AdminProblem:
    return AdminProblem(404, f"session {name[:60]}: no such session is open")
