"""The request that is being answered: all lines that are written meanwhile have its number.

It follows the request through tasks and adapters' threads (a context variable). Not here: who answers requests.
Read next: docs/configuration.md, "Logs".
"""

from __future__ import annotations

import logging
import secrets
from contextvars import ContextVar
from types import TracebackType

_current: ContextVar[RequestNumber | None] = ContextVar("penstock_request", default=None)


class RequestNumber:
    """`with RequestNumber():` around what answers a request; again, with the same one, where a task goes on with it.
    Never one inside another.

    Timers and tasks that are started meanwhile inherit it: afterwards it counts for them no more.
    """

    __slots__ = ("_depth", "_number")

    def __init__(self) -> None:
        self._number = ""
        self._depth = 0

    @property
    def number(self) -> str:
        """Made when it is first asked for: most requests log nothing."""
        if not self._number:
            self._number = secrets.token_hex(4)
        return self._number

    @property
    def is_answered(self) -> bool:
        """Whether nobody is at it."""
        return self._depth == 0

    def __enter__(self) -> RequestNumber:
        self._depth += 1
        _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._depth -= 1
        _current.set(None)


def number() -> str | None:
    """Of the request that is being answered here; None outside of one."""
    request = _current.get()
    return None if request is None or request.is_answered else request.number


def mark(record: logging.LogRecord) -> None:
    """Note on a line which request it is about: by the time that it is written, it may be another."""
    found = number()
    if found is not None:
        record.number = found


def incident() -> str:
    """What to tell a client of an exception that nobody expected: the number of all lines about its request."""
    return number() or secrets.token_hex(4)
