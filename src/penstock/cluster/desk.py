"""The hub's desk for push notifications, at an edge: what clients ask for about devices and subscriptions, over calls.

It is the `PushDesk` of `penstock.doors.tlcp.push`. Nothing is asked twice: what may have been done is not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cluster.edge_calls import EdgeCalls
from penstock.cluster.refusals import CallUnanswered
from penstock.kernel.ports import AttendedSession
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.fabric.calls import decode_body, push_body
from penstock.wire.tlcp.push import (
    ActivatePush,
    DeactivatePush,
    PushControl,
    ReconfigurePush,
    RegisterDevice,
    ResetBadge,
)


class EdgeDesk:
    """For the sessions of all adapter sets. A hub without push notifications says so."""

    def __init__(self, calls: EdgeCalls) -> None:
        self._calls = calls

    async def register(self, session: AttendedSession, request: RegisterDevice) -> tuple[str, str]:
        device, data_adapter = await self._ask(session, request)
        if session.id in self._calls.residents:
            self._calls.devices[session.id] = device
        return device, data_adapter

    async def reset_badge(self, session: AttendedSession, request: ResetBadge) -> None:
        await self._ask(session, request)

    async def activate(self, session: AttendedSession, request: ActivatePush) -> str:
        (subscription,) = await self._ask(session, request)
        return subscription

    async def reconfigure(self, session: AttendedSession, request: ReconfigurePush) -> None:
        await self._ask(session, request)

    async def deactivate(self, session: AttendedSession, request: DeactivatePush) -> Sequence[str]:
        return await self._ask(session, request)

    async def _ask(self, session: AttendedSession, request: PushControl) -> list[str]:
        try:
            body = push_body(session.id, request)
            return decode_body(list[str], await self._calls.ask("push", body, session.id, repeatable=False))
        except CallUnanswered as unanswered:
            raise PushRefusal(PushReason.UNAVAILABLE, unanswered.message) from None
