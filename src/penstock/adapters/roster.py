"""The roster: which adapters there are, what they are called, and which of them have failed.

It finds out from a stack whose code is running, without any cost to calls: one of the adapter's methods, or a function
of its module, is on that stack. Used by `watchdog`, `outlive`, and the server for its health.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType, TracebackType

from penstock.adapters.api import Adapter, DataAdapter
from penstock.adapters.call_tally import CallTally
from penstock.adapters.faults import CONTAINED
from penstock.log import get

log = get(__name__)


class Member:
    """One adapter in one set."""

    def __init__(self, adapter: Adapter, label: str, optional: bool, calls: CallTally) -> None:
        self.adapter = adapter
        self.label = label
        """`SET/NAME` of a data adapter, `SET` of a metadata adapter."""
        self.optional = optional
        self.calls = calls
        self._failure: str | None = None

    def fail(self, reason: str) -> None:
        """It has failed for good, as if it had said so itself."""
        if isinstance(self.adapter, DataAdapter):
            self.adapter.publisher.fail(reason)
        else:
            self._failure = reason
            log.error("metadata adapter has failed", adapter=self.label, reason=reason)

    def clear(self) -> bool:
        """Forget that it has failed, because what was wrong has been put right; False if it has not failed."""
        if not self.has_failed:
            return False
        self._failure = None
        if isinstance(self.adapter, DataAdapter):
            self.adapter.publisher.failure = None
        return True

    @property
    def has_failed(self) -> bool:
        """Whether it has failed for good."""
        if isinstance(self.adapter, DataAdapter) and self.adapter.publisher.failure is not None:
            return True
        return self._failure is not None

    @property
    def trouble(self) -> str | None:
        """Why it cannot do its work; None if it can. Only for the log, because adapters may write anything."""
        if self._failure is not None:
            return self._failure
        if isinstance(self.adapter, DataAdapter) and self.adapter.publisher.failure is not None:
            return self.adapter.publisher.failure
        try:
            with CONTAINED:
                return self.adapter.trouble
        except Exception as error:
            return f"its health check failed: {type(error).__name__}"


class Roster:
    """Changed on the event loop, read from any thread."""

    def __init__(self) -> None:
        self._members: list[Member] = []
        # Optional data adapters that have not come up.
        self.awaited: set[str] = set()

    def add(self, adapter: Adapter, label: str, optional: bool = False, calls: CallTally | None = None) -> Member:
        """`calls` are those of the adapter's methods, if anybody counts them."""
        member = Member(adapter, label, optional, calls or CallTally())
        self._members.append(member)
        return member

    def state_of(self, member: Member, trouble: str | None) -> str:
        """For people: `running`, `degraded`, `failed`, or `awaited`; `trouble` is what the member has just said."""
        if member.label in self.awaited:
            return "awaited"
        return "failed" if member.has_failed else "running" if trouble is None else "degraded"

    def remove(self, member: Member) -> None:
        if member in self._members:
            self._members.remove(member)

    def members(self) -> list[Member]:
        return self._members.copy()

    def running(self, frame: FrameType | None) -> list[Member]:
        """Whose code is on a stack, looked for from its innermost frame outwards; more than one where they share it."""
        return self._first_found(_outwards(frame))

    def raising(self, trace: TracebackType | None) -> list[Member]:
        """Whose code an exception comes from."""
        return self._first_found(reversed(list(_along(trace))))

    def _first_found(self, frames: Iterator[FrameType]) -> list[Member]:
        members = self.members()
        by_module: list[Member] = []
        for frame in frames:
            names = frame.f_code.co_varnames
            first = frame.f_locals.get(names[0]) if frame.f_code.co_argcount else None
            if first is not None and (found := [member for member in members if member.adapter is first]):
                return found
            if not by_module:
                module = frame.f_globals.get("__name__")
                by_module = [member for member in members if type(member.adapter).__module__ == module]
        return by_module


def labels(members: list[Member]) -> str:
    return ", ".join(dict.fromkeys(member.label for member in members)) or "unknown"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _along(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
