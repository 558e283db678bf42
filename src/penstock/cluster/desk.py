"""The hub's desk for push notifications, at an edge: what clients ask for about devices and subscriptions, over calls.

It is the `PushDesk` of `penstock.doors.tlcp.push`. Nothing is asked twice: what may have been done is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.cluster.edge_calls import EdgeCalls
from penstock.cluster.refusals import CallUnanswered
from penstock.kernel.ports import AttendedSession
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.fabric.calls import decode_body, push_body
from penstock.wire.tlcp.push import PushControl, RegisterDevice


class EdgeDesk:
    """For the sessions of all adapter sets. A hub without push notifications says so."""

    def __init__(self, calls: EdgeCalls) -> None:
        self._calls = calls

    async def carry_out(
        self, session: AttendedSession, request: PushControl, answer: Callable[[Sequence[str]], None]
    ) -> None:
        try:
            body = push_body(session.id, request)
            told = decode_body(list[str], await self._calls.ask("push", body, session.id, repeatable=False))
        except CallUnanswered as unanswered:
            raise PushRefusal(PushReason.UNAVAILABLE, unanswered.message) from None
        if isinstance(request, RegisterDevice) and session.id in self._calls.residents:
            self._calls.devices[session.id] = told[0]
        answer(told)
