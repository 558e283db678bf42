"""Sessions and items of a hub and all its edges, as administrators see them and act on them.

A session is at one of them, and each is asked whether it is there. An edge that does not answer is left out of lists,
and the log says so. The edges' side is `administration`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.cluster.guests import Guests
from penstock.kernel.errors import Refusal
from penstock.kernel.ruling import Ruling
from penstock.log import get
from penstock.services.admin.clients import OwnClients, OwnedSubscription, no_session
from penstock.services.admin.problems import AdminProblem
from penstock.services.cluster.administration import ADMINISTER
from penstock.services.cluster.roll import EdgeRoll
from penstock.services.tables import ItemsTable, SessionsTable
from penstock.wire.fabric.administration import (
    AdminQuestion,
    AdminReply,
    AdminWish,
    CountSubscribers,
    EndSession,
    EndSubscription,
    ItemPath,
    LimitSession,
    LimitSubscription,
    ListRows,
    ListSessions,
    ShowSession,
)
from penstock.wire.fabric.calls import decode_body
from penstock.wire.fabric.messages import FabricError

if TYPE_CHECKING:
    from penstock.adapters.monitor.overview import Keyed, Table
    from penstock.services.admin.lists import ListPart
    from penstock.services.admin.models import ItemList, SessionDetail, SessionInfo, SessionList

log = get(__name__)

# Seconds that an edge has to answer.
PATIENCE = 5.0

# Seconds between two looks of tables at edges, however many tables there are.
PAUSE = 0.5

T = TypeVar("T")


class AllClients:
    """The port `Clients` of a hub."""

    def __init__(self, own: OwnClients, guests: Guests, roll: EdgeRoll) -> None:
        self._own = own
        self._guests = guests
        self._roll = roll
        self._rows: Remembered[list[Keyed]] = Remembered(self._all_rows, [])
        self._subscribers: Remembered[Mapping[ItemPath, int]] = Remembered(self._all_subscribers, {})

    def count(self) -> int:
        return self._own.count() + self._guests.count()

    # -- sessions -------------------------------------------------------------------------------------------------

    async def sessions(self, part: ListPart, user: str | None, adapter_set: str | None) -> SessionList:
        """The hub's own first, then those of each edge."""
        from penstock.services.admin.models import SessionList

        found = await self._own.sessions(part, user, adapter_set)
        for edge, _, _ in list(self._roll.named()):
            offset, limit = max(0, part.offset - found.total), part.limit - len(found.sessions)
            reply = await self._ask(edge, ListSessions(offset, limit, user, adapter_set))
            if reply is not None:
                more = SessionList.model_validate_json(reply.value)
                found.total += more.total
                found.sessions += more.sessions
        return found

    async def session(self, name: str) -> SessionDetail:
        from penstock.services.admin.models import SessionDetail

        if self._is_own(name):
            return await self._own.session(name)
        return SessionDetail.model_validate_json(await self._where_it_is(name, ShowSession(name)))

    async def end_session(self, name: str, code: int, message: str) -> SessionInfo:
        if self._is_own(name):
            return await self._own.end_session(name, code, message)
        return await self._session_info(name, EndSession(name, code, message))

    async def set_bandwidth(self, name: str, ruling: Ruling | None) -> SessionInfo:
        if self._is_own(name):
            return await self._own.set_bandwidth(name, ruling)
        return await self._session_info(name, LimitSession(name, *_limit(ruling)))

    async def unsubscribe(self, name: str, number: int) -> SessionInfo:
        if self._is_own(name):
            return await self._own.unsubscribe(name, number)
        return await self._session_info(name, EndSubscription(name, number))

    async def set_frequency(self, name: str, number: int, ruling: Ruling | None) -> OwnedSubscription:
        from penstock.services.admin.models import SubscriptionInfo

        if self._is_own(name):
            return await self._own.set_frequency(name, number, ruling)
        answer = await self._where_it_is(name, LimitSubscription(name, number, *_limit(ruling)))
        user, found = decode_body(tuple[str | None, bytes], answer)
        return OwnedSubscription(user, SubscriptionInfo.model_validate_json(found))

    async def _session_info(self, name: str, wish: AdminWish) -> SessionInfo:
        from penstock.services.admin.models import SessionInfo

        return SessionInfo.model_validate_json(await self._where_it_is(name, wish))

    def _is_own(self, name: str) -> bool:
        return self._own.kernel.shown_session(name) is not None

    # -- items ----------------------------------------------------------------------------------------------------

    async def items(self, part: ListPart, adapter_set: str | None, data_adapter: str | None) -> ItemList:
        """The hub has all of them; how many are subscribed to them, edges know."""
        found = await self._own.items(part, adapter_set, data_adapter)
        places = {(each.adapter_set, each.data_adapter, each.item): each for each in found.items}
        if places:
            for path, count in await self._counted(CountSubscribers(tuple(places))):
                if path in places:
                    places[path].subscribers += count
        return found

    async def _counted(self, wish: CountSubscribers) -> list[tuple[ItemPath, int]]:
        replies = await self._ask_all(wish)
        return [
            pair
            for reply in replies
            if reply is not None
            for pair in decode_body(list[tuple[ItemPath, int]], reply.value)
        ]

    # -- tables of monitoring -------------------------------------------------------------------------------------

    def tables(self) -> dict[str, Callable[[], Table]]:
        """Those that are of the whole server; what edges have is as old as the last look."""
        kernel = self._own.kernel
        return {
            "sessions": lambda: SessionsTable(kernel, self._rows.latest),
            "items": lambda: ItemsTable(kernel, self._subscribers.latest),
        }

    async def _all_rows(self) -> list[Keyed]:
        replies = await self._ask_all(ListRows())
        return [
            row
            for reply in replies
            if reply is not None
            for row in decode_body(list[tuple[str, dict[str, str | None]]], reply.value)
        ]

    async def _all_subscribers(self) -> Mapping[ItemPath, int]:
        counts: dict[ItemPath, int] = {}
        for path, count in await self._counted(CountSubscribers(None)):
            counts[path] = counts.get(path, 0) + count
        return counts

    # -- asking ---------------------------------------------------------------------------------------------------

    async def _where_it_is(self, name: str, wish: AdminWish) -> bytes:
        """Names are unique, so at most one edge does it."""
        edges = list(self._roll.named())
        replies = await asyncio.gather(*[self._ask(edge, wish) for edge, _, _ in edges])
        for reply in replies:
            if reply is not None and reply.is_here:
                if reply.problem:
                    raise AdminProblem(reply.status, reply.problem)
                return reply.value
        silent = [worker for (_, worker, _), reply in zip(edges, replies, strict=True) if reply is None]
        if silent:
            raise AdminProblem(404, f"{no_session(name)}, unless it is at {', '.join(silent)}, which does not answer")
        raise no_session(name)

    async def _ask_all(self, wish: AdminWish) -> list[AdminReply | None]:
        return await asyncio.gather(*[self._ask(edge, wish) for edge in list(self._roll.entries)])

    async def _ask(self, edge: str, wish: AdminWish) -> AdminReply | None:
        """None if there is no answer."""
        try:
            return decode_body(AdminReply, await self._guests.ask(edge, ADMINISTER, AdminQuestion(wish), PATIENCE))
        except (Refusal, FabricError) as error:
            log.warning("an edge does not answer an administrator", edge=edge, reason=str(error))
            return None


class Remembered(Generic[T]):
    """What was found last, for those who cannot wait; whoever looks at it has it found again."""

    def __init__(self, find: Callable[[], Awaitable[T]], nothing: T) -> None:
        self._find = find
        self._found = nothing
        self._begun = 0.0
        self._task: asyncio.Task[None] | None = None

    def latest(self) -> T:
        now = time.monotonic()
        if (self._task is None or self._task.done()) and now - self._begun >= PAUSE:
            self._begun = now
            self._task = asyncio.get_running_loop().create_task(self._look())
        return self._found

    async def _look(self) -> None:
        self._found = await self._find()


def _limit(ruling: Ruling | None) -> tuple[bool, float | None]:
    return (False, None) if ruling is None else (True, ruling.limit)
