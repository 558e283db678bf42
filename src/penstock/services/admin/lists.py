"""What there is, as administrators see it: sessions, subscriptions, items, adapters, sessions of the TLEX hub.

Lists are asked for in parts, so that none holds up the event loop. What can be done to them is in `steering`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from penstock.adapters.api import DataAdapter
from penstock.adapters.roster import Roster
from penstock.exchange.session import HubSession
from penstock.kernel.feed import Feed
from penstock.kernel.identity import public
from penstock.kernel.item import Item
from penstock.kernel.kernel import Kernel
from penstock.kernel.session import Session
from penstock.kernel.subscription import Subscription
from penstock.services.admin.models import (
    AdapterInfo,
    ItemInfo,
    SessionDetail,
    SessionInfo,
    SubscriptionInfo,
    TlexSessionInfo,
)

# Names in one answer about one thing: a subscription may have ten thousand items.
MAX_NAMES = 100

T = TypeVar("T")


class ListPart(NamedTuple):
    """Which of a list are asked for."""

    offset: int
    limit: int

    def of(self, everything: Iterable[T]) -> tuple[int, list[T]]:
        """How many there are in all, and those asked for."""
        found, total = [], 0
        for each in everything:
            if self.offset <= total < self.offset + self.limit:
                found.append(each)
            total += 1
        return total, found


def sessions(kernel: Kernel, user: str | None, adapter_set: str | None) -> Iterator[Session]:
    """In the order in which they were opened; those of one user or adapter set, if one is named."""
    return (
        session
        for session in kernel.sessions.values()
        if user in (None, session.user) and adapter_set in (None, session.adapter_set)
    )


def described(session: Session) -> SessionInfo:
    figures = session.figures()
    return SessionInfo(
        session=public(session.id),
        user=session.user,
        adapter_set=session.adapter_set,
        address=session.address,
        transport=session.transport,
        library=session.library,
        seconds=round(session.kernel.clock() - session.opened, 3),
        max_kbps=session.max_bandwidth,
        is_ruled=session.ruling is not None,
        subscriptions=len(session.subscriptions),
        items=sum(len(each.items) for each in session.subscriptions.values()),
        updates=figures.updates,
        bytes=figures.bytes,
        lost=figures.lost,
        waiting_bytes=session.waiting(),
    )


def in_detail(session: Session) -> SessionDetail:
    subscribed = [described_subscription(each) for each in islice(session.subscriptions.values(), MAX_NAMES)]
    return SessionDetail(**described(session).model_dump(), subscribed=subscribed)


def described_subscription(subscription: Subscription) -> SubscriptionInfo:
    request = subscription.request
    return SubscriptionInfo(
        number=subscription.number,
        data_adapter=request.feed.name,
        mode=request.mode.value,
        items=len(request.grant.items),
        names=[granted.name for granted in request.grant.items[:MAX_NAMES]],
        fields=list(request.grant.fields[:MAX_NAMES]),
        unfiltered=subscription.unfiltered,
        max_per_second=subscription.max_frequency,
        is_ruled=subscription.ruling is not None,
    )


def items(kernel: Kernel, adapter_set: str | None, data_adapter: str | None) -> Iterator[tuple[Feed, Item]]:
    return (
        (feed, item)
        for (owner, name), feed in kernel.feeds.items()
        if adapter_set in (None, owner) and data_adapter in (None, name)
        for item in feed.items.values()
    )


def described_item(feed: Feed, item: Item) -> ItemInfo:
    return ItemInfo(
        adapter_set=feed.adapter_set,
        data_adapter=feed.name,
        item=item.name,
        mode=None if item.mode is None else item.mode.value,
        subscribers=item.subscribers,
        events=item.events,
    )


def adapters(roster: Roster) -> list[AdapterInfo]:
    found = []
    for member in roster.members():
        trouble = member.trouble
        state = "failed" if member.has_failed else "running" if trouble is None else "degraded"
        if member.label in roster.awaited:
            state = "awaited"
        kind = "data" if isinstance(member.adapter, DataAdapter) else "metadata"
        found.append(
            AdapterInfo(adapter=member.label, kind=kind, state=state, trouble=trouble, optional=member.optional)
        )
    known = {each.adapter for each in found}
    # Those that could not even be made.
    missing = sorted(roster.awaited - known)
    return found + [
        AdapterInfo(adapter=label, kind="data", state="awaited", trouble=None, optional=True) for label in missing
    ]


def described_tlex(session: HubSession) -> TlexSessionInfo:
    return TlexSessionInfo(
        id=session.id,
        account=session.account,
        domain=session.domain,
        type=session.type.value,
        protocol=session.protocol.value,
        state=session.state.value,
        identifiers=len(session.identifiers),
        names=list(session.identifiers[:MAX_NAMES]),
        created_ms=session.created,
        connected_ms=session.connected,
        received=session.counters.received,
        sent=session.counters.sent,
        dropped=session.counters.dropped,
    )
