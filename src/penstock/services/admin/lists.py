"""What there is, as administrators see it: sessions, subscriptions, items, adapters, sessions of the TLEX hub.

Lists are asked for in parts, so that none holds up the event loop. What can be done to them is in `steering`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from itertools import islice
from typing import NamedTuple, TypeVar

from penstock.adapters.api import DataAdapter
from penstock.adapters.roster import Roster
from penstock.cluster.derived import real_name
from penstock.exchange.hub import Hub
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
    ItemList,
    SessionDetail,
    SessionInfo,
    SessionList,
    SubscriptionInfo,
    TlexSessionInfo,
    TlexSessionList,
)

# Names in one answer about one thing: a subscription may have ten thousand items.
MAX_NAMES = 100

# How many are looked at, and described, before everybody else has a turn.
LOOKED_AT_PER_TURN = 1_000
DESCRIBED_PER_TURN = 50

T = TypeVar("T")
D = TypeVar("D")


class ListPart(NamedTuple):
    """Which of a list are asked for."""

    offset: int
    limit: int

    async def of(
        self, everything: Collection[T], fits: Callable[[T], bool], describe: Callable[[T], D]
    ) -> tuple[int, list[D]]:
        """How many fit in all, and those asked for. Others have a turn now and then, so it is a picture of moments."""
        found: list[D] = []
        total = 0
        # A copy, because it may change meanwhile.
        for number, each in enumerate(list(everything)):
            if number % LOOKED_AT_PER_TURN == 0:
                await asyncio.sleep(0)
            if not fits(each):
                continue
            if self.offset <= total < self.offset + self.limit:
                found.append(describe(each))
                if len(found) % DESCRIBED_PER_TURN == 0:
                    await asyncio.sleep(0)
            total += 1
        return total, found


async def sessions(part: ListPart, kernel: Kernel, user: str | None, adapter_set: str | None) -> SessionList:
    """In the order in which they were opened; those of one user or adapter set, if one is named."""

    def fits(session: Session) -> bool:
        return (user is None or session.user == user) and (adapter_set is None or session.adapter_set == adapter_set)

    total, found = await part.of(kernel.sessions.values(), fits, described)
    return SessionList(total=total, sessions=found)


def described(session: Session) -> SessionInfo:
    figures = session.figures()
    return SessionInfo(
        session=public(session.id),
        user=session.user,
        adapter_set=session.adapter_set,
        address=session.client.address,
        transport=session.transport,
        library=session.client.library,
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
        names=[real_name(granted.name) for granted in request.grant.items[:MAX_NAMES]],
        fields=list(request.grant.fields[:MAX_NAMES]),
        unfiltered=subscription.unfiltered,
        max_per_second=subscription.max_frequency,
        is_ruled=subscription.ruling is not None,
    )


async def items(part: ListPart, kernel: Kernel, adapter_set: str | None, data_adapter: str | None) -> ItemList:
    feeds = [
        feed
        for (owner, name), feed in kernel.feeds.items()
        if adapter_set in (None, owner) and data_adapter in (None, name)
    ]
    everything = [(feed, item) for feed in feeds for item in feed.items.values()]
    total, found = await part.of(everything, lambda each: True, _described_item)
    return ItemList(total=total, items=found)


def _described_item(place: tuple[Feed, Item]) -> ItemInfo:
    feed, item = place
    return ItemInfo(
        adapter_set=feed.adapter_set,
        data_adapter=feed.name,
        item=item.name,
        mode=None if item.mode is None else item.mode.value,
        subscribers=item.audience,
        events=item.events,
    )


def adapters(roster: Roster) -> list[AdapterInfo]:
    found = []
    for member in roster.members():
        trouble = member.trouble
        state = roster.state_of(member, trouble)
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


async def tlex_sessions(part: ListPart, hub: Hub) -> TlexSessionList:
    total, found = await part.of(hub.sessions.values(), lambda each: True, described_tlex)
    return TlexSessionList(total=total, sessions=found)


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
