"""What a metadata adapter may do to the server: end sessions and subscriptions, set their limits, from any thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from threading import get_ident
from typing import TypeVar

from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.kernel import Kernel
from penstock.kernel.ports import AttendedSession

T = TypeVar("T")


class ServerHandle:
    """For the sessions of one adapter set. Made on the event loop that the kernel runs on."""

    def __init__(self, kernel: Kernel, adapter_set: str) -> None:
        self._kernel = kernel
        self._adapter_set = adapter_set
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    def end_session(self, session_id: str, message: str = "", code: int = Cause.CLOSED_BY_SERVER) -> bool:
        """End a session; clients are told a `code` of zero or below as it is. False if there is no such session."""
        return self._call(lambda: self._end(session_id, message, code))

    def unsubscribe(self, session_id: str, number: int) -> bool:
        """End a subscription of a session; False if there is no such one."""
        return self._call(lambda: self._unsubscribe(session_id, number))

    def set_bandwidth(self, session_id: str, kbps: float | None) -> bool:
        """Allow a session this much from now on, in kbit/s, None for no limit; its client is told. False if there is no
        such session. What an administrator has set holds until it is taken back.
        """
        _check_limit(kbps)
        return self._call(lambda: self._set_bandwidth(session_id, kbps))

    def set_frequency(self, session_id: str, number: int, updates: float | None) -> bool:
        """Allow each item of a subscription so many updates a second from now on, None for no limit; its client is
        told. False if there is no such subscription; a ValueError if it cannot have a limit: in RAW mode, unfiltered.
        """
        _check_limit(updates)
        return self._call(lambda: self._set_frequency(session_id, number, updates))

    def _call(self, function: Callable[[], T]) -> T:
        if get_ident() == self._thread:
            return function()
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(function())
            except Exception as error:
                outcome.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return outcome.result()

    def _find(self, session_id: str) -> AttendedSession | None:
        session = self._kernel.attended_session(session_id)
        return session if session is not None and session.adapter_set == self._adapter_set else None

    def _end(self, session_id: str, message: str, code: int) -> bool:
        session = self._find(session_id)
        if session is None:
            return False
        session.close(code, message or "The session was closed by the server")
        return True

    def _set_bandwidth(self, session_id: str, kbps: float | None) -> bool:
        session = self._find(session_id)
        if session is None:
            return False
        session.allow_bandwidth(kbps)
        return True

    def _set_frequency(self, session_id: str, number: int, updates: float | None) -> bool:
        session = self._find(session_id)
        if session is None:
            return False
        try:
            session.allow_frequency(number, updates)
        except Refusal as refusal:
            if refusal.reason is Reason.UNKNOWN_SUBSCRIPTION:
                return False
            raise ValueError(refusal.message) from None
        return True

    def _unsubscribe(self, session_id: str, number: int) -> bool:
        session = self._find(session_id)
        if session is None:
            return False
        try:
            session.unsubscribe(number)
        except Refusal:
            return False
        return True


def _check_limit(limit: float | None) -> None:
    if limit is not None and not is_limit(limit):
        raise ValueError(f"{limit!r} is not a limit; expected a number above 0, or None for no limit")


def is_limit(value: object) -> bool:
    """Whether adapters may give this as a limit of bandwidth or frequency."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf
