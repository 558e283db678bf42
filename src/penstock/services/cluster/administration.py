"""An edge as administrators steer it: its sessions, who is let in, and its drain, as the hub asks for it.

What is done is in `penstock.services.admin`; the hub's side is `clients`, and `hub` for the gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Raw

from penstock.cluster.derived import real_name
from penstock.doors.gate import BlockKey, BlockScope, Gate
from penstock.kernel.kernel import Kernel
from penstock.kernel.ruling import Ruling
from penstock.log import LevelError, get, set_levels_alone
from penstock.services.admin.clients import OwnClients
from penstock.services.admin.drain import Drain
from penstock.services.admin.problems import AdminProblem
from penstock.services.tables import SessionsTable
from penstock.wire.fabric.administration import (
    AdminQuestion,
    AdminReply,
    AdminWish,
    CountSubscribers,
    EndSession,
    EndSubscription,
    GateBody,
    ItemPath,
    LevelsBody,
    LimitSession,
    LimitSubscription,
    ListRows,
    ListSessions,
    ShowSession,
)
from penstock.wire.fabric.calls import decode_body, encode_body

if TYPE_CHECKING:
    from pydantic import BaseModel

    from penstock.cluster.edge_calls import EdgeCalls

log = get(__name__)

# The calls that edges answer.
ADMINISTER = "administer"
GATE = "gate"
LEVELS = "levels"

# How many rows or items are looked at before everybody else has a turn.
PER_TURN = 200


class EdgeAdministration:
    """Lives on the event loop."""

    def __init__(
        self, kernel: Kernel, gate: Gate, calls: EdgeCalls, join: Callable[[bool], Awaitable[None]] | None
    ) -> None:
        """`join` has it listen at ports that it shares with others, or leave them to those; None: it shares none."""
        # What stops the process, for a drain that ends so; None: this edge runs inside another program.
        self.stop: Callable[[], None] | None = None
        self._join = join
        self._kernel = kernel
        self._gate = gate
        self._clients = OwnClients(kernel)
        self.drain = Drain(kernel, gate, self._clients.count)
        # It remembers the last time, because rows have rates.
        self._rows = SessionsTable(kernel)
        calls.methods[ADMINISTER] = self._administer
        calls.methods[GATE] = self._take_gate
        calls.methods[LEVELS] = _take_levels

    # -- who is let in --------------------------------------------------------------------------------------------

    async def _take_gate(self, body: Raw) -> bytes:
        wanted = decode_body(GateBody, body)
        # A scope that this release does not know cannot be kept to.
        known = {scope.value: scope for scope in BlockScope}
        self._gate.blocks = {BlockKey(known[scope], name): by for scope, name, by in wanted.blocks if scope in known}
        if wanted.draining:
            self.drain.begin(wanted.seconds_left, self.stop if wanted.stop else None)
        elif self.drain.is_on:
            self.drain.cancel()
        if self._join is not None:
            # The system would still give it a part of all new clients.
            await self._join(not (wanted.draining and wanted.others))
        return encode_body(None)

    # -- sessions and items ---------------------------------------------------------------------------------------

    async def _administer(self, body: Raw) -> bytes:
        wish = decode_body(AdminQuestion, body).wish
        name = getattr(wish, "session", None)
        if name is not None and self._kernel.shown_session(name) is None:
            return encode_body(AdminReply(is_here=False))
        try:
            return encode_body(AdminReply(await self._do(wish)))
        except AdminProblem as problem:
            return encode_body(AdminReply(problem=str(problem), status=problem.status))

    async def _do(self, wish: AdminWish) -> bytes:
        clients = self._clients
        match wish:
            case ListSessions(offset, limit, user, adapter_set):
                from penstock.services.admin.lists import ListPart  # takes its time to load

                return _json(await clients.sessions(ListPart(offset, limit), user, adapter_set))
            case ShowSession(session):
                return _json(await clients.session(session))
            case EndSession(session, code, message):
                return _json(await clients.end_session(session, code, message))
            case LimitSession(session, ruled, limit):
                return _json(await clients.set_bandwidth(session, Ruling(limit) if ruled else None))
            case EndSubscription(session, number):
                return _json(await clients.unsubscribe(session, number))
            case LimitSubscription(session, number, ruled, limit):
                user, found = await clients.set_frequency(session, number, Ruling(limit) if ruled else None)
                return encode_body((user, _json(found)))
            case CountSubscribers(items):
                return encode_body(await self._subscribers(None if items is None else set(items)))
            case ListRows():
                return encode_body(await self._all_rows())

    async def _subscribers(self, wanted: set[ItemPath] | None) -> list[tuple[ItemPath, int]]:
        counts: dict[ItemPath, int] = {}
        seen = 0
        for feed in list(self._kernel.feeds.values()):
            for item in list(feed.items.values()):
                seen += 1
                if seen % PER_TURN == 0:
                    await asyncio.sleep(0)
                path = feed.adapter_set, feed.name, real_name(item.name)
                if item.audience and (wanted is None or path in wanted):
                    counts[path] = counts.get(path, 0) + item.audience
        return list(counts.items())

    async def _all_rows(self) -> list[tuple[str, dict[str, str | None]]]:
        found = []
        for each in self._rows():
            found.append(each)
            if len(found) % PER_TURN == 0:
                await asyncio.sleep(0)
        return found


async def _take_levels(body: Raw) -> bytes:
    try:
        set_levels_alone(decode_body(LevelsBody, body).levels)
    except LevelError as error:
        # The hub may be of another release, which has other categories.
        log.warning("levels of the log that the hub has set are not possible here", reason=str(error))
    return encode_body(None)


def _json(model: BaseModel) -> bytes:
    return model.model_dump_json().encode()
