"""What a metadata adapter may do to the server: end sessions and subscriptions, from any thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import get_ident
from typing import TypeVar

from penstock.kernel.errors import Cause, Refusal
from penstock.kernel.kernel import Kernel
from penstock.kernel.session import Session

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

    def _call(self, function: Callable[[], T]) -> T:
        if get_ident() == self._thread:
            return function()
        outcome: Future[T] = Future()

        def run() -> None:
            outcome.set_result(function())

        self._loop.call_soon_threadsafe(run)
        return outcome.result()

    def _find(self, session_id: str) -> Session | None:
        try:
            session = self._kernel.find_session(session_id)
        except Refusal:
            return None
        return session if session.adapter_set == self._adapter_set else None

    def _end(self, session_id: str, message: str, code: int) -> bool:
        session = self._find(session_id)
        if session is None:
            return False
        session.close(code, message or "The session was closed by the server")
        return True

    def _unsubscribe(self, session_id: str, number: int) -> bool:
        session = self._find(session_id)
        if session is None or number not in session.subscriptions:
            return False
        session.unsubscribe(number)
        return True
